"""Several tasks, several connections, several processes: nothing lost, nothing locked."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError

from adapters.ports import TurnState
from adapters.store import SqlConversationStore, admission
from adapters.store.database import Database, begin_immediate
from adapters.store.models import ThreadRow
from core.errors import DataDirError
from tests.store.builders import answer, ask, finish, history, key, said
from tests.store.conftest import Opener

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("COMMIT")
"""


@contextmanager
def write_lock_elsewhere(path: Path, seconds: float) -> Iterator[None]:
    """Another process has the write lock from now on, for so long."""
    command = [sys.executable, "-c", HOLD, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
async def processes(made: Path, open_store: Opener) -> list[Database]:
    """Four openings of one file, each with its own writer, as four processes would have."""
    return [(await open_store()).database for _ in range(4)]


async def count_up(database: Database) -> None:
    """Read, think, write."""
    async with database.write() as session:
        thread = (await session.scalars(select(ThreadRow))).one()
        await asyncio.sleep(0.01)
        thread.summary_seq += 1


async def twenty_count_up(processes: list[Database]) -> int:
    """What the counter has lost of twenty."""
    await ask(SqlConversationStore(processes[0]), said("m1"))
    await asyncio.gather(*(count_up(processes[n % 4]) for n in range(20)))
    async with processes[0].read() as session:
        return 20 - (await session.scalars(select(ThreadRow))).one().summary_seq


async def test_twenty_writers_lose_no_update(processes: list[Database]):
    """M2."""
    assert await twenty_count_up(processes) == 0


async def test_twenty_writers_lose_updates_without_the_begin_hook(processes: list[Database]):
    """The proof that the test above tests the hook."""
    for database in processes:
        event.remove(database.writer.sync_engine, "begin", begin_immediate)
    assert await twenty_count_up(processes) > 0


async def test_twenty_threads_wait_out_a_lock_while_a_reader_reads_on(
    store: SqlConversationStore, path: Path, caplog: pytest.LogCaptureFixture
):
    """B100: 2 s of another process's write lock."""
    caplog.set_level(logging.DEBUG)
    reads: list[float] = []

    async def converse(n: int) -> None:
        job = await ask(store, said(f"m{n}", thread=key(f"t{n}")))
        assert job is not None
        await history(store, job, 8)
        await finish(store, job, answer(), TurnState.ANSWERED)

    async def read_on() -> None:
        while True:
            await store.threads("terminal", 100)
            reads.append(time.monotonic())
            await asyncio.sleep(0.02)

    reader = asyncio.create_task(read_on())
    started = time.monotonic()
    with write_lock_elsewhere(path, 2):
        await asyncio.gather(*(converse(n) for n in range(20)))
    assert time.monotonic() - started >= 1.9, "the lock did not hold anybody up"
    assert not reader.done()
    reader.cancel()
    listed = await store.threads("terminal", 100)
    assert sum(info.turns for info in listed) == 20
    assert sum(at - started < 1.9 for at in reads) > 5, "reading waited for the lock"
    assert "locked" not in caplog.text


async def test_a_lock_that_is_held_too_long_is_told_and_harms_nothing(made: Path, open_store: Opener):
    store = await open_store(busy_timeout=0.1)
    with write_lock_elsewhere(made, 60), pytest.raises(DataDirError, match="is locked by another program"):
        await ask(store, said("m1"))
    assert await ask(store, said("m1")) is not None


async def test_no_transaction_is_open_between_question_and_answer(store: SqlConversationStore, path: Path):
    job = await ask(store, said("m1"))
    assert job is not None
    await history(store, job, 8)
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        busy, left, _ = other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        assert (busy, left > 0) == (0, True), "a reader still has its snapshot"


async def test_ten_tasks_each_with_their_own_session_survive_one_that_raises(store: SqlConversationStore):
    """B101."""

    async def handle(n: int) -> None:
        job = await ask(store, said(f"m{n}", thread=key(f"t{n}")))
        assert job is not None
        await asyncio.gather(history(store, job, 8), store.turns(key(f"t{n}")))
        if n == 3:
            raise ValueError("mine")
        await finish(store, job, answer(), TurnState.ANSWERED)

    outcomes = await asyncio.gather(*(handle(n) for n in range(10)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes if outcome] == ["mine"]
    assert await store.abandon("terminal") == ["How do I install it?"]


async def test_newcomers_do_not_overtake_those_who_wait(store: SqlConversationStore):
    """The pool lets them, in the moment in which the connection comes back: here one comes at every moment."""
    tasks = [asyncio.create_task(ask(store, said("m0")))]
    while len(tasks) < 150:
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(ask(store, said(f"m{len(tasks)}"))))
    await asyncio.gather(*tasks)
    assert [turn.message_id for turn in await store.turns(key())] == [f"m{n}" for n in range(len(tasks))]


async def test_a_message_that_another_process_has_just_stored_is_known(
    store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch
):
    """Where writers do not wait for each other (PostgreSQL), the unique key decides, and we look again."""
    assert await ask(store, said("m1")) is not None
    looks: list[bool] = []
    look = admission._known

    async def too_early(session, admissions):
        known = await look(session, admissions) if looks else set()
        looks.append(bool(known))
        return known

    monkeypatch.setattr(admission, "_known", too_early)
    assert await ask(store, said("m1")) is None
    assert looks == [False, True]
    assert len(await store.turns(key())) == 1


async def test_a_key_that_is_never_free_is_an_error_and_no_endless_loop(
    store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch
):
    async def blind(session, admissions):
        return set()

    await ask(store, said("m1"))
    monkeypatch.setattr(admission, "_known", blind)
    with pytest.raises(IntegrityError):
        await ask(store, said("m1"))
