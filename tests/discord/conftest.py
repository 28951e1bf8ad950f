"""Quill on the local Discord server: the real discord.py, dispatcher and database; a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import discord
import pytest
from discord.gateway import DiscordWebSocket

from adapters import discord_gateway
from adapters.discord import delivery
from adapters.discord.setup import DiscordSetup
from adapters.discord_gateway import DiscordGateway
from adapters.store import SqlConversationStore
from tests.dialogues.conftest import Bot
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import BOT, Json
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedModel, ScriptedRetriever

ME = f"<@{BOT}>"
OIL = "What oil does the Kestrel take?"


class Quill:
    """The bot with everything that a test looks at."""

    def __init__(self, bot: Bot, server: DiscordServer, gateway: DiscordGateway) -> None:
        self.bot, self.server, self.gateway = bot, server, gateway
        self.model, self.store = bot.model, bot.store

    def will_answer(self, *answers: object, rewrite: tuple[str, ...] = ()) -> None:
        self.model.replies["generate"].extend(answers)  # type: ignore[arg-type]
        self.model.replies["rewrite"].extend(rewrite)

    @property
    def asked(self) -> int:
        """How often an answer was generated."""
        return len(self.model.asked("generate"))

    def prompt(self) -> str:
        """The whole last prompt for an answer."""
        return "\n".join(message.content for message in self.model.asked("generate")[-1].messages)

    async def final(self, channel: int, count: int = 1) -> list[Json]:
        """The bot's messages in a channel, once that many of them are final."""
        finals: list[Json] = await until(lambda: self._finals(channel, count))
        return finals

    def _finals(self, channel: int, count: int) -> list[Json]:
        posts = [post for post in self.server.posts(channel) if "Stop" not in self.server.buttons(post)]
        return posts if len(posts) >= count and len(posts) == len(self.server.posts(channel)) else []

    async def silent(self, seconds: float = 0.4) -> None:
        """Nothing is said for a while."""
        before = len(self.server.recorder.to("POST /channels/{channel}/messages"))
        await asyncio.sleep(seconds)
        assert len(self.server.recorder.to("POST /channels/{channel}/messages")) == before


Start = Callable[..., "asyncio.Future[Quill]"]


@asynccontextmanager
async def quill_on(
    server: DiscordServer, store: SqlConversationStore, bot: Bot | None = None, /, **setup: Any
) -> AsyncIterator[Quill]:
    bot = bot or Bot(store, ScriptedModel(), ScriptedRetriever(KESTREL, HERON, LEAVE))
    made = DiscordSetup(token=server.token, api_base_url=server.base_url)
    gateway = DiscordGateway(replace(made, **setup), bot.dispatcher, store)
    bot.dispatcher.attach(gateway.channel)
    await bot.dispatcher.start()
    running = asyncio.create_task(gateway.run())
    try:
        await until(lambda: running.done() or gateway.ready.is_set())
        if running.done():
            await running
        yield Quill(bot, server, gateway)
    finally:
        await bot.close()
        running.cancel()
        await asyncio.wait({running})


@pytest.fixture(autouse=True)
def _put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set for the whole process is undone after a test."""
    monkeypatch.setattr(discord.http.Route, "BASE", discord.http.Route.BASE)
    monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", DiscordWebSocket.DEFAULT_GATEWAY)
    monkeypatch.setattr(delivery, "PACE", 0.05)
    monkeypatch.setattr(discord_gateway, "GUILDS_SECONDS", 0.05)


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as server:
        yield server


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlConversationStore]:
    store = await SqlConversationStore.open(tmp_path / "conversations.db")
    yield store
    await store.close()


@pytest.fixture
async def quill(server: DiscordServer, store: SqlConversationStore) -> AsyncIterator[Quill]:
    async with quill_on(server, store) as quill:
        yield quill
