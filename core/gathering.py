"""Items that come faster than they can be worked on, taken together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

Item = TypeVar("Item")


async def gathered(stream: AsyncGenerator[Item, None]) -> AsyncGenerator[list[Item], None]:
    """Yields all that `stream` gave since it was last asked: one item if it is slow, many if it is fast.

    Nothing waits for a later item. `stream` is read in a task of its own and closed with this generator; what it
    raises is raised here, after the last items.
    """
    waiting: list[Item] = []
    news = asyncio.Event()

    async def read() -> None:
        async with aclosing(stream):
            async for item in stream:
                waiting.append(item)
                news.set()

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: news.set())
    try:
        while True:
            await news.wait()
            news.clear()
            if waiting:
                items, waiting = waiting, []
                yield items
            if reading.done() and not waiting:
                break
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
