"""How long a call to the model may take, and waiting that ends on time.

A deadline never cancels the caller's own task: the wait happens in a task of its own, and only that one
is cancelled. So no `CancelledError` of ours can reach the caller, and one that is meant for the caller
is never taken for ours. Nothing here is held open over a `yield`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")
STOP_SECONDS: Final = 1.0
"""How long a cancelled wait may take to end before it is left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds. Whichever passes first ends the call."""

    connect: float = 5.0
    first_token: float = 60.0
    """From the start of the call to the first sign of the model at work."""
    gap: float = 15.0
    """Between two such signs. Pings, comments and empty pieces are none."""
    wall: float = 180.0
    """The whole call, a retry and its pause included."""
    tail: float = 1.0
    """After the finish reason, for the usage and the end of the stream; being late is no error then."""


class Clock:
    """The deadlines of one call, running."""

    def __init__(self, deadlines: Deadlines) -> None:
        now = time.monotonic()
        self.deadlines = deadlines
        self._wall = now + deadlines.wall
        self._next = now + deadlines.first_token
        self._waiting_for = f"sent no text within {deadlines.first_token:g} s"

    def left(self) -> float:
        """Seconds to the next deadline; negative when it has passed."""
        return min(self._wall, self._next) - time.monotonic()

    def progressed(self) -> None:
        """The model is at work, or the reader had the turn: the gap starts anew."""
        self._next = time.monotonic() + self.deadlines.gap
        self._waiting_for = f"sent nothing for {self.deadlines.gap:g} s in the middle of its reply"

    def passed(self) -> str:
        """Which deadline passed, as the end of a sentence about the model."""
        if self._wall <= self._next:
            return f"was not done within {self.deadlines.wall:g} s"
        return self._waiting_for


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which runs in a task of its own. Raises `TimeoutError` when it is late."""
    if seconds <= 0:
        work.close()
        raise TimeoutError
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not task.done():
        await _stop(task)
        raise TimeoutError
    if task.cancelled():
        # Somebody else ended it. To the caller, who was not cancelled, that is a lost connection.
        raise ConnectionAbortedError("the exchange was cancelled from outside")
    return task.result()


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=STOP_SECONDS)
    if task.done() and not task.cancelled():
        task.exception()  # Looked at, so that asyncio does not report it as never retrieved.
