"""A chat model that waits for its turn before each call; the one layer that repeats a call.

What the endpoint did not take (no connection, 429, 503, a model that still loads) goes back to the queue, to
the place where it was, for as long as the job may wait. What the endpoint took and failed before the first
word is tried again, three times at most and within a budget of one retry for ten jobs. Optional calls are not
repeated: they have a fallback that is quicker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Final

from core.errors import ModelCut, ModelError, ModelTimeout, ModelUnavailable, Preempted
from core.ports import ChatModel
from core.seat import Line, Slot
from core.types import ChatRequest, Delta
from core.window import estimate_tokens

OPTIONAL: Final = frozenset({"rewrite", "summarize"})
"""Purposes that fail open."""
MOST_ATTEMPTS: Final = 3
RETRY_PAUSE: Final = 0.3


def cost_of(request: ChatRequest) -> int:
    """Tokens that a call takes at most: of its prompt by our estimate, and of its longest reply."""
    return sum(estimate_tokens(message.content) for message in request.messages) + request.max_tokens


class QueuedModel:
    """`model`, as one job sees it."""

    def __init__(self, model: ChatModel, line: Line) -> None:
        self._model = model
        self._line = line

    def __repr__(self) -> str:
        return repr(self._model)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """`ChatModel.stream` on a slot, which is free again when the reply is complete or the stream closed.

        Raises `NoSlot` for an optional call that is left out, `Preempted` for background work that a person's
        question put an end to, and `QuestionExpired`.
        """
        optional = request.purpose in OPTIONAL
        cost = cost_of(request)
        attempt = 1
        while True:
            last: Delta | None = None
            spoken = again = False
            async with self._line.slot(cost, optional=optional) as slot:
                try:
                    async with aclosing(_kept(self._model.stream(request), slot.taken_back)) as deltas:
                        async for delta in deltas:
                            slot.answered()
                            if delta.finish is not None:
                                last = delta
                                break
                            spoken = True
                            yield delta
                except ModelError as error:
                    again = not spoken and not optional and _may_repeat(error, attempt, slot)
                    if not again:
                        raise
                    attempt += not slot.is_refused
            if not again:
                break
            if not slot.is_refused:
                await asyncio.sleep(RETRY_PAUSE * random.uniform(0.5, 1.0) * 2 ** (attempt - 2))
        # The slot is free by now: what the reader does with the reply keeps nobody waiting.
        if last is not None:
            yield last


def _may_repeat(error: ModelError, attempt: int, slot: Slot) -> bool:
    """Whether the call is made again, and what its failure tells of the endpoint."""
    if isinstance(error, ModelUnavailable) and error.not_taken:
        return slot.refused(error)
    if not isinstance(error, (ModelTimeout, ModelUnavailable)):
        slot.answered()
    return isinstance(error, (ModelUnavailable, ModelCut)) and attempt < MOST_ATTEMPTS and slot.may_retry()


def _kept(stream: AsyncGenerator[Delta, None], taken_back: asyncio.Event | None) -> AsyncGenerator[Delta, None]:
    """`stream`, which raises `Preempted` when its slot is taken back."""
    return stream if taken_back is None else _while_lent(stream, taken_back)


async def _while_lent(stream: AsyncGenerator[Delta, None], taken_back: asyncio.Event) -> AsyncGenerator[Delta, None]:
    async with aclosing(stream):
        while (delta := await _before(taken_back, anext(stream, None))) is not None:
            yield delta


async def _before(taken_back: asyncio.Event, step: Awaitable[Delta | None]) -> Delta | None:
    """The result of `step`, or `Preempted` if that comes first."""
    stepping, wanted = asyncio.ensure_future(step), asyncio.ensure_future(taken_back.wait())
    try:
        await asyncio.wait({stepping, wanted}, return_when=asyncio.FIRST_COMPLETED)
        if not stepping.done():
            raise Preempted
        return stepping.result()
    finally:
        # What is cancelled is waited for: the stream closes its connection before the slot is free.
        left = [task for task in (stepping, wanted) if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
