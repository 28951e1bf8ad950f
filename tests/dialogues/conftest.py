"""A dispatcher on a real SQLite file, a scripted model and documents of a few lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.dispatcher import Dispatcher
from adapters.ports import Inbound, ThreadKey
from adapters.rules import Rules
from adapters.store import SqlConversationStore
from adapters.summaries import Summaries
from bot.wiring import in_line
from core.gpu import Gpu
from core.pipeline import Limits, Pipeline
from core.prompts import GEMMA3
from core.window import MAX_TURNS
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedModel, ScriptedRetriever
from tests.wall import Wall

QUICK = Rules(heartbeat=0.2, position_every=0.2, resumes_per_second=1000, settling=0.05, first_retry=0.02, free_bytes=0)


class Bot:
    """Says things to a dispatcher as people in threads would."""

    def __init__(
        self,
        store: SqlConversationStore,
        model: ScriptedModel,
        retriever: ScriptedRetriever,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self.store, self.model, self.retriever = store, model, retriever
        pipeline = Pipeline(model=model, retriever=retriever, manners=GEMMA3, limits=limits, names=("Quill",))
        self.summaries = Summaries(store, pipeline.summarize)
        self.wall = Wall()
        self.gpu = Gpu(16)
        self.dispatcher = Dispatcher(store, in_line(pipeline), self.gpu, MAX_TURNS, self.summaries, rules=QUICK)
        for channel in (self.wall, Wall("slack")):
            self.dispatcher.attach(channel)
        self.said = 0

    def inbound(self, text: str, thread: str = "t1", *, id_: str = "", author: str = "Asker", **key: str) -> Inbound:
        self.said += 1
        names = {"platform": "terminal", "workspace": "w1", "channel": "c1", "thread": thread} | key
        return Inbound(
            message_id=id_ or f"m{self.said}",
            thread=ThreadKey(**names),
            author_id=author,
            author=author,
            text=text,
            sent_at=datetime.now(UTC),
        )

    async def hears(
        self, text: str, thread: str = "t1", *, id_: str = "", author: str = "Asker", **key: str
    ) -> str | None:
        """What is answered to `text`; None for silence."""
        inbound = self.inbound(text, thread, id_=id_, author=author, **key)
        admitted = await self.dispatcher.admit(inbound)
        if admitted is None or admitted.job is None:
            return None
        await self.dispatcher.ended(admitted.job)
        wall = self.dispatcher._channels[inbound.thread.platform]
        assert isinstance(wall, Wall)
        return wall.final(inbound.message_id)

    async def close(self) -> None:
        await self.dispatcher.close(0)
        await self.summaries.close()

    async def hears_at_leisure(self, *texts: str) -> None:
        """Says one after the other, with time between them for what goes on in the background."""
        for text in texts:
            await self.hears(text)
            await self.summaries.idle()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlConversationStore]:
    store = await SqlConversationStore.open(tmp_path / "conversations.db")
    yield store
    await store.close()


@pytest.fixture
async def bot(store: SqlConversationStore) -> AsyncIterator[Bot]:
    bot = Bot(store, ScriptedModel(), ScriptedRetriever(KESTREL, HERON, LEAVE))
    yield bot
    await bot.close()
