"""The border where SQL and file errors become `DataDirError`: one line that says what to do."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from core.errors import DataDirError

# These come from wrong code, not from the state of the disk: they keep their name and their trace.
_OURS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.NotSupportedError,
    sqlite3.DataError,
)
_NOT_WRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})


@contextmanager
def data_dir_errors(path: Path) -> Iterator[None]:
    """Whatever the database at `path` or its disk raises inside, raised again as `DataDirError`."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, sqlite3.Error) or isinstance(cause, _OURS):
            raise
        raise DataDirError(_explained(path, cause)) from error
    except NoConnectionFree as error:
        raise DataDirError(f"{path} is too busy: try again in a minute") from error
    except OSError as error:
        raise DataDirError(_os_explained(path, error)) from error


def damaged(path: Path, found: str) -> DataDirError:
    """The error for a database that must not be touched any more."""
    return DataDirError(
        f"{path} is damaged ({found}) and was left as it is: put {_backup(path)} in its place, "
        f"or move it away together with {path.name}-wal to start empty"
    )


def not_writable(path: Path) -> DataDirError:
    """The error for a place where the store may not write."""
    return DataDirError(
        f"{path} cannot be written: make it and its directory writable for this user, or point DATA_DIR elsewhere"
    )


def backups_of(path: Path) -> list[Path]:
    """The copies of the database that were made before migrations, and what is left of unfinished ones."""
    return [other for other in path.parent.iterdir() if other.name.startswith(f"{path.name}.before-")]


def _explained(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the extended part
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return str(damaged(path, str(error)))
    if code == sqlite3.SQLITE_FULL:
        return _full(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is locked by another program: close it, then try again"
    if code in _NOT_WRITABLE:
        return str(not_writable(path))
    if code == sqlite3.SQLITE_IOERR:
        return f"{path} could not be read or written ({error}): check that its disk is sound and not full"
    return f"{path} cannot be used ({error}): put {_backup(path)} in its place, or point DATA_DIR elsewhere"


def _backup(path: Path) -> str:
    with suppress(OSError):
        if backups := sorted(backups_of(path)):
            return f"the backup {backups[-1].name}"
    return "a backup"


def _os_explained(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return str(not_writable(path))
    return f"{path} cannot be used ({error.strerror or error}): point DATA_DIR elsewhere"


def _full(path: Path) -> str:
    return f"the disk is full, {path} takes no more: free some space there, then try again"
