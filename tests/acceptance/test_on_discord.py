"""`threadwise run` as a process of its own, on the local Discord server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.acceptance.conftest import Threadwise
from tests.acceptance.story import EMBEDDED, GUIDE
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, GENERAL, NEWS, Json
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply

ME = "<@9000>"


@pytest.fixture
async def discord() -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as server:
        yield server


@asynccontextmanager
async def running(
    threadwise: Threadwise, discord: DiscordServer, **changes: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    known = len(discord.gateway.identifies)
    process = await threadwise.start(
        "run", DISCORD_BOT_TOKEN=discord.token, DISCORD_API_BASE_URL=discord.base_url, LOG_LEVEL="INFO", **changes
    )
    try:
        await until(lambda: process.returncode is not None or len(discord.gateway.identifies) > known, seconds=90)
        # discord.py waits 2 s for further servers before it calls itself ready.
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        _out, err = await process.communicate()
        print(err.decode()[-4000:])  # noqa: T201 - shown where a test fails


async def final(discord: DiscordServer, channel: int, count: int, seconds: float = 30) -> list[Json]:
    def finals() -> list[Json]:
        posts = discord.posts(channel)
        return posts if len(posts) >= count and all("Stop" not in discord.buttons(post) for post in posts) else []

    posts: list[Json] = await until(finals, seconds)
    return posts


async def searched(discord: DiscordServer, thread: int) -> str:
    """What /rewrite says."""
    interaction = await discord.command(ASKER, thread, "rewrite")
    await until(lambda: interaction.shown)
    return interaction.shown.partition("Searched for: ")[2].partition("\n")[0]


async def test_the_story_of_three_turns_with_the_embedded_model(threadwise: Threadwise, discord: DiscordServer):
    (threadwise.directory / "docs" / "agent.md").write_text(GUIDE)
    ingested = await threadwise.run("ingest", "docs", **EMBEDDED)
    assert ingested.code == 0, ingested.err
    async with running(threadwise, discord, **EMBEDDED):
        said = await discord.say(ASKER, GENERAL, f"{ME} How do I install the Kestrel agent?")
        thread = int(said["id"])
        (first,) = await final(discord, thread, 1, 120)
        assert "**Sources**" in first["content"]
        assert "agent.md" in first["content"]
        await discord.say(ASKER, thread, "and on ARM?")
        second = (await final(discord, thread, 2, 120))[-1]
        assert "agent.md" in second["content"]
        # Which passage so small a model makes its answer of varies with the nonce of a prompt; the search does not.
        query = await searched(discord, thread)
        assert "install the Kestrel" in query
        assert "ARM" in query
        await discord.say(ASKER, thread, "what about the GPU driver?")
        third = (await final(discord, thread, 3, 120))[-1]
        assert "agent.md" in third["content"]
        assert "GPU driver" in await searched(discord, thread)
    assert discord.world.channels[thread]["name"] == "How do I install the Kestrel agent?"
    assert not [call for call in discord.recorder.calls if call.status == 429]


async def test_told_to_stop_it_answers_what_is_under_way_and_ends(
    threadwise: Threadwise, discord: DiscordServer, server: OpenAIServer
):
    await threadwise.run("ingest", "docs")
    server.default = lambda body: Reply(pieces=("It takes ", 1.0, "0.8 L of oil [1]."))
    async with running(threadwise, discord) as process:
        said = await discord.say(ASKER, GENERAL, f"{ME} How much oil does the Kestrel take?")
        await until(lambda: any("It takes" in post["content"] for post in discord.posts()))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0
        (post,) = discord.posts(int(said["id"]))
        assert "0.8 L of oil [1]." in post["content"]
        assert "Stop" not in discord.buttons(post)


async def test_a_wrong_token_is_one_line_and_an_exit_code(threadwise: Threadwise, discord: DiscordServer):
    ended = await threadwise.run("run", DISCORD_BOT_TOKEN="wrong", DISCORD_API_BASE_URL=discord.base_url)
    assert ended.code == 2
    assert "DISCORD_BOT_TOKEN" in ended.err
    assert "Traceback" not in ended.err
    assert len(discord.recorder.calls) <= 3


async def test_documents_of_a_scope_reach_the_prompts_of_its_channels_alone(
    threadwise: Threadwise, discord: DiscordServer, server: OpenAIServer
):
    secret = threadwise.directory / "staff"
    secret.mkdir()
    (secret / "kestrel-prices.md").write_text("# Kestrel prices\n\nThe Kestrel pump costs us CANARY-77 euros.\n")
    assert (await threadwise.run("ingest", "docs")).code == 0
    assert (await threadwise.run("ingest", "--scope", "staff", "staff")).code == 0
    discord.world.add_dm(5000, ASKER)
    async with running(threadwise, discord, CHANNEL_SCOPES=f"{GENERAL}=staff"):
        asked = f"{ME} What does the Kestrel pump cost us?"
        elsewhere = await discord.say(ASKER, NEWS, asked)
        await final(discord, int(elsewhere["id"]), 1)
        await discord.say(ASKER, 5000, asked)
        await final(discord, 5000, 1)
        assert server.chats
        assert "CANARY-77" not in str(server.chats)
        said = await discord.say(ASKER, GENERAL, asked)
        await final(discord, int(said["id"]), 1)
        assert "CANARY-77" in str(server.chats[-1])


async def test_the_doctor_finds_nothing_and_then_says_what_to_do(
    threadwise: Threadwise, discord: DiscordServer, server: OpenAIServer
):
    on_discord = {"DISCORD_BOT_TOKEN": discord.token, "DISCORD_API_BASE_URL": discord.base_url}
    ended = await threadwise.run("doctor", **on_discord)
    assert ended.code == 1
    assert "look Index: there are no documents yet. Run `threadwise ingest PATH`." in ended.out
    await threadwise.run("ingest", "docs")
    well = await threadwise.run("doctor", LLM_CONTEXT_TOKENS="8192", MEMORY_ENABLED="true", **on_discord)
    assert well.code == 0, well.out
    assert "ok   Discord: all permissions on Works" in well.out
    assert well.out.endswith("All is well.\n")
    discord.rest.guild_permissions, discord.rest.application_flags = "1024", 0
    ill = await threadwise.run("doctor", LLM_PROFILE="base", MEMORY_ENABLED="true", **on_discord)
    assert ill.code == 1
    assert "look Memory: MEMORY_ENABLED does nothing with a base model" in ill.out
    assert "set LLM_CONTEXT_TOKENS" in ill.out
    assert "Send Messages in Threads" in ill.out
    assert "Message Content intent is not switched on" in ill.out
    assert not discord.gateway.identifies, "no session was begun"
    wrong = await threadwise.run("doctor", **on_discord | {"DISCORD_BOT_TOKEN": "wrong"})
    assert "DISCORD_BOT_TOKEN" in wrong.out
    assert "Traceback" not in wrong.out + wrong.err


async def test_without_any_token_it_says_what_to_set(threadwise: Threadwise):
    ended = await threadwise.run("run")
    assert ended.code == 2
    assert "DISCORD_BOT_TOKEN" in ended.err
