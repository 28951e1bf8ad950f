"""One Threadwise at a time in a data directory: two would hide each other's vectors."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from core.errors import DataDirError
from core.index.database import data_dir_errors, make_directory


class DataDirLock:
    """Held until `close`, or until the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def lock_data_dir(data_dir: Path) -> DataDirLock:
    """Takes `data_dir`, which is created, for this process. Raises `DataDirError` if another one has it."""
    make_directory(data_dir)
    path = data_dir / "lock"
    with data_dir_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DataDirError(f"another Threadwise is using {data_dir}: stop it first") from None
        except BaseException:
            os.close(descriptor)
            raise
    return DataDirLock(descriptor)
