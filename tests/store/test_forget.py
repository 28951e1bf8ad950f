"""Forgetting removes the bytes (M11, T56)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from adapters.ports import TurnState
from adapters.store import SqlConversationStore
from adapters.store.jobs import KNOWN_DAYS
from core.errors import DataDirError
from core.types import Answer, Citation, Query, QueryStatus
from tests.store.builders import ask, finish, key, said
from tests.store.conftest import Opener

CANARY = "canary-4711"


def copies(path: Path) -> int:
    """Occurrences in every file beside the database."""
    return sum(file.read_bytes().count(CANARY.encode()) for file in path.parent.iterdir())


async def confide(store: SqlConversationStore) -> None:
    """The canary in every column that holds text, in rows that grow, split pages and lie between others.

    Not in the ids of messages and threads: those are kept, so that a message that is delivered again stays known.
    """
    for n in range(15):
        for mark, thread in ((CANARY, key("t1")), ("public", key("other"))):
            message = f"{thread.thread}.{n}"
            job = await ask(store, said(message, f"{mark} " * (n * 15 + 1), thread, author=mark, author_id=mark))
            assert job is not None
            told = Answer(
                text=f"{mark} " * (n * 80 + 1),
                query=Query(text=mark, status=QueryStatus.REWRITTEN, reason=mark),
                citations=(Citation(number=1, title=mark, source=mark, heading=mark),),
            )
            await finish(store, job, told, TurnState.ANSWERED)
            backlog = await store.backlog(thread)
            assert backlog is not None
            await store.condense(backlog, n + 1, f"{mark} " * (n * 10 + 1))


async def test_no_byte_of_a_forgotten_conversation_is_left(store: SqlConversationStore, path: Path):
    await confide(store)
    path.with_name("threadwise.db.before-0001").write_text(CANARY)
    assert copies(path) > 100
    assert await store.forget(key("t1")) == 15
    assert copies(path) == 0
    assert len(await store.turns(key("other"))) == 15
    assert await ask(store, said("t1.3", "again", key("t1"))) is None
    await store.close()
    assert copies(path) == 0


async def test_bytes_are_left_when_deletion_is_not_secure(store: SqlConversationStore, path: Path):
    """The proof that the test above tests the setting."""
    await confide(store)
    async with store.database.write() as session:
        await session.execute(text("PRAGMA secure_delete = OFF"))
    await store.forget(key("t1"))
    assert copies(path) > 0


async def test_a_reader_that_keeps_the_log_is_told_of_and_forgetting_again_completes(open_store: Opener, path: Path):
    store = await open_store(busy_timeout=0.1)
    await confide(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchall()
        with pytest.raises(DataDirError, match="close it, then forget again"):
            await store.forget(key("t1"))
        assert copies(path) > 0
    assert await store.forget(key("t1")) == 0
    assert copies(path) == 0


@pytest.mark.parametrize(("days", "known"), [(KNOWN_DAYS - 1, True), (KNOWN_DAYS + 1, False)])
async def test_ids_of_deleted_messages_are_not_kept_for_ever(
    store: SqlConversationStore, path: Path, days: int, known: bool
):
    await store.changes.delete(key("t1"), "foreign")
    answered = await ask(store, said("ours", "What?", key("t1")))
    assert answered is not None
    with closing(sqlite3.connect(path)) as database:
        sql = "UPDATE inbox SET received_at = datetime(received_at, ?)"
        assert database.execute(sql, (f"-{days} days",)).rowcount == 2
        database.commit()
    await store.jobs.take_over(["discord"], alone=True)
    assert (await ask(store, said("foreign", "Hello?", key("t1"))) is None) == known
    assert await ask(store, said("ours", "What?", key("t1"))) is None, "an answered one stays known"
