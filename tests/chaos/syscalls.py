"""What a process asked of the kernel, in the order in which it did, as `strace` saw it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

TRACED: Final = "fsync,fdatasync,sendto,recvfrom"
_LINE: Final = re.compile(r"^(?P<thread>\d+) +(?P<call>.*)$")
_RESUMED: Final = re.compile(r"^<\.\.\. \w+ resumed>(?P<rest>.*)$")
_UNFINISHED: Final = " <unfinished ...>"


def strace(trace: Path) -> tuple[str, ...]:
    """The words before a command whose system calls go to `trace`; the test is skipped where that is not to be had.

    `-D`: the process stays the child of the test, so signals and exit codes are its own.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    words = ("strace", "-D", "-f", "-y", "-s", "4096", "-e", f"trace={TRACED}", "-o")
    with tempfile.NamedTemporaryFile() as tried:
        done = subprocess.run([*words, tried.name, "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "ptrace" in done.stderr:
        pytest.skip(f"this machine lets nobody trace: {done.stderr.strip()[:200]}")
    return (*words, str(trace))


def calls(trace: Path) -> list[str]:
    """Each call where it had ended, whatever other threads did meanwhile."""
    begun: dict[str, str] = {}
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        thread, call = match["thread"], match["call"]
        if call.endswith(_UNFINISHED):
            begun[thread] = call.removesuffix(_UNFINISHED)
            continue
        if (resumed := _RESUMED.match(call)) is not None:
            call = begun.pop(thread, "") + resumed["rest"]
        found.append(call)
    return found


def is_sync_of(call: str, path: Path) -> bool:
    """Whether the call brought what was written to `path` to the disk."""
    return call.startswith(("fsync(", "fdatasync(")) and f"<{path}>" in call and call.endswith("= 0")
