"""What is known of threads that people have taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from adapters import takeover
from adapters.takeover import Change, Takeovers


class Look:
    """Looks back once it may, and counts how often it is asked to."""

    def __init__(self, *changes: Change) -> None:
        self.changes, self.times, self.may = changes, 0, asyncio.Event()

    async def __call__(self) -> Sequence[Change]:
        self.times += 1
        await self.may.wait()
        return self.changes


STAFF, CALLED = Change("3", taken=True), Change("5", taken=False)


def free(*changes: Change) -> Look:
    look = Look(*changes)
    look.may.set()
    return look


async def test_all_who_ask_of_a_thread_at_once_wait_for_one_look():
    """Two messages that come together after a restart, or one that the catch-up reads too."""
    takeovers, look = Takeovers[str](), Look(STAFF)
    asking = [asyncio.create_task(takeovers.is_taken("t", "4", look)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in asking)
    asking[0].cancel()
    look.may.set()
    assert await asyncio.gather(*asking[1:]) == [True, True]
    assert look.times == 1
    assert await takeovers.is_taken("t", "4", look)
    assert look.times == 1


async def test_each_message_counts_for_those_after_it_whenever_it_is_heard_of():
    takeovers, look = Takeovers[str](), free(STAFF)
    assert await takeovers.is_taken("t", "6", look)
    takeovers.note("t", CALLED)
    assert not await takeovers.is_taken("t", "6", look)
    assert await takeovers.is_taken("t", "4", look)
    takeovers.note("t", Change("1", taken=False))
    assert await takeovers.is_taken("t", "4", look)
    assert not await takeovers.is_taken("t", "2", look)


async def test_what_is_said_during_the_look_counts_beside_what_it_finds():
    takeovers, look = Takeovers[str](), Look(STAFF)
    asking = asyncio.create_task(takeovers.is_taken("t", "6", look))
    await asyncio.sleep(0.01)
    takeovers.note("t", CALLED)
    look.may.set()
    assert not await asking


async def test_a_thread_is_looked_at_if_its_first_message_was_read_up_and_not_if_it_was_heard():
    """What was said after a message that is being read up may not have been read yet."""
    takeovers, look = Takeovers[str](), free(STAFF)
    takeovers.note("heard", Change("1", taken=False), opens=True)
    assert not await takeovers.is_taken("heard", "4", look)
    assert look.times == 0
    takeovers.note("read up", Change("1", taken=False))
    assert await takeovers.is_taken("read up", "4", look)
    assert look.times == 1


async def test_a_thread_is_looked_at_again_after_a_gap_when_it_was_dropped_or_is_one_too_many(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(takeover, "MOST_THREADS", 2)
    takeovers, look = Takeovers[str](), free(STAFF)
    for thread in ("a", "b", "c", "c", "b"):
        await takeovers.is_taken(thread, "4", look)
    assert look.times == 3
    await takeovers.is_taken("a", "4", look)
    assert look.times == 4
    takeovers.drop("b")
    await takeovers.is_taken("b", "4", look)
    assert look.times == 5
    takeovers.gap()
    await takeovers.is_taken("b", "4", look)
    assert look.times == 6


async def test_of_a_long_thread_the_newest_changes_are_kept():
    takeovers, look = Takeovers[str](), free()
    for number in range(100):
        takeovers.note("t", Change(f"{number:03}", taken=number % 2 == 0))
    assert len(takeovers._courses["t"].changes) == takeover.MOST_CHANGES
    assert await takeovers.is_taken("t", "099", look)


async def test_a_look_that_fails_is_tried_again():
    takeovers = Takeovers[str]()

    async def broken() -> Sequence[Change]:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        await takeovers.is_taken("t", "4", broken)
    assert await takeovers.is_taken("t", "4", free(STAFF))
