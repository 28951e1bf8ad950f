"""What is said after READY and before Discord has told of the server."""

from __future__ import annotations

import asyncio

import pytest

from adapters.discord import completing
from adapters.store import SqlConversationStore
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, BOT_ROLE, CREW, GENERAL, GUILD, SECOND, Json


@pytest.fixture(autouse=True)
def _held(server: DiscordServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.gateway.holds_guilds = True
    monkeypatch.setattr(completing, "SERVER_SECONDS", 1.0)


async def said_at_once(server: DiscordServer, author: int = ASKER, text: str = f"{ME} {OIL}") -> Json:
    await until(lambda: server.gateway.connected)
    return await server.say(author, GENERAL, text)


async def answered_in_its_thread(quill: Quill, question: Json) -> None:
    (answer,) = await quill.final(int(question["id"]))
    assert answer["content"].startswith("5W-40")
    assert not quill.server.posts(GENERAL)


@pytest.mark.parametrize("told_after", [0.0, 0.3, None], ids=["soon", "later", "never"])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
async def test_a_mention_that_comes_before_its_server_is_answered_in_a_thread(
    server: DiscordServer, store: SqlConversationStore, told_after: float | None, listed: bool
):
    server.gateway.lists_guilds = listed
    saying = asyncio.create_task(said_at_once(server))
    async with quill_on(server, store) as quill:
        quill.will_answer("5W-40 [1].")
        question = await saying
        if told_after is not None:
            await asyncio.sleep(told_after)
            await server.gateway.tell_guilds()
        await answered_in_its_thread(quill, question)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
async def test_roles_are_known_by_then(server: DiscordServer, store: SqlConversationStore, listed: bool):
    """Its author may ask by a role, and it mentions the role of the bot."""
    server.gateway.lists_guilds = listed
    server.world.members[ASKER]["roles"] = [str(CREW)]
    saying = asyncio.create_task(said_at_once(server, ASKER, f"<@&{BOT_ROLE}> {OIL}"))
    async with quill_on(server, store, roles=frozenset({CREW})) as quill:
        quill.will_answer("5W-40 [1].")
        question = await saying
        await said_at_once(server, SECOND, f"<@&{BOT_ROLE}> {OIL}")
        await server.gateway.tell_guilds()
        await answered_in_its_thread(quill, question)
        await quill.silent()
        assert quill.asked == 1


async def test_what_is_said_in_a_server_that_is_not_allowed_is_not_taken_for_a_private_message(
    server: DiscordServer, store: SqlConversationStore
):
    server.gateway.lists_guilds = False
    saying = asyncio.create_task(said_at_once(server))
    async with quill_on(server, store, servers=frozenset({GUILD + 1})) as quill:
        await saying
        await quill.silent(1.5)
        assert not quill.asked
