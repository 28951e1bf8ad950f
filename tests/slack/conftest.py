"""Threadwise on a local Slack: the real slack-bolt, dispatcher and SQLite, a scripted model."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.dispatcher import Dispatcher
from adapters.memories import Memories
from adapters.ports import Scope, ThreadKey, public
from adapters.rules import Rules
from adapters.slack.catch_up import Frugality
from adapters.slack.channel import SlackChannel
from adapters.slack.pane import Topics
from adapters.slack.patience import Patience
from adapters.slack.setup import SlackSetup
from adapters.slack_http import SlackHttp
from adapters.slack_socket import SlackSocket
from adapters.store import SqlConversationStore
from adapters.summaries import Summaries
from bot.wiring import in_line
from core.errors import ConfigError
from core.gpu import Gpu
from core.pipeline import Pipeline
from core.ports import Retriever
from core.prompts import GEMMA3
from core.types import ChatRequest, Delta
from core.window import MAX_TURNS
from tests.chaos.checker import ENDED
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedModel, ScriptedRetriever
from tests.index.fakes import BagOfWords
from tests.slack_server import ASKER, BOT_USER, TEAM, SlackServer
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN

QUICK = Rules(heartbeat=0.2, position_every=0.2, resumes_per_second=1000, settling=0.05, first_retry=0.02, free_bytes=0)
HASTY = Patience(hello=1.5, ping=0.3, look=0.02, first_retry=0.02, longest_retry=0.1, overlap=0.5)
FRUGAL = Frugality(at_once=20, every=0.02, longest_wait=0.5, most_waits=2, between=0.05)
AT = f"<@{BOT_USER}>"


@pytest.fixture(autouse=True)
def _time_to_look_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the local Slack takes longer than the real one may."""
    monkeypatch.setattr("adapters.slack.intake.LOOK_BACK_SECONDS", 10.0)
    monkeypatch.setattr("adapters.slack.line.LOOK_UP_SECONDS", 10.0)


class TypingModel(ScriptedModel):
    """Takes its time between two pieces of text."""

    between = 0.0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        async for delta in super().stream(request):
            await asyncio.sleep(self.between)
            yield delta


class Quill:
    """The bot, on a database that outlives it."""

    def __init__(self, slack: SlackServer, path: Path, model: TypingModel) -> None:
        self.slack, self.path, self.model = slack, path, model
        self.retriever = ScriptedRetriever(KESTREL, HERON, LEAVE)
        self.documents: Retriever = self.retriever
        self.scope: Scope = public
        self.pace, self.patience, self.frugality = 0.02, HASTY, FRUGAL
        self.setup = SlackSetup(bot_token=BOT_TOKEN, app_token=APP_TOKEN, api_base_url=slack.api_url, streams=False)
        self.topics = ["Kestrel pump", "Heron valve"]
        self.titles: Topics = self._topics
        self.remembers = False
        self.embedder = BagOfWords(width=4096)
        self.desk: Callable[[Dispatcher], Any] = lambda dispatcher: dispatcher

    async def start(self) -> None:
        self.store = await SqlConversationStore.open(self.path)
        pipeline = Pipeline(model=self.model, retriever=self.documents, manners=GEMMA3, names=("Quill",))
        self.summaries = Summaries(self.store, pipeline.summarize)
        self.memories = Memories(self.store.facts, pipeline.remember, self.embedder)
        self.dispatcher = Dispatcher(
            self.store,
            in_line(pipeline),
            Gpu(16),
            MAX_TURNS,
            self.summaries,
            rules=QUICK,
            scope=self.scope,
            memories=self.memories if self.remembers else None,
        )
        way = SlackHttp if self.setup.signing_secret else SlackSocket
        # Typed as anything: what its channel has depends on the setup.
        self.socket: Any = way(
            self.setup, self.desk(self.dispatcher), self.store, self.titles, self.patience, self.frugality
        )
        if isinstance(self.socket.channel, SlackChannel):
            self.socket.channel.shortest_pace = self.pace
        self.dispatcher.attach(self.socket.channel)
        await self.dispatcher.start()
        self.running = asyncio.create_task(self.socket.run())

    async def _topics(self) -> list[str]:
        return self.topics

    async def restart(self, **changes: Any) -> None:
        """Stops it and starts it again, with another setup."""
        await self.stop()
        self.setup = replace(self.setup, **changes)
        await self.start()
        await self.connected()

    async def connected(self) -> None:
        await self.slack.until(lambda: self.socket.connected, 10)

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError, ConfigError):
            await self.running
        await self.dispatcher.close(0)
        await self.summaries.close()
        await self.memories.close()
        await self.store.close()

    async def at_rest(self) -> None:
        """Until nothing is on its way: all that was said is acknowledged, and every job has ended."""
        await self.slack.until(lambda: all(delivery.done.is_set() for delivery in self.slack.sockets.deliveries), 20)
        await self.slack.until(lambda: not self._open_jobs(), 20)
        await self.slack.until(lambda: not self.dispatcher._tickets, 20)

    def _open_jobs(self) -> int:
        """From the database: between two attempts at a question nobody in the process is at it."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as database:
            (count,) = database.execute(f"SELECT count(*) FROM jobs WHERE state NOT IN {ENDED}").fetchone()
        return int(count)

    async def hears(
        self, text: str, channel: str = "C1", thread: str | None = None, user: str = ASKER, **fields: str
    ) -> str:
        """Somebody says something, and everything has been said to it; the `ts` of what they said."""
        ts = self.slack.says(user, channel, text, thread, **fields)
        await asyncio.sleep(0)
        await self.at_rest()
        return ts

    def asked(self) -> list[str]:
        """What the model was given to answer, each time."""
        return [request.messages[-1].content for request in self.model.asked("generate")]

    def key(self, thread: str, channel: str = "C1") -> ThreadKey:
        return ThreadKey(platform="slack", workspace=TEAM, channel=channel, thread=thread)


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as slack:
        yield slack


@pytest.fixture
def model() -> TypingModel:
    return TypingModel()


@pytest.fixture
async def quill(slack: SlackServer, model: TypingModel, tmp_path: Path) -> AsyncIterator[Quill]:
    quill = Quill(slack, tmp_path / "conversations.db", model)
    await quill.start()
    await quill.connected()
    yield quill
    await quill.stop()
