"""The database file: where it is, whether it is sound, and which version made it.

All of it happens before a connection that could write is opened. Such a connection, when it is closed, copies the
write-ahead log into the database and removes it: on a damaged file that destroys what could have been saved.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

from adapters.store.faults import damaged, data_dir_errors, not_writable
from adapters.store.migrations import HEAD, REVISIONS
from core.errors import DataDirError

log = logging.getLogger(__name__)

WAL_RESET_FIXED = (3, 51, 3)


def prepare(path: Path, busy_timeout: float) -> Path:
    """Makes sure of a sound database of this version at `path`; its absolute path.

    Otherwise raises `DataDirError` and leaves what is there as it is.
    """
    path = path.absolute()
    _log_version()
    with data_dir_errors(path):
        _directory(path)
        _file(path)
        found = _inspect(path, busy_timeout)
        if found != HEAD:
            # Alembic takes longer to import than all the rest of a start.
            from adapters.store.migrations.upgrade import upgrade

            upgrade(path, found, busy_timeout)
    return path


def _directory(path: Path) -> None:
    directory = path.parent
    if not directory.exists():
        if not directory.parent.is_dir():
            raise DataDirError(f"{directory.parent} does not exist: create it, or point DATA_DIR elsewhere")
        directory.mkdir(mode=0o700)
    if not directory.is_dir():
        raise DataDirError(f"{directory} is not a directory: point DATA_DIR elsewhere")
    if not _may(directory, os.W_OK | os.X_OK):
        raise not_writable(path)


def _file(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise DataDirError(f"{path} is not a file: move it away, or point DATA_DIR elsewhere")
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size and not (path.exists() and path.stat().st_size):
        # SQLite would take the log for a stale one and remove it, and with it the newest turns.
        raise damaged(path, f"it is missing or empty, but {wal.name} is there")
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if not _may(path, os.R_OK | os.W_OK):
        raise not_writable(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _inspect(path: Path, busy_timeout: float) -> str | None:
    """The revision of the database, None for an empty one. Read-only, see above."""
    uri = f"file:{quote(str(path))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=busy_timeout, isolation_level=None)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        found = None
        if tables:
            found = _revision(path, connection) if "alembic_version" in tables else ""
            if not found:
                raise DataDirError(f"{path} is not a Threadwise database: move it away")
            if found not in REVISIONS:
                raise DataDirError(
                    f"{path} was made by a newer Threadwise: update Threadwise, or point DATA_DIR elsewhere"
                )
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise damaged(path, " ".join(str(verdict).split()))
        return found


def _revision(path: Path, connection: sqlite3.Connection) -> str:
    rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    return str(rows[0][0]) if len(rows) == 1 else ""


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


@cache
def _log_version() -> None:
    # Two connections that write at once can, rarely, damage a database in older ones. Threadwise writes with one, so
    # that there is nothing to do for an operator; other programs had better not write in it.
    note = (
        "" if sqlite3.sqlite_version_info >= WAL_RESET_FIXED else " (before 3.51.3: never write with a second program)"
    )
    log.info("SQLite %s%s", sqlite3.sqlite_version, note)
