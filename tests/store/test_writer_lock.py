"""The order of writers, and what a cancelled one leaves."""

from __future__ import annotations

import asyncio

import pytest

from adapters.store.writer_lock import WriterLock


async def entered(lock: WriterLock, names: list[str]) -> list[str]:
    """Who held the lock, in order; names in capitals are urgent. All of them come while somebody has it."""
    order: list[str] = []

    async def hold(name: str) -> None:
        async with lock.hold(urgent=name.isupper()):
            order.append(name)
            await asyncio.sleep(0)

    async with lock.hold():
        tasks = [asyncio.create_task(hold(name)) for name in names]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return order


async def test_the_urgent_go_first_and_each_line_keeps_its_order():
    assert await entered(WriterLock(), ["a", "b", "C", "d", "E"]) == ["C", "E", "a", "b", "d"]


@pytest.mark.parametrize("at_its_turn", [False, True])
async def test_one_who_gives_up_waiting_holds_up_nobody(at_its_turn: bool):
    lock = WriterLock()
    order = []

    async def hold(name: str) -> None:
        async with lock.hold():
            order.append(name)

    async with lock.hold():
        first, second = asyncio.create_task(hold("first")), asyncio.create_task(hold("second"))
        await asyncio.sleep(0)
        if not at_its_turn:
            first.cancel()
            await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 1)
    assert order == ["second"]
    assert await entered(lock, ["a"]) == ["a"]


async def test_an_error_inside_gives_the_lock_back():
    lock = WriterLock()
    with pytest.raises(ValueError, match="mine"):
        async with lock.hold():
            raise ValueError("mine")
    assert await entered(lock, ["a"]) == ["a"]
