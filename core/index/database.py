"""Connections to `passages.db`: one that writes, a few that read, and what their errors mean.

Unlike the conversations, this file is derived data: `synchronous=NORMAL` may lose the last commits to a
power cut, never the file, and the next ingest makes them again.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from core.errors import DataDirError
from core.unbroken import Unbroken

READERS: Final = 4
_BUSY_MILLISECONDS: Final = 5000


class Database:
    """Connections to one SQLite file, made when needed, until `close`. To be used inside `unbroken` work only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unbroken = Unbroken(str(path))
        self._writer = _engine(path, 1, "BEGIN IMMEDIATE")
        self._readers = _engine(path, READERS, "BEGIN")
        self._writing = asyncio.Lock()
        self.writes = 0
        """Write transactions so far: what was read before is old when it has moved on."""

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """One write transaction, committed at the end. Raises `DataDirError`."""
        async with self._writing:
            try:
                with data_dir_errors(self.path):
                    async with self._writer.begin() as connection:
                        yield connection
            finally:
                self.writes += 1

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """One snapshot; it waits for no writer. Raises `DataDirError`."""
        with data_dir_errors(self.path):
            async with self._readers.connect() as connection:
                yield connection

    async def empty_log(self) -> None:
        """Copies the write-ahead log into the file and cuts it: it may hold text that was removed."""
        async with self._writing:
            with data_dir_errors(self.path):
                async with self._writer.connect() as connection:
                    # Past SQLAlchemy, which would begin a transaction; a checkpoint is refused inside one.
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    await driver.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        """Lets the running work end, then closes every connection, the writer last: it cleans up the log."""
        await self.unbroken.close()
        await self._readers.dispose()
        await self._writer.dispose()


@contextmanager
def data_dir_errors(path: Path) -> Iterator[None]:
    """Whatever the file at `path` or its disk raises inside, raised again as `DataDirError`."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # What breaks a rule of the schema is a mistake of ours: the file is sound.
        if not isinstance(cause, sqlite3.DatabaseError) or isinstance(cause, sqlite3.IntegrityError):
            raise
        raise DataDirError(_explained(path, cause)) from error
    except OSError as error:
        raise DataDirError(f"{path.parent} cannot be used: {(error.strerror or str(error)).lower()}") from error


def damaged(path: Path, found: str) -> DataDirError:
    """The error for a file that cannot be trusted any more."""
    return DataDirError(
        f"{path} is damaged ({' '.join(found.split())}): delete {path.parent} and run `threadwise ingest` again; "
        "conversations are not touched"
    )


def _explained(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the extended part
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return str(damaged(path, str(error)))
    if code == sqlite3.SQLITE_FULL:
        return f"the disk is full, {path} takes no more: free some space, then run `threadwise ingest` again"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is locked by another program: close it, then try again"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"{path} cannot be written: make {path.parent} writable for this user, or point DATA_DIR elsewhere"
    return f"{path} cannot be used ({error}): check its disk, or delete {path.parent} and ingest again"


def make_directory(path: Path) -> None:
    """Creates the private directory `path`, or makes sure that it can be written. Raises `DataDirError`."""
    with data_dir_errors(path / "_"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    effective = os.access in os.supports_effective_ids
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=effective):
        raise DataDirError(f"{path} cannot be written: make it writable for this user, or point DATA_DIR elsewhere")


def absolute(path: Path) -> Path:
    """`path` as it will mean the same from any working directory; links in it stay."""
    return Path(os.path.abspath(path))


def _engine(path: Path, connections: int, begin: str) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        # Without None the driver begins transactions by itself, deferred ones, and not always.
        connect_args={"isolation_level": None},
        pool_size=connections,
        max_overflow=0,
        hide_parameters=True,  # errors are logged; texts of documents are not
    )

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "begin", begun)
    return engine


def _set_up(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    """Every pragma is a property of one connection, so every new one gets them all."""
    try:
        cursor = connection.cursor()
        for pragma in (
            f"busy_timeout = {_BUSY_MILLISECONDS}",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
            "secure_delete = ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
    except BaseException:
        connection.close()  # the pool forgets a connection whose set-up failed, and does not close it
        raise
