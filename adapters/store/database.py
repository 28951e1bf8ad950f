"""Connections to the database: one that writes, a few that read, and the transactions on them.

The settings are those of SQLite; all that follows from them for the store is `write` and `read`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from adapters.store.faults import data_dir_errors
from adapters.store.writer_lock import WriterLock
from core.errors import DataDirError
from core.unbroken import Unbroken

BUSY_TIMEOUT = 5.0
READERS = 4

T = TypeVar("T")


class Database:
    """Open from `connect` to `close`."""

    def __init__(self, path: Path, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self.path = path
        self.writer = _engine(path, 1, busy_timeout, read_only=False)
        self.readers = _engine(path, READERS, busy_timeout, read_only=True)
        event.listen(self.writer.sync_engine, "begin", begin_immediate)
        event.listen(self.readers.sync_engine, "begin", begin_deferred)
        self._writing = WriterLock()
        self._unbroken = Unbroken("the store")

    async def connect(self) -> None:
        """Opens the writer, so that a database that cannot be used is known at the start."""
        with data_dir_errors(self.path):
            async with self.writer.connect():
                pass

    async def close(self) -> None:
        """Lets the running work end, then closes every connection. The writer is last: it cleans up the log."""
        await self._unbroken.close()
        with data_dir_errors(self.path):
            await self.readers.dispose()
            await self.writer.dispose()

    @asynccontextmanager
    async def write(self, *, urgent: bool = False) -> AsyncIterator[AsyncSession]:
        """One write transaction, committed at the end. Writers take turns in the order of their calls, urgent first."""
        # The pool would let a newcomer overtake those who wait for the only connection; the lock does not.
        async with self._writing.hold(urgent=urgent):
            with data_dir_errors(self.path):
                async with _session(self.writer) as session, session.begin():
                    yield session

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """One snapshot. It waits for no writer and holds up none."""
        with data_dir_errors(self.path):
            async with _session(self.readers) as session, session.begin():
                yield session

    async def empty_log(self) -> None:
        """Copies the write-ahead log into the database and cuts it to nothing: it holds old contents of rows."""
        async with self._writing.hold():
            with data_dir_errors(self.path):
                async with self.writer.connect() as connection:
                    # Past SQLAlchemy: a checkpoint is refused inside a transaction, and SQLAlchemy begins one.
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    rows = await driver.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
            (busy, *_), *_ = rows
            if busy:
                raise DataDirError(
                    f"{self.path} is being read by another program, so that deleted text is still in "
                    f"{self.path.name}-wal: close it, then forget again"
                )

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work`, which goes on to its end when the caller is cancelled."""
        return await self._unbroken.run(work)


def begin_immediate(connection: Connection) -> None:
    """Takes the write lock at once: a transaction that reads first and locks later loses updates or fails."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def begin_deferred(connection: Connection) -> None:
    """One snapshot for all that is read in the transaction."""
    connection.exec_driver_sql("BEGIN")


def _session(engine: AsyncEngine) -> AsyncSession:
    # One for each transaction: a session must not be shared between tasks.
    return AsyncSession(engine, expire_on_commit=False)


def _engine(path: Path, connections: int, busy_timeout: float, *, read_only: bool) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        # Without None the driver begins transactions by itself, deferred ones, and not always.
        connect_args={"timeout": busy_timeout, "isolation_level": None},
        pool_size=connections,
        max_overflow=0,
        hide_parameters=True,  # errors are logged; what people typed is not
    )
    event.listen(engine.sync_engine, "connect", partial(_set_up, busy_timeout=busy_timeout, read_only=read_only))
    return engine


def _set_up(connection: DBAPIConnection, entry: ConnectionPoolEntry, *, busy_timeout: float, read_only: bool) -> None:
    """Every pragma is a property of one connection, so every new one gets them all."""
    try:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout * 1000)}")
        cursor.execute("PRAGMA journal_mode = WAL")
        mode = cursor.fetchone()
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA secure_delete = ON")
        cursor.execute(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")
        cursor.close()
        if mode is None or mode[0] != "wal":
            raise DataDirError("the disk of DATA_DIR cannot share a database (network drive?): use a local disk")
    except BaseException:
        connection.close()  # the pool forgets a connection whose set-up failed, and does not close it
        raise
