"""What is edited, deleted or gone before the question itself has been dealt with."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest

from adapters.discord.lately import Lately
from adapters.store import SqlConversationStore
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord.test_delivery_in_trouble import ask
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, GENERAL, GUILD, SECOND, Json

FILTER = "How often is the Kestrel filter changed?"
HISTORY = "GET /channels/{channel}/messages"


async def being_prepared(quill: Quill, **file: object) -> Json:
    """A question whose file is on its way."""
    quill.server.files_open.clear()
    attached = [quill.server.attach("log.txt", b"oil pressure low") | file]
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}", attachments=attached)
    await until(lambda: quill.server.files_asked)
    return said


async def test_a_question_that_is_deleted_while_its_file_is_read_is_not_answered(quill: Quill):
    said = await being_prepared(quill)
    await quill.server.take_back(said)
    quill.server.files_open.set()
    await quill.silent()
    assert not quill.asked
    assert not quill.bot.dispatcher._tickets


def execute(quill: Quill, statement: str) -> None:
    with closing(sqlite3.connect(quill.store.database.path)) as database:
        database.execute(statement)


async def test_a_deletion_that_cannot_be_stored_holds_all_the_same(quill: Quill):
    said = await being_prepared(quill)
    # In a thread: whoever holds the database needs the loop to let go of it.
    await asyncio.to_thread(
        execute, quill, "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    await quill.server.take_back(said)
    await asyncio.sleep(0.3)
    await asyncio.to_thread(execute, quill, "DROP TRIGGER full")
    quill.server.files_open.set()
    await quill.silent()
    with closing(sqlite3.connect(quill.store.database.path)) as database:
        assert database.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


@pytest.mark.parametrize("changes", ["edited", "deleted"])
async def test_what_is_edited_or_deleted_while_the_catch_up_reads_is_not_answered_as_it_was(
    server: DiscordServer, store: SqlConversationStore, changes: str
):
    await store.lookups.mark("discord", datetime.now(UTC))
    said = server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
    read = server.recorder.arm(HISTORY, 1, seconds=0.5)
    async with quill_on(server, store) as quill:
        quill.will_answer("Every 90 days [1].")
        await until(lambda: read.landed)
        if changes == "deleted":
            await server.take_back(said)
            await quill.silent(1.0)
            assert not quill.asked
        else:
            # The history is an answer of its own, as it was when it was asked for.
            server.world.messages[GENERAL][int(said["id"])] = changed = dict(said)
            await server.change(changed, f"{ME} {FILTER}")
            await quill.final(int(said["id"]))
            assert FILTER in quill.prompt()
            assert OIL not in quill.prompt()


async def test_an_edit_that_is_told_before_its_message_wins(quill: Quill):
    quill.will_answer("Every 90 days [1].")
    said = quill.server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
    before = quill.server.rest.event(dict(said))
    await quill.server.change(said, f"{ME} {FILTER}")
    await quill.server.gateway.dispatch("MESSAGE_CREATE", before)
    await quill.final(int(said["id"]))
    assert FILTER in quill.prompt()
    assert OIL not in quill.prompt()
    await quill.silent()
    assert quill.asked == 1


async def test_a_deletion_that_is_told_before_its_message_wins(quill: Quill):
    said = quill.server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
    before = quill.server.rest.event(said)
    await quill.server.take_back(said)
    await quill.server.gateway.dispatch("MESSAGE_CREATE", before)
    await quill.silent()
    assert not quill.asked


async def channel_deleted(quill: Quill, thread: int) -> None:
    await quill.server.delete_channel(GENERAL)


async def thread_deleted(quill: Quill, thread: int) -> None:
    await quill.server.delete_thread(thread)


async def kicked(quill: Quill, thread: int) -> None:
    quill.server.world.denied |= {channel: {"view"} for channel in (GENERAL, thread)}
    await quill.server.gateway.dispatch("GUILD_DELETE", {"id": str(GUILD)})


@pytest.mark.parametrize("goes", [channel_deleted, thread_deleted, kicked])
async def test_questions_that_wait_where_all_is_gone_end_at_once(
    quill: Quill, goes: Callable[[Quill, int], Awaitable[None]]
):
    quill.will_answer(60.0)
    thread = await ask(quill)
    await until(lambda: quill.asked and quill.server.posts(thread))
    await quill.server.say(SECOND, thread, FILTER)
    await until(lambda: len(quill.bot.dispatcher._tickets) == 2 and len(quill.server.posts(thread)) == 2)
    await goes(quill, thread)
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert quill.asked == 1
    with closing(sqlite3.connect(quill.store.database.path)) as database:
        assert database.execute("SELECT DISTINCT state FROM jobs").fetchall() == [("undeliverable",)]


def test_only_so_many_are_remembered():
    lately = Lately(most=3)
    lately.delete(range(5))
    assert [lately.is_gone(message) for message in range(5)] == [False, False, True, True, True]
