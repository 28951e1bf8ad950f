"""What is known of threads that people have taken over."""

from __future__ import annotations

import asyncio

import pytest

from adapters import takeover
from adapters.takeover import Takeovers


class Look:
    """Looks back once it may, and counts how often it is asked to."""

    def __init__(self, taken: bool) -> None:
        self.taken, self.times, self.may = taken, 0, asyncio.Event()

    async def __call__(self) -> bool:
        self.times += 1
        await self.may.wait()
        return self.taken


async def test_all_who_ask_of_a_thread_at_once_wait_for_one_look():
    """Two messages that come together after a restart, or one that the catch-up reads too."""
    takeovers, look = Takeovers[str](), Look(taken=True)
    asking = [asyncio.create_task(takeovers.is_taken("t", look)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in asking)
    asking[0].cancel()
    look.may.set()
    assert await asyncio.gather(*asking[1:]) == [True, True]
    assert look.times == 1
    assert await takeovers.is_taken("t", look)
    assert look.times == 1


async def test_what_is_said_during_the_look_counts_more_than_what_it_finds():
    takeovers, look = Takeovers[str](), Look(taken=True)
    asking = asyncio.create_task(takeovers.is_taken("t", look))
    await asyncio.sleep(0.01)
    takeovers.note("t", taken=False)
    look.may.set()
    assert not await asking


async def test_a_thread_is_looked_at_again_when_it_was_dropped_or_is_one_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(takeover, "MOST_THREADS", 2)
    takeovers, look = Takeovers[str](), Look(taken=True)
    look.may.set()
    for thread in ("a", "b", "c", "c", "b"):
        await takeovers.is_taken(thread, look)
    assert look.times == 3
    await takeovers.is_taken("a", look)
    assert look.times == 4
    takeovers.drop("b")
    await takeovers.is_taken("b", look)
    assert look.times == 5


async def test_a_look_that_fails_is_tried_again():
    takeovers = Takeovers[str]()

    async def broken() -> bool:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        await takeovers.is_taken("t", broken)
    (look := Look(taken=True)).may.set()
    assert await takeovers.is_taken("t", look)
