"""A dispatcher on a real SQLite file, a scripted model and documents of a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.dispatcher import Dispatcher
from adapters.ports import Inbound, ThreadKey
from adapters.store import SqlConversationStore
from adapters.summaries import Summaries
from core.pipeline import Limits, Pipeline
from core.prompts import GEMMA3
from core.types import Answer
from core.window import MAX_TURNS
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedModel, ScriptedRetriever


@dataclass
class RecordedReply:
    shown: list[str] = field(default_factory=list)
    finished: list[Answer] = field(default_factory=list)
    first_shown: asyncio.Event = field(default_factory=asyncio.Event)

    async def show(self, text: str) -> None:
        self.shown.append(text)
        self.first_shown.set()

    async def finish(self, answer: Answer) -> None:
        self.finished.append(answer)


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
        self.dispatcher = Dispatcher(store, pipeline.answer, MAX_TURNS, self.summaries)
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
        reply = RecordedReply()
        answer = await self.dispatcher.submit(self.inbound(text, thread, id_=id_, author=author, **key), reply)
        assert reply.finished == ([answer] if answer else [])
        return answer.text if answer else None

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
    await bot.summaries.close()
