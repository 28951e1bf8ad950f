"""Work that is not cancelled with whoever awaits it."""

from __future__ import annotations

import asyncio

import pytest

from core.unbroken import Unbroken, unbroken


class Counter:
    """Counts up slowly."""

    def __init__(self) -> None:
        self.unbroken = Unbroken("the counter")
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.value = 0

    @unbroken
    async def add(self, number: int) -> int:
        self.begun.set()
        await self.go_on.wait()
        self.value += number
        return self.value


async def test_work_goes_on_when_its_caller_is_cancelled_and_close_waits_for_it() -> None:
    counter = Counter()
    caller = asyncio.create_task(counter.add(2))
    await counter.begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    counter.go_on.set()
    await counter.unbroken.close()
    assert counter.value == 2


async def test_nothing_is_begun_after_the_end() -> None:
    counter = Counter()
    await counter.unbroken.close()
    with pytest.raises(RuntimeError, match="the counter is closed"):
        await counter.add(2)
    assert not counter.begun.is_set()


async def test_a_failure_reaches_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Unbroken("it").run(fail())
