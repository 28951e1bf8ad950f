"""Who may write next: the urgent ones in the order of their calls, then the others in theirs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class WriterLock:
    """A lock with two lines. The urgent line is for short work that somebody's deadline depends on."""

    def __init__(self) -> None:
        self._held = False
        self._lines: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = (deque(), deque())

    @asynccontextmanager
    async def hold(self, *, urgent: bool = False) -> AsyncIterator[None]:
        """Waits for the lock, and has it in the block."""
        if self._held:
            await self._wait(self._lines[not urgent])
        self._held = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, line: deque[asyncio.Future[None]]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # The turn came while the waiting ended.
            raise

    def _pass_on(self) -> None:
        for line in self._lines:
            while line:
                turn = line.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._held = False
