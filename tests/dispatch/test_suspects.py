"""Questions at which processes died: one of them is at work at a time, so that only the culprit is blamed again."""

from __future__ import annotations

import asyncio

from adapters.notices import FAILED
from adapters.ports import Phase
from tests.dispatch.conftest import Desk, MakeDesk, message, seen
from tests.wall import Wall


async def died_at(make_desk: MakeDesk, wall: Wall, deaths: int, many: int = 3) -> list[int]:
    """Jobs that were under way, in a thread each, when as many processes died."""
    before = await make_desk(wall)
    jobs = []
    for number in range(1, many + 1):
        job = await before.store.jobs.admit(message(str(number), thread=f"t{number}"))
        assert job is not None
        for _ in range(deaths):
            await before.store.jobs.begin(job, 8)
        jobs.append(job.id)
    return jobs


class Working:
    """Answers that come when the test lets them."""

    def __init__(self, desk: Desk) -> None:
        self.now: list[str] = []
        self.go = asyncio.Event()
        desk.answering = self

    async def __call__(self, question, show) -> str:
        self.now.append(question.text)
        try:
            await self.go.wait()
        finally:
            self.now.remove(question.text)
        return f"re {question.text}"


async def test_one_is_tried_at_a_time_and_other_questions_beside_it(make_desk: MakeDesk):
    wall = Wall()
    jobs = await died_at(make_desk, wall, deaths=2)
    desk = await make_desk(wall)
    working = Working(desk)
    await desk.dispatcher.start()
    fresh = await desk.admits(message("9", thread="t9"))
    await desk.until(lambda: len(working.now) == 2)
    await asyncio.sleep(0.2)
    assert sorted(working.now) == ["question 1", "question 9"]
    assert await desk.sql("SELECT attempts FROM jobs ORDER BY id") == [(3,), (2,), (2,), (1,)]
    most = 0

    async def one(question, show) -> str:
        nonlocal most
        most = max(most, desk.at_once)
        await asyncio.sleep(0.01)
        return f"re {question.text}"

    desk.answering = one
    working.go.set()
    await desk.ends(fresh, *jobs)
    assert most == 1
    assert [wall.final(str(number)) for number in (1, 2, 3)] == [f"re question {number}" for number in (1, 2, 3)]


async def test_after_a_first_death_all_are_tried_at_once(make_desk: MakeDesk):
    """The proof that the test above sees the rule; a process that dies once delays nobody."""
    wall = Wall()
    jobs = await died_at(make_desk, wall, deaths=1)
    desk = await make_desk(wall)
    working = Working(desk)
    await desk.dispatcher.start()
    await desk.until(lambda: len(working.now) == 3)
    working.go.set()
    await desk.ends(*jobs)


async def test_one_that_waits_for_its_turn_can_be_stopped_and_deleted(make_desk: MakeDesk):
    wall = Wall()
    first, second, third = await died_at(make_desk, wall, deaths=2)
    desk = await make_desk(wall)
    working = Working(desk)
    await desk.dispatcher.start()
    await desk.until(lambda: bool(working.now) and all(seen(wall, str(number)) for number in (1, 2, 3)))
    desk.dispatcher.stop(second)
    await desk.ends(second)
    await desk.dispatcher.deleted(message("3", thread="t3").thread, "3")
    await desk.ends(third)
    await desk.until(lambda: not seen(wall, "3"))
    assert working.now == ["question 1"]
    assert [phase for _, phase in seen(wall, "2")] == [Phase.FINAL]
    working.go.set()
    await desk.ends(first)
    assert desk.asked == ["question 1"]


async def test_one_that_fails_lets_the_next_one_have_its_turn(make_desk: MakeDesk):
    wall = Wall()
    jobs = await died_at(make_desk, wall, deaths=2)
    desk = await make_desk(wall)

    async def fails(question, show) -> str:
        raise OSError

    desk.answering = fails
    await desk.dispatcher.start()
    await desk.until(lambda: len(desk.dispatcher._tickets) == 3)
    await desk.ends(*jobs)
    assert [seen(wall, str(number)) for number in (1, 2, 3)] == [[(FAILED, Phase.FINAL)]] * 3
    assert len(desk.asked) == 3
