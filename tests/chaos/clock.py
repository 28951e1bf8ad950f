"""The wall clock of a process, which a test sets while it runs. The clock of the boot goes on as it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

READ_AGAIN: Final = 1.5
"""Seconds after which a running process has seen that its clock was set."""
_LOOK: Final = "import time; print(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))"


class Clock:
    """Off by what was set last, such as "+1h", "-1d" or "-10s"."""

    def __init__(self, file: Path, library: Path) -> None:
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            # Before 0.9.10 and since then.
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set("+0s")

    def set(self, jump: str) -> None:
        """Running processes see it within `READ_AGAIN` seconds."""
        # A file that is being written reads as empty.
        written = self._file.with_suffix(".new")
        written.write_text(jump)
        written.replace(self._file)


def clock(directory: Path) -> Clock:
    """Right at first. The test is skipped where the library does not run."""
    found = importlib.util.find_spec("libfaketime")
    if found is None or found.origin is None:
        pytest.skip("libfaketime is not installed")
    library = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    made = Clock(directory / "clock", library)
    if abs(_offset(made) - _offset(None)) > 60:
        pytest.skip("libfaketime sets more clocks here than the wall's")
    made.set("+1h")
    if abs(_offset(made) - _offset(None) - 3600) > 60:
        pytest.skip("libfaketime sets no clock here")
    made.set("+0s")
    return made


def _offset(clock: Clock | None) -> float:
    environment = clock.environment if clock is not None else {}
    done = subprocess.run([sys.executable, "-c", _LOOK], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
