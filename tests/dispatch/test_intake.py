"""A message is taken once, in its place, and acknowledged only when it is on the disk (P1, P2, P4)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from adapters.ports import Phase
from core.errors import DataDirError, QueueFull, ThreadwiseError
from tests.dispatch.conftest import Desk, MakeDesk, message, opened, seen
from tests.wall import Wall

FULL = str(QueueFull("asker"))


async def test_a_message_that_comes_four_times_is_answered_once(desk: Desk):
    """F1."""
    admitted = await asyncio.gather(*(desk.dispatcher.admit(message("1")) for _ in range(4)))
    jobs = [taken.job for taken in admitted if taken]
    assert len(jobs) == 1
    await desk.ends(*filter(None, jobs))
    assert await desk.dispatcher.admit(message("1", thread="elsewhere")) is None
    assert desk.asked == ["question 1"]
    assert seen(desk.wall, "1") == [("re question 1", Phase.FINAL)]
    assert len(opened(desk.wall)) == 1


async def test_admitted_means_on_the_disk(desk: Desk):
    """Another connection sees message, turn, job and the message of ours that is to come, all or nothing."""
    await desk.admits(message("1"))
    with closing(sqlite3.connect(desk.store.database.path)) as other:
        counts = [
            other.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("inbox", "turns", "jobs", "outbox")
        ]
    assert counts == [1, 1, 1, 1]


async def test_what_cannot_be_stored_is_not_acknowledged_and_comes_again(make_desk: MakeDesk):
    """F18."""
    desk = await make_desk(busy=0.05)
    with closing(sqlite3.connect(desk.store.database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DataDirError, match="locked"):
            await desk.dispatcher.admit(message("1"))
        assert not desk.line.seats, "the place in the line is given back"
    assert await desk.hears(message("1")) == "re question 1"


async def test_a_channel_that_gives_up_waiting_leaves_no_job_that_nobody_is_at(desk: Desk):
    task = asyncio.create_task(desk.dispatcher.admit(message("1")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await desk.until(lambda: seen(desk.wall, "1") == [("re question 1", Phase.FINAL)])


async def test_questions_of_a_thread_are_answered_in_the_order_of_the_platform(desk: Desk):
    """F2, B97: they come 3, 2, 4 while 1 is being answered."""
    go = asyncio.Event()

    async def wait(question, show) -> str:
        await go.wait()
        return f"re {question.text}"

    desk.answering = wait
    jobs = [await desk.admits(message("1"))]
    await desk.until(lambda: len(desk.asked) == 1)
    jobs += [await desk.admits(message(id_)) for id_ in ("3", "2", "10", "4")]
    go.set()
    await desk.ends(*jobs)
    assert desk.asked == [f"question {n}" for n in (1, 2, 3, 4, 10)]
    assert [len(question.history) for question in desk.questions] == [0, 1, 2, 3, 4]
    assert [turn.message_id for turn in await desk.store.turns(message("1").thread)] == ["1", "2", "3", "4", "10"]
    assert desk.most_at_once == 1


async def test_threads_do_not_wait_for_each_other_and_idle_ones_are_dropped(desk: Desk):
    go = asyncio.Event()

    async def wait(question, show) -> str:
        await go.wait()
        return "late"

    desk.answering = wait
    jobs = [await desk.admits(message(str(n), thread=f"t{n}")) for n in range(5)]
    await desk.until(lambda: desk.at_once == 5)
    go.set()
    await desk.ends(*jobs)
    await desk.until(lambda: not len(desk.dispatcher._lanes))
    assert not desk.dispatcher._tickets
    assert not desk.line.seats


async def test_a_full_line_refuses_at_once_and_says_so_once_a_minute(make_desk: MakeDesk):
    """O2."""
    desk = await make_desk(refusal_every=0.3)
    desk.line.full = "asker"
    first = await desk.dispatcher.admit(message("1"))
    second = await desk.dispatcher.admit(message("2"))
    other = await desk.dispatcher.admit(message("3", author="bob"))
    assert first is not None
    assert second is not None
    assert other is not None
    assert (first.refused, second.refused, second.job) == (True, True, None)
    await desk.ends(first.job or 0, other.job or 0)
    assert seen(desk.wall, "1") == seen(desk.wall, "3") == [(FULL, Phase.FINAL)]
    assert seen(desk.wall, "2") == []
    assert desk.asked == []
    assert await desk.dispatcher.admit(message("1")) is None, "a redelivery is not refused again"
    await asyncio.sleep(0.35)
    again = await desk.dispatcher.admit(message("4"))
    assert again is not None
    await desk.ends(again.job or 0)
    assert seen(desk.wall, "4") == [(FULL, Phase.FINAL)]


async def test_of_many_questions_refused_at_once_only_the_first_is_told_so(desk: Desk):
    desk.line.full = "asker"
    refused = await asyncio.gather(*(desk.dispatcher.admit(message(str(n))) for n in range(15)))
    assert all(refused)
    told = [each.job for each in refused if each and each.job is not None]
    assert len(told) == 1
    await desk.ends(*told)
    assert len(opened(desk.wall)) == 1


async def test_a_refused_question_is_no_part_of_the_conversation(desk: Desk):
    desk.line.full = "asker"
    refused = await desk.dispatcher.admit(message("1"))
    assert refused is not None
    await desk.ends(refused.job or 0)
    desk.line.full = ""
    await desk.hears(message("2"))
    assert [turn.message_id for turn in await desk.store.turns(message("2").thread)] == ["2"]
    assert desk.questions[0].history == ()


async def test_a_disk_that_is_nearly_full_refuses_and_takes_again_without_a_restart(make_desk: MakeDesk):
    """F19."""
    desk = await make_desk(free_bytes=200 * 2**20)
    free = [100 * 2**20]
    desk.dispatcher._door._free_bytes = lambda: free[0]
    refused = await desk.dispatcher.admit(message("1"))
    assert refused is not None
    await desk.ends(refused.job or 0)
    ((body, _),) = seen(desk.wall, "1")
    assert "disk" in body
    assert desk.asked == []
    free[0] = 300 * 2**20
    assert await desk.hears(message("2")) == "re question 2"


async def test_nothing_is_taken_while_the_process_ends(desk: Desk):
    await desk.dispatcher.close(0)
    with pytest.raises(ThreadwiseError, match="stopping"):
        await desk.dispatcher.admit(message("1"))
    assert await desk.sql("SELECT * FROM inbox") == []


async def test_an_answer_is_no_ground_to_refuse_what_was_accepted_before(make_desk: MakeDesk):
    """A question that was taken by a process that died is not subject to the limits again."""
    wall = Wall()
    before = await make_desk(wall)
    await before.store.jobs.admit(message("1"))
    after = await make_desk(wall)
    after.line.full = "asker"
    await after.dispatcher.start()
    await after.until(lambda: seen(wall, "1") == [("re question 1", Phase.FINAL)])
    with pytest.raises(QueueFull):
        after.line.enter("ada", "c1")
