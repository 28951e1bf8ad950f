"""What a channel looks up by a platform's names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

from adapters.ports import TurnState
from adapters.store import SqlConversationStore
from tests.store.builders import answer, ask, finish, key, said
from tests.store.conftest import Opener


async def answered(store: SqlConversationStore, message: str = "m1") -> str:
    """The key of an answered question, which is shown by message r1."""
    job = await ask(store, said(message))
    assert job is not None
    job = await finish(store, job, answer(), TurnState.ANSWERED)
    await store.jobs.delivered(job, 0, "r1", last=True)
    return job.key


async def test_a_message_of_ours_names_its_conversation(open_store: Opener):
    store = await open_store()
    await answered(store)
    assert await store.lookups.conversation_of("terminal", "r1") == key()
    assert await store.lookups.conversation_of("slack", "r1") is None
    assert await store.lookups.conversation_of("terminal", "r2") is None


async def test_a_key_names_its_turn_until_the_question_is_deleted(open_store: Opener):
    store = await open_store()
    name = await answered(store)
    found = await store.lookups.turn_of(name)
    assert found is not None
    assert (found.thread, found.turn.typed) == (key(), "How do I install it?")
    await store.changes.delete(key(), "m1")
    assert await store.lookups.turn_of(name) is None


async def test_a_message_names_its_turn_and_if_it_was_no_question_that_of_whoever_asked_about_it(open_store: Opener):
    store = await open_store()
    for asked in ("8-m1", "m2", "9-m2"):
        await answered(store, asked)
    for name, asked in (("m1", "8-m1"), ("m2", "m2"), ("8-m1", "8-m1")):
        found = await store.lookups.turn_around("terminal", "", name)
        assert found is not None
        assert found.turn.message_id == asked
    for name in ("1", "M1", "m_", "-m1", ""):
        assert await store.lookups.turn_around("terminal", "", name) is None


async def test_the_last_word_of_each_person_counts(open_store: Opener):
    store = await open_store()
    name = await answered(store)
    for person, helpful in (("u1", True), ("u2", True), ("u1", False)):
        assert await store.lookups.rate(name, person, helpful=helpful)
    with closing(sqlite3.connect(store.database.path)) as database:
        assert database.execute("SELECT person, helpful FROM feedback ORDER BY person").fetchall() == [
            ("u1", 0),
            ("u2", 1),
        ]
    assert not await store.lookups.rate("unknown", "u1", helpful=True)


async def test_a_mark_is_moved_and_survives(open_store: Opener):
    store = await open_store()
    assert await store.lookups.heard_until("discord") is None
    noon = datetime(2026, 8, 1, 12, tzinfo=UTC)
    await store.lookups.mark("discord", noon)
    await store.lookups.mark("discord", noon + timedelta(minutes=1))
    await store.close()
    again = await open_store()
    assert await again.lookups.heard_until("discord") == noon + timedelta(minutes=1)
    assert await again.lookups.heard_until("slack") is None
