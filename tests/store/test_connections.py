"""The connections: their settings, what they may do, and what a cancelled call leaves of them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import event, func, select, text

from adapters.jobs import Job
from adapters.ports import TurnState
from adapters.store import SqlConversationStore
from adapters.store.database import READERS
from adapters.store.models import ThreadRow
from core.errors import DataDirError
from tests.store.builders import answer, ask, finish, history, key, said
from tests.store.conftest import Opener


async def test_every_pooled_connection_has_every_setting(store: SqlConversationStore):
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "busy_timeout": 5000,
        "foreign_keys": 1,
        "secure_delete": 1,
    }
    database = store.database
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(database.read()) for _ in range(READERS)]
        sessions.append(await stack.enter_async_context(database.write()))
        for session in sessions:
            found = {name: await session.scalar(text(f"PRAGMA {name}")) for name in wanted}
            assert found == wanted


async def test_readers_cannot_write(store: SqlConversationStore):
    with pytest.raises(DataDirError, match="cannot be written"):
        async with store.database.read() as session:
            await session.execute(text("DELETE FROM turns"))


async def test_what_is_read_in_one_transaction_is_of_one_moment(store: SqlConversationStore):
    async with store.database.read() as session:
        counts = [await session.scalar(select(func.count()).select_from(ThreadRow))]
        await ask(store, said("m1"))
        counts.append(await session.scalar(select(func.count()).select_from(ThreadRow)))
    assert counts == [0, 0]
    assert len(await store.turns(key())) == 1


async def test_a_cancelled_call_leaves_no_transaction_open(
    store: SqlConversationStore, caplog: pytest.LogCaptureFixture
):
    """Without the shield a later question finds the database locked by our own abandoned connection."""
    engine = store.database.writer.sync_engine
    loop = asyncio.get_running_loop()
    steps = 0
    left_until_cancel = 0
    task: asyncio.Task[Job | None]

    def step(*_: object) -> None:
        nonlocal steps, left_until_cancel
        steps, left_until_cancel = steps + 1, left_until_cancel - 1
        if left_until_cancel == 0:
            loop.call_soon(task.cancel)  # by then the driver's thread is at work on it

    event.listen(engine, "before_cursor_execute", step)
    event.listen(engine, "commit", step)
    await ask(store, said("m0"))
    in_one_call = steps
    assert in_one_call >= 5
    for n in range(1, in_one_call + 1):
        left_until_cancel = n
        task = asyncio.create_task(ask(store, said(f"m{n}")))
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.wait_for(ask(store, said("after")), 2) is not None
    assert len(await store.turns(key())) == in_one_call + 2
    assert "Exception" not in caplog.text


async def test_closing_waits_for_what_is_being_written(open_store: Opener):
    store = await open_store()
    tasks = [asyncio.create_task(ask(store, said(f"m{n}"))) for n in range(10)]
    await asyncio.sleep(0)
    await store.close()
    assert None not in await asyncio.gather(*tasks)
    with pytest.raises(RuntimeError, match="closed"):
        await ask(store, said("late"))
    assert len(await (await open_store()).turns(key())) == 10


async def test_the_sql_of_the_store_is_no_dialect(store: SqlConversationStore):
    """What SQLite alone understands stays in the set-up of connections."""
    seen: list[str] = []

    def note(connection, cursor, statement, parameters, context, executemany) -> None:
        seen.append(statement)

    for engine in (store.database.writer, store.database.readers):
        event.listen(engine.sync_engine, "before_cursor_execute", note)
    job = await ask(store, said("m1"))
    assert job is not None
    await finish(store, job, answer(), TurnState.ANSWERED)
    await history(store, job, 8)
    backlog = await store.backlog(key())
    assert backlog is not None
    await store.condense(backlog, 1, "short")
    await store.last_turn(key())
    await store.threads("terminal", 1)
    await store.abandon("terminal")
    await store.forget(key())
    assert len(seen) > 10
    spoken = " ".join(statement for statement in seen if not statement.startswith("BEGIN")).upper()
    for word in ("PRAGMA", "SQLITE_", "ROWID", " OR IGNORE", " OR REPLACE", "ON CONFLICT", "STRFTIME", "JSON_"):
        assert word not in spoken
