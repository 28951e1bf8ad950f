"""Bounded work (P5), staleness (P7), stopping, and what waits for the model."""

from __future__ import annotations

import asyncio

import pytest

from adapters import notices
from adapters.ports import Phase, TurnState
from core.errors import QuestionExpired
from tests.dispatch.conftest import Desk, MakeDesk, message, seen
from tests.wall import Wall


async def test_after_three_attempts_that_fail_a_notice_says_so(desk: Desk, caplog: pytest.LogCaptureFixture):
    async def broken(question, show) -> str:
        raise ValueError("a bug")

    desk.answering = broken
    said = message("1")
    assert await desk.hears(said) == notices.FAILED
    assert desk.asked == ["question 1"] * 3
    assert (await desk.turn(said)).state is TurnState.FAILED
    assert "unexpected" in caplog.text
    desk.answering = lambda question, show: asyncio.sleep(0, "fine")
    assert await desk.hears(message("2")) == "fine"
    assert desk.questions[-1].history == (), "a failed turn is no history"


async def test_a_second_attempt_answers_in_the_same_message(desk: Desk):
    async def once_broken(question, show) -> str:
        await show("half an ans")
        await asyncio.sleep(0.02)
        if len(desk.asked) == 1:
            raise ValueError("a bug")
        return "whole"

    desk.answering = once_broken
    assert await desk.hears(message("1")) == "whole"
    assert notices.AGAIN in desk.wall.seen(Phase.WAITING)


async def test_attempts_are_counted_before_the_work(desk: Desk):
    counts = []

    async def look(question, show) -> str:
        counts.extend(await desk.sql("SELECT attempts, state FROM jobs"))
        return "fine"

    desk.answering = look
    await desk.hears(message("1"))
    assert counts == [(1, "running")]


async def test_a_question_that_killed_three_processes_is_given_up_and_others_go_on(make_desk: MakeDesk):
    """K15."""
    wall = Wall()
    before = await make_desk(wall)
    job = await before.store.jobs.admit(message("1"))
    await before.store.jobs.admit(message("2", thread="t2"))
    assert job is not None
    for _ in range(3):
        await before.store.jobs.begin(job, 8)
    after = await make_desk(wall)
    await after.dispatcher.start()
    await after.until(lambda: bool(seen(wall, "1")) and bool(seen(wall, "2")))
    await after.until(lambda: wall.replies("1")[0].phase is wall.replies("2")[0].phase is Phase.FINAL)
    assert (wall.final("1"), wall.final("2")) == (notices.FAILED, "re question 2")
    assert after.asked == ["question 2"]


async def test_a_question_that_is_too_old_gets_a_notice_and_no_model(make_desk: MakeDesk):
    """P7, O7."""
    wall = Wall()
    before = await make_desk(wall)
    await before.store.jobs.admit(message("1"))
    await asyncio.sleep(0.3)
    after = await make_desk(wall, ttl=0.2)
    await after.dispatcher.start()
    await after.until(lambda: bool(seen(wall, "1")) and wall.replies("1")[0].phase is Phase.FINAL)
    assert wall.final("1") == str(QuestionExpired())
    assert after.asked == []
    assert await after.hears(message("2")) == "re question 2"


async def test_a_stopped_answer_ends_with_what_was_shown(desk: Desk):
    shown = asyncio.Event()

    async def endless(question, show) -> str:
        await show("half an ans")
        shown.set()
        await asyncio.sleep(60)
        return "whole"

    desk.answering = endless
    said = message("1")
    job = await desk.admits(said)
    await shown.wait()
    await desk.until(lambda: bool(desk.wall.seen(Phase.GROWING)))
    desk.dispatcher.stop(job)
    await desk.ends(job)
    assert desk.wall.final("1") == "half an ans"
    assert (await desk.turn(said)).state is TurnState.INCOMPLETE
    assert desk.at_once == 0, "the call was cancelled"


async def test_a_hung_answer_of_one_thread_holds_up_no_other(desk: Desk):
    """B97."""

    async def hang(question, show) -> str:
        if question.text == "question 1":
            await asyncio.sleep(60)
        return "fine"

    desk.answering = hang
    await desk.admits(message("1"))
    await desk.admits(message("2"))
    assert await desk.hears(message("3", thread="t2")) == "fine"
    assert desk.asked == ["question 1", "question 3"]


async def test_the_place_in_the_line_is_told_when_it_changes(make_desk: MakeDesk):
    """O4."""
    desk = await make_desk(position_every=0.05)
    enter = desk.line.enter

    def behind(*args, **kwargs):
        seat = enter(*args, **kwargs)
        seat.ahead, seat.wait_seconds = 3, 40.0
        return seat

    desk.line.enter = behind  # type: ignore[method-assign]
    await desk.dispatcher.start()
    go = asyncio.Event()

    async def wait(question, show) -> str:
        await go.wait()
        return "fine"

    desk.answering = wait
    first = await desk.admits(message("1"))
    second = await desk.admits(message("2"))
    await desk.until(lambda: seen(desk.wall, "2") == [("Queued, 3 ahead, about 40 s", Phase.WAITING)])
    for seat in desk.line.seats:
        seat.ahead, seat.wait_seconds = 1, 20.0
    await desk.until(lambda: seen(desk.wall, "2") == [("Queued, 1 ahead, about 20 s", Phase.WAITING)])
    go.set()
    await desk.ends(first, second)
    assert seen(desk.wall, "2") == [("fine", Phase.FINAL)]


async def test_a_result_waits_for_a_disk_that_is_full_and_is_not_made_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """F19: the answer is there, only the disk is not."""
    from core.errors import DataDirError

    settle, full = desk.store.jobs.settle, [True, True, True]

    async def when_there_is_room(*args):
        if full:
            full.pop()
            raise DataDirError("the disk is full")
        return await settle(*args)

    monkeypatch.setattr(desk.store.jobs, "settle", when_there_is_room)
    assert await desk.hears(message("1")) == "re question 1"
    assert (desk.asked, full) == (["question 1"], [])
