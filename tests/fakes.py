"""Scripted stand-ins for our own ports: put replies in, run, look at what was asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

from core.errors import ModelError
from core.types import ChatRequest, Delta, FinishReason, Hits, Passage, Usage

Reply = str | ModelError | float | Sequence[str | ModelError | float]
"""Text, an error to raise, seconds to hang before a reply of nothing; or pieces: text, seconds between them, errors."""


class ScriptedModel:
    """Answers from a queue for each purpose; keeps all requests."""

    def __init__(
        self,
        *,
        rewrite: Iterable[Reply] = (),
        generate: Iterable[Reply] = (),
        summarize: Iterable[Reply] = (),
        remember: Iterable[Reply] = (),
    ) -> None:
        replies = {"rewrite": rewrite, "generate": generate, "summarize": summarize, "remember": remember}
        self.replies = {purpose: deque(given) for purpose, given in replies.items()}
        self.requests: list[ChatRequest] = []

    def asked(self, purpose: str) -> list[ChatRequest]:
        return [request for request in self.requests if request.purpose == purpose]

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        reply = self.replies[request.purpose].popleft()
        if isinstance(reply, float):
            await asyncio.sleep(reply)
            reply = ""
        for piece in [reply] if isinstance(reply, str | ModelError) else reply:
            if isinstance(piece, ModelError):
                raise piece
            if isinstance(piece, float):
                await asyncio.sleep(piece)
                continue
            yield Delta(text=piece)
        yield Delta(finish=FinishReason.STOP, usage=Usage(prompt_tokens=_tokens(request), completion_tokens=5))


def _tokens(request: ChatRequest) -> int:
    return sum(len(message.content) for message in request.messages) // 4


class ScriptedRetriever:
    """Finds the passages that share a word with the query; raises while `error` is set."""

    def __init__(self, *passages: Passage, error: Exception | None = None) -> None:
        self.passages, self.error, self.queries = passages, error, list[str]()

    async def search(self, text: str, scope: frozenset[str], limit: int) -> Hits:
        self.queries.append(text)
        if self.error:
            raise self.error
        asked = set(text.casefold().replace("?", "").split())
        found = [p for p in self.passages if asked & set(p.text.casefold().split()) and p.scope in scope]
        return Hits(dense=tuple(found[:limit]), keyword=tuple(found[:limit]))


def passage(id_: str, text: str, *, source: str = "", heading: str = "", score: float = 0.9) -> Passage:
    source = source or f"{id_}.md"
    return Passage(id=id_, text=text, title=f"Page {id_}", source=source, heading=heading, score=score)


def shown_by(texts: list[str]) -> Callable[[str], Awaitable[None]]:
    async def show(text: str) -> None:
        texts.append(text)

    return show


KESTREL = passage("d1", "The Kestrel pump takes 0.8 L of oil. Change its filter every 90 days. Rated pressure 6 bar.")
HERON = passage("d2", "The Heron valve opens at 4 bar. Seal kit HV-12, gap 1 mm.")
LEAVE = passage("d3", "Staff get 24 leave days a year; 5 may be carried over.")
