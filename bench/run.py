"""What every part of the benchmark is given, and where it may write."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.config import Settings, load

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"

Advance = Callable[[str, int, int], None]
"""Told what goes on, how much of it is done, and of how much (0: not known)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the benchmark."""

    data_dir: Path
    """`DATA_DIR`: the embedded model's files are taken from here, all that is written goes to `bench` inside."""
    advance: Advance

    @property
    def directory(self) -> Path:
        return self.data_dir / "bench"

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty directory, on the disk that the bot would use, until the end of the block."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.directory, prefix="run-", ignore_cleanup_errors=True) as name:
            yield Path(name)


def settings_for(data_dir: Path, **values: str) -> Settings:
    """Settings made of `values` alone: neither the environment nor a file `.env` changes a measurement."""
    return load({"DATA_DIR": str(data_dir), **values})
