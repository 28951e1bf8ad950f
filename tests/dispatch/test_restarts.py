"""What one process leaves, the next one takes over (P6); a process that lost its lease can do nothing more."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, tzinfo

import pytest

from adapters.jobs import Ending, JobState
from adapters.ports import Phase, TurnState
from adapters.store import ticks
from core.errors import LeaseLost
from core.types import Answer, Query, QueryStatus
from tests.dispatch.conftest import MakeDesk, message, opened, seen
from tests.wall import Wall


def final(wall: Wall, *ids: str) -> bool:
    return all(wall.replies(id_) and wall.replies(id_)[0].phase is Phase.FINAL for id_ in ids)


async def hang(question, show) -> str:
    await show("half")
    await asyncio.sleep(60)
    return "never"


def told(text: str) -> Answer:
    return Answer(text=text, query=Query(text="q", status=QueryStatus.SKIPPED))


async def test_answers_under_way_get_their_grace_and_the_rest_is_for_the_next_process(make_desk: MakeDesk):
    wall = Wall()
    desk = await make_desk(wall)
    await desk.dispatcher.start()

    async def takes_a_while(question, show) -> str:
        await asyncio.sleep(0.3)
        return f"re {question.text}"

    desk.answering = takes_a_while
    await desk.admits(message("1"))
    await desk.admits(message("2"))
    await desk.until(lambda: desk.at_once == 1)
    await desk.dispatcher.close(grace=5)
    assert final(wall, "1")
    assert desk.asked == ["question 1"]
    after = await make_desk(wall)
    await after.dispatcher.start()
    await after.until(lambda: final(wall, "2"))
    assert (after.asked, len(opened(wall))) == (["question 2"], 2)
    assert len(after.questions[0].history) == 1


async def test_an_answer_that_outlasts_the_grace_is_made_anew_in_the_same_message(make_desk: MakeDesk):
    wall = Wall()
    desk = await make_desk(wall)
    await desk.dispatcher.start()
    desk.answering = hang
    await desk.admits(message("1"))
    await desk.until(lambda: bool(wall.seen(Phase.GROWING)))
    began = asyncio.get_running_loop().time()
    await desk.dispatcher.close(grace=0.1)
    assert asyncio.get_running_loop().time() - began < 3
    assert await desk.sql("SELECT state, attempts, lease_owner FROM jobs") == [("queued", 0, "")]
    after = await make_desk(wall)
    await after.dispatcher.start()
    await after.until(lambda: final(wall, "1"))
    assert seen(wall, "1") == [("re question 1", Phase.FINAL)]
    assert len(opened(wall)) == 1


async def test_an_answer_that_was_stored_is_delivered_without_asking_the_model_again(make_desk: MakeDesk):
    """K10."""
    wall = Wall()
    before = await make_desk(wall)
    job = await before.store.jobs.admit(message("1"))
    assert job is not None
    await before.store.jobs.settle(job, told("stored"), TurnState.ANSWERED, ["stored"], Ending.ANSWERED)
    after = await make_desk(wall)
    await after.dispatcher.start()
    await after.until(lambda: final(wall, "1"))
    assert (wall.final("1"), after.asked) == ("stored", [])


async def test_everything_left_unfinished_ends_once_the_oldest_first_and_fair(make_desk: MakeDesk):
    """F8: of 30 questions of one person and one of another, the other one is not the last."""
    wall = Wall()
    before = await make_desk(wall)
    for n in range(30):
        await before.store.jobs.admit(message(str(n), thread=f"t{n}"))
    await before.store.jobs.admit(message("30", thread="t30", author="bob"))
    after = await make_desk(wall)
    await after.dispatcher.start()
    await after.until(lambda: final(wall, *map(str, range(31))))
    assert sorted(after.asked) == sorted(f"question {n}" for n in range(31))
    assert after.line.entered[1][0].endswith("bob")
    assert len(opened(wall)) == 31


async def test_a_process_whose_lease_has_run_out_writes_and_shows_nothing_more(make_desk: MakeDesk):
    """Stopped for longer than its lease, and started again: another one has the job."""
    wall = Wall()
    stopped = await make_desk(wall, lease=0.2, heartbeat=60)
    go = asyncio.Event()

    async def late(question, show) -> str:
        await go.wait()
        return "late"

    stopped.answering = late
    await stopped.dispatcher.start()
    job = await stopped.admits(message("1"))
    await stopped.until(lambda: stopped.at_once == 1)
    await asyncio.sleep(0.3)
    after = await make_desk(wall)
    await after.dispatcher.start(alone=False)
    await after.until(lambda: final(wall, "1"))
    shown = list(wall.calls)
    go.set()
    await stopped.ends(job)
    assert wall.calls == shown
    assert wall.final("1") == "re question 1"
    assert (await after.turn(message("1"))).answered == "re question 1"


async def test_a_job_that_somebody_is_at_is_left_alone(make_desk: MakeDesk):
    wall = Wall()
    busy = await make_desk(wall, lease=30)
    await busy.store.jobs.admit(message("1"))
    other = await make_desk(wall)
    await other.dispatcher.start(alone=False)
    await asyncio.sleep(0.5)
    assert other.asked == []
    assert await other.store.jobs.take_over(["slack"], alone=True) == []


async def test_every_write_for_a_job_needs_its_lease(make_desk: MakeDesk):
    first, second = await make_desk(), await make_desk()
    job = await first.store.jobs.admit(message("1"))
    assert job is not None
    (taken,) = await second.store.jobs.take_over(["terminal"], alone=True)
    assert taken.fence == job.fence + 1
    jobs = first.store.jobs
    writes = [
        jobs.begin(job, 8),
        jobs.count(job, 1),
        jobs.release(job),
        jobs.settle(job, told("old"), TurnState.ANSWERED, ["old"], Ending.ANSWERED),
        jobs.posted(job, 0, "r9"),
        jobs.delivered(job, 0, "r9", last=True),
        jobs.end(job, JobState.CANCELLED),
    ]
    for write in writes:
        with pytest.raises(LeaseLost):
            await write
    assert await first.sql("SELECT state, attempts, fence FROM jobs") == [("queued", 0, 2)]


async def test_a_clock_that_jumps_expires_nothing_and_takes_nothing_over(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
):
    """F22: ages and leases are told by the clock of the boot."""
    desk = await make_desk()
    job = await desk.store.jobs.admit(message("1"))
    assert job is not None

    class Tomorrow:
        @staticmethod
        def now(zone: tzinfo | None) -> datetime:
            return datetime.now(zone) + timedelta(days=1)

    monkeypatch.setattr("adapters.store.job_rows.datetime", Tomorrow)
    other = await make_desk()
    assert await other.store.jobs.take_over(["terminal"], alone=False) == []
    (taken,) = await other.store.jobs.take_over(["terminal"], alone=True)
    assert taken.age < 60
    assert ticks.age("another boot", 0.0, job_time := Tomorrow.now(None), job_time) == 0.0


async def test_what_a_terminal_left_unanswered_is_ended_and_told(make_desk: MakeDesk):
    desk = await make_desk()
    await desk.store.jobs.admit(message("1", "and on ARM?"))
    assert await desk.store.abandon("terminal") == ["and on ARM?"]
    assert await desk.states() == {"1": "done"}
