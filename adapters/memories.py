"""What people said of themselves, for their own later conversations: picked in the background, told with a question.

No question waits for the picking, and nothing of it can fail one. It is not made up for: what a busy or a stopping
process leaves out is not remembered. Few facts are all told; of many, the preferences and those nearest to
the question.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Sequence
from typing import Final

from adapters.ports import Fact, FactStore, Remember
from core import metrics
from core.errors import EmbedderError
from core.fail_open import fail_open, record
from core.ports import Embedder
from core.remember import is_preference

TOLD: Final = 5
"""Facts in a prompt at most."""
RECALL_SECONDS: Final = 2.0
"""That a question waits for them at most."""
EMBED_SECONDS: Final = 30.0
MOST_WAITING: Final = 100
"""Messages that facts are to be picked from; of more, nothing is remembered."""


class Memories:
    """Picks in tasks of its own, until it is closed."""

    def __init__(self, facts: FactStore, remember: Remember, embedder: Embedder) -> None:
        self._facts, self._remember, self._embedder = facts, remember, embedder
        # Strong references: the event loop has only weak ones.
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, turn: int) -> None:
        """Begins to pick facts out of an answered question."""
        if self._closed or len(self._running) >= MOST_WAITING:
            metrics.FACTS_SKIPPED.inc()
            return
        task = asyncio.create_task(self._pick(turn))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def recall(self, turn: int, question: str) -> tuple[str, ...]:
        """What the asker of a turn said of themselves and everybody who reads the answer may know, newest first."""

        async def work() -> tuple[str, ...]:
            facts = await self._facts.told(turn)
            chosen = facts if len(facts) <= TOLD else await self._nearest(facts, question)
            return tuple(fact.text for fact in chosen)

        nothing: tuple[str, ...] = ()
        facts, _mark = await fail_open("recall", work, fallback=nothing, seconds=RECALL_SECONDS)
        return facts

    async def idle(self) -> None:
        """Returns when nothing is being picked."""
        while self._running:
            await asyncio.wait(list(self._running))

    async def close(self) -> None:
        """Stops what is going on; nothing is begun any more."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await self.idle()

    async def _pick(self, turn: int) -> None:
        try:
            statement = await self._facts.statement(turn)
            if statement and (texts := await self._remember(statement)):
                await self._facts.add(turn, statement, await self._embedded(texts))
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: what happens in it is told here
            record("remember", error)

    async def _embedded(self, texts: Sequence[str]) -> list[Fact]:
        async def work() -> list[Fact]:
            model, vectors = self._embedder.model, await self._embedder.embed(texts)
            pairs = zip(texts, vectors, strict=True)
            return [Fact(text=text, model=model, vector=array("f", vector).tobytes()) for text, vector in pairs]

        bare = [Fact(text=text) for text in texts]
        facts, _mark = await fail_open("remember", work, fallback=bare, seconds=EMBED_SECONDS)
        return facts

    async def _nearest(self, facts: Sequence[Fact], question: str) -> list[Fact]:
        """Of `facts`, newest first, those to tell, in the same order; the newest where the embedder fails."""
        try:
            (vector,) = await self._embedder.embed([question])
        except EmbedderError as error:
            record("recall", error)
            vector = []
        model = self._embedder.model

        def rank(fact: Fact) -> tuple[bool, float]:
            nearness = _similarity(vector, array("f", fact.vector)) if fact.model == model else -1.0
            return is_preference(fact.text), nearness

        # Sorting keeps the newest first among equals.
        chosen = sorted(range(len(facts)), key=lambda at: rank(facts[at]), reverse=True)[:TOLD]
        return [facts[at] for at in sorted(chosen)]


def _similarity(one: Sequence[float], other: Sequence[float]) -> float:
    """Of unit vectors, -1 to 1; -1 if they are not of one width."""
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) if one and len(one) == len(other) else -1.0
