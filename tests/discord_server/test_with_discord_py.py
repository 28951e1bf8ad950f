"""The real discord.py client takes the local server for Discord."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket

from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, BOT, GENERAL, SECOND

POST = "POST /channels/{channel}/messages"


class Listener(discord.Client):
    """Keeps what it hears."""

    def __init__(self, **options) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(intents=intents, guild_ready_timeout=0.05, **options)
        self.heard: list[discord.Message] = []

    async def on_message(self, message: discord.Message) -> None:
        self.heard.append(message)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as server:
        monkeypatch.setattr(discord.http.Route, "BASE", server.base_url)
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(server.gateway_url))
        yield server


@pytest.fixture
async def client(server: DiscordServer) -> AsyncIterator[Listener]:
    client = Listener()
    running = asyncio.create_task(client.start(server.token))
    await until(client.is_ready)
    yield client
    await client.close()
    await asyncio.wait({running})


async def heard(client: Listener, count: int) -> list[str]:
    await until(lambda: len(client.heard) >= count)
    return [message.content for message in client.heard]


async def test_hears_and_answers(server: DiscordServer, client: Listener):
    said = await server.say(ASKER, GENERAL, "hello <@9000>")
    await heard(client, 1)
    assert client.heard[0].author.display_name == "Asker"
    assert [user.id for user in client.heard[0].mentions] == [BOT]
    await client.heard[0].reply("hi", mention_author=False)
    (post,) = server.posts(GENERAL)
    assert post["message_reference"]["message_id"] == said["id"]
    assert server.recorder.to(POST)[0].body["allowed_mentions"]["replied_user"] is False


@pytest.mark.parametrize("how", ["op 7", "op 9, resumable", "cut", "close 4000"])
async def test_resumes_and_misses_nothing(server: DiscordServer, client: Listener, how: str):
    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "op 7": server.gateway.reconnect,
        "op 9, resumable": lambda: server.gateway.invalidate(resumable=True),
        "close 4000": lambda: server.gateway.close(4000),
    }
    server.gateway.open_to_new.clear()
    if how == "cut":
        server.gateway.cut()
    else:
        await ways[how]()
    await until(lambda: not server.gateway.connected)
    await server.say(ASKER, GENERAL, "said meanwhile")
    server.gateway.open_to_new.set()
    assert await heard(client, 1) == ["said meanwhile"]
    assert len(server.gateway.resumes) == 1
    assert len(server.gateway.identifies) == 1


async def test_identifies_anew_when_the_session_is_invalid(server: DiscordServer, client: Listener, monkeypatch):
    monkeypatch.setattr(client, "before_identify_hook", _at_once)
    await server.gateway.invalidate(resumable=False)
    await until(lambda: len(server.gateway.identifies) == 2)
    await server.say(ASKER, GENERAL, "after")
    assert await heard(client, 1) == ["after"]
    assert not server.gateway.resumes


async def _at_once(shard_id: int | None, *, initial: bool = False) -> None:
    """discord.py waits 5 s before it identifies again."""


async def test_a_silent_server_is_left_and_found_again(server: DiscordServer, monkeypatch):
    server.gateway.heartbeat_ms, server.gateway.acks = 200, False
    client = Listener(heartbeat_timeout=1.0)
    running = asyncio.create_task(client.start(server.token))
    await until(lambda: server.gateway.resumes, seconds=15)
    assert len(server.gateway.heartbeats) > 1
    server.gateway.acks = True
    await client.close()
    await asyncio.wait({running})


@pytest.mark.parametrize(
    ("code", "error"), [(4004, discord.ConnectionClosed), (4014, discord.PrivilegedIntentsRequired)]
)
async def test_final_close_codes_end_the_client(server: DiscordServer, code: int, error: type[Exception]):
    server.gateway.close_next_with = code
    client = Listener()
    with pytest.raises(error):
        await client.start(server.token)
    await client.close()


async def test_content_is_left_out_without_the_intent(server: DiscordServer):
    client = discord.Client(intents=discord.Intents.default(), guild_ready_timeout=0.05)
    seen: list[str] = []

    async def on_message(message: discord.Message) -> None:
        seen.append(message.content)

    client.on_message = on_message  # type: ignore[attr-defined]
    running = asyncio.create_task(client.start(server.token))
    await until(client.is_ready)
    await server.say(ASKER, GENERAL, "not for the bot")
    await server.say(ASKER, GENERAL, "<@9000> for the bot")
    await until(lambda: len(seen) == 2)
    assert seen == ["", "<@9000> for the bot"]
    await client.close()
    await asyncio.wait({running})


async def test_limits_are_those_of_discord(server: DiscordServer, client: Listener):
    channel = client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    with pytest.raises(discord.HTTPException) as refused:
        await channel.send("x" * 2001)
    assert refused.value.code == 50035
    with pytest.raises(discord.HTTPException) as refused:
        await channel.send(" ")
    assert refused.value.code == 50006
    with pytest.raises(discord.NotFound) as missing:
        await channel.get_partial_message(12345).edit(content="x")
    assert missing.value.code == 10008
    server.world.denied[GENERAL] = {"send"}
    with pytest.raises(discord.Forbidden) as forbidden:
        await channel.send("x")
    assert forbidden.value.code == 50013


async def test_the_same_nonce_gives_the_same_message(server: DiscordServer, client: Listener):
    channel = client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    first, second = await channel.send("one", nonce="n1"), await channel.send("one", nonce="n1")
    assert first.id == second.id
    assert len(server.posts(GENERAL)) == 1
    assert server.recorder.to(POST)[0].body["enforce_nonce"] is True


async def test_a_lost_reply_leaves_its_message(server: DiscordServer, client: Listener):
    fault = server.recorder.arm(POST, lose=True)
    channel = client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    with pytest.raises(aiohttp.ClientError):
        await channel.send("there all the same")
    assert fault.landed == 1
    assert [post["content"] for post in server.posts(GENERAL)] == ["there all the same"]


async def test_buckets_are_told_and_kept(server: DiscordServer, client: Listener):
    server.limits.buckets[POST] = (2, 0.3)
    channel = client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    await asyncio.gather(*(channel.send(f"{number}") for number in range(5)))
    assert len(server.posts(GENERAL)) == 5
    spread = server.recorder.to(POST)[-1].at - server.recorder.to(POST)[0].at
    assert spread >= 0.3, "discord.py waits for the bucket"


async def test_threads_are_named_by_their_message_and_made_once(server: DiscordServer, client: Listener):
    said = await server.say(SECOND, GENERAL, "a drip")
    channel = client.get_channel(GENERAL)
    assert isinstance(channel, discord.TextChannel)
    message = channel.get_partial_message(int(said["id"]))
    thread = await message.create_thread(name="a drip")
    assert thread.id == int(said["id"])
    with pytest.raises(discord.HTTPException) as refused:
        await message.create_thread(name="again")
    assert refused.value.code == 160004
    for number in range(5):
        await server.say(SECOND, thread.id, f"{number}")
    assert [m.content async for m in thread.history(limit=2)] == ["4", "3"]
    assert [m.content async for m in thread.history(limit=2, oldest_first=True)] == ["0", "1"]
