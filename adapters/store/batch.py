"""Many small writes that come in the same moment, in as few transactions as can be."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_AT_ONCE = 100
"""Items of one transaction."""


class Batches(Generic[Item, Result]):
    """Whoever adds an item waits until it is written, together with all that wait by then."""

    def __init__(self, write: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]) -> None:
        """`write` gives a result for each item, in order; an exception among them is raised to that item's caller."""
        self._write = write
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._writing = asyncio.Lock()

    async def add(self, item: Item) -> Result:
        """What became of `item`. Raises what `write` raised."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        async with self._writing:
            if not result.done():
                await self._next([self._waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(self._waiting)))])
        return await result

    async def _next(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            written = await self._write([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - each of those who wait is told
            written = [error] * len(batch)
        for (_, result), value in zip(batch, written, strict=True):
            if isinstance(value, Exception):
                result.set_exception(value)
            else:
                result.set_result(value)
