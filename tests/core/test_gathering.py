"""Items that are taken together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from core.gathering import gathered


class Source:
    """Gives `items`; a float is a pause, an exception is raised."""

    def __init__(self, *items: str | float | Exception) -> None:
        self.items, self.closed = items, False

    async def stream(self) -> AsyncGenerator[str, None]:
        try:
            for item in self.items:
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, float):
                    await asyncio.sleep(item)
                else:
                    yield item
        finally:
            self.closed = True


async def test_items_come_together_as_they_are_there():
    assert [items async for items in gathered(Source("a", "b", 0.01, "c").stream())] == [["a", "b"], ["c"]]
    assert [items async for items in gathered(Source().stream())] == []


async def test_what_comes_while_the_reader_is_busy_is_its_next():
    got = []
    async for items in gathered(Source("a", 0.01, "b", 0.01, "c", 0.01, "d").stream()):
        got.append(items)
        await asyncio.sleep(0.1)
    assert got == [["a"], ["b", "c", "d"]]


async def test_an_error_comes_after_the_last_items():
    batches = gathered(Source("a", 0.01, "b", ValueError("broken")).stream())
    assert [await anext(batches), await anext(batches)] == [["a"], ["b"]]
    with pytest.raises(ValueError, match="broken"):
        await anext(batches)


async def test_the_stream_is_closed_with_its_reader():
    source = Source("a", 60.0)
    async with aclosing(gathered(source.stream())) as batches:
        assert await anext(batches) == ["a"]
    assert source.closed


async def test_a_cancelled_reader_closes_the_stream():
    source = Source("a", 60.0)

    async def read() -> None:
        async for _ in gathered(source.stream()):
            pass

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert source.closed
