"""A model that never runs out of words, a bot that has it, and what its requests hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from adapters.store import SqlConversationStore
from core.pipeline import Limits
from core.types import ChatRequest, Delta
from tests.dialogues.conftest import Bot
from tests.fakes import KESTREL, Reply, ScriptedModel, ScriptedRetriever

MARK = re.compile(r"\bm\d\d\b")


def question(n: int, more: str = "") -> str:
    """Found in the documents, and not to be taken for another."""
    return f"What oil does the Kestrel take for m{n:02}?{more}"


def questions(first: int, last: int) -> list[str]:
    return [question(n) for n in range(first, last + 1)]


class Chatter(ScriptedModel):
    """Says what is scripted, and then the same thing for ever."""

    def __init__(self, notes: Callable[[ChatRequest], Reply] = lambda _: "They talked about Kestrel oil.") -> None:
        super().__init__()
        self.notes = notes
        self.free = asyncio.Event()
        """Summaries wait for it."""
        self.free.set()
        self.begun = asyncio.Event()
        """Set by the first summary."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        if not self.replies[request.purpose]:
            said: dict[str, Reply] = {"rewrite": "Kestrel oil", "generate": "It takes 0.8 L [1]."}
            self.replies[request.purpose].append(said.get(request.purpose) or self.notes(request))
        async with aclosing(super().stream(request)) as stream:
            async for delta in stream:
                if request.purpose == "summarize":
                    self.begun.set()
                    await self.free.wait()
                yield delta


def chatting(store: SqlConversationStore, model: ScriptedModel, limits: Limits | None = None) -> Bot:
    return Bot(store, model, ScriptedRetriever(KESTREL), limits or Limits())


async def restarted(bot: Bot, limits: Limits | None = None) -> Bot:
    """The bot after its process has ended and begun again, with the same model."""
    await bot.close()
    await bot.store.close()
    again = chatting(await SqlConversationStore.open(bot.store.database.path), bot.model, limits)
    again.said = bot.said
    return again


async def stored(bot: Bot, thread: str = "t1") -> tuple[int, str]:
    """The watermark and the summary."""
    backlog = await bot.store.backlog(bot.inbound("", thread).thread)
    assert backlog is not None
    return backlog.covered, backlog.summary


def earlier_notes(request: ChatRequest) -> str:
    """The notes that a request for a summary begins with."""
    return request.messages[0].content.split("Notes so far:\n")[1].split("\n\nNew messages:\n")[0]


def new_messages(request: ChatRequest) -> str:
    """What a request for a summary is to add to the notes."""
    return request.messages[0].content.split("\n\nNew messages:\n")[1].split("\n\nNew notes:")[0]


def marks(text: str) -> list[int]:
    """The numbers of the marks in `text`, each once, in the order in which they stand there."""
    return [int(mark[1:]) for mark in dict.fromkeys(MARK.findall(text))]


def whole(request: ChatRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def is_safe_for_gemma(request: ChatRequest) -> bool:
    """No system message, strictly alternating, first and last from the user, none of them blank."""
    roles = [message.role for message in request.messages]
    alternating = roles == [("user", "assistant")[n % 2] for n in range(len(roles))] and len(roles) % 2 == 1
    return alternating and all(message.content.strip() for message in request.messages)
