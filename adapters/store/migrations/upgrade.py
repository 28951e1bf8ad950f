"""Brings a database to this version: a backup, then every missing step in one transaction."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, NullPool, create_engine, event
from sqlalchemy.exc import OperationalError

from adapters.fault import fault
from adapters.store import migrations
from adapters.store.faults import damaged
from core.errors import DataDirError

log = logging.getLogger(__name__)

STEPS = Path(__file__).parent
_one_at_a_time = threading.Lock()  # Alembic keeps the running migration in module globals


def upgrade(path: Path, found: str | None, busy_timeout: float) -> None:
    """From revision `found` (None: an empty file) to the newest; on any error the database is as it was."""
    backup = back_up(path, busy_timeout) if found is not None else None

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")
        # Foreign keys stay off: rebuilding a table drops the old one, which would delete all that refers to it.
        connection.execute("PRAGMA foreign_keys = OFF")
        return connection

    # The file is given to the creator alone: no URL has to survive a "?" or "%" in a path.
    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "begin", _begin)
    try:
        with _one_at_a_time, engine.begin() as connection:
            _run(connection)
            fault("K14")
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise damaged(path, "turns without a thread")
    except (DataDirError, OperationalError, OSError):
        raise
    except Exception as error:
        # Whatever a migration raises: its transaction is undone, and the operator has to know what to do.
        reason = " ".join(str(getattr(error, "orig", error)).split())
        kept = f", and {backup.name} is a copy" if backup else ""
        raise DataDirError(
            f"{path} could not be updated ({reason}): go back to the Threadwise that made it; "
            f"it was left as it was{kept}"
        ) from error
    finally:
        engine.dispose()
    log.info("%s is at revision %s", path, migrations.HEAD)


def back_up(path: Path, busy_timeout: float) -> Path:
    """A whole, readable copy beside the database; it replaces one of an earlier attempt."""
    backup = path.with_name(f"{path.name}.before-{migrations.HEAD}")
    partial = backup.with_name(f"{backup.name}.tmp")
    partial.unlink(missing_ok=True)
    # SQLite would create the copy readable for everybody; it accepts an empty file.
    descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with closing(sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)) as connection:
            connection.execute("VACUUM INTO ?", (str(partial),))
        os.fsync(descriptor)  # VACUUM INTO does not
        partial.replace(backup)
    except BaseException:  # interrupted as well: half a copy must not stay
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return backup


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _run(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
