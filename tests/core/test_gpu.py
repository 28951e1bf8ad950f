"""Who gets the model, and when; in virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from core.errors import NoSlot, QuestionExpired, QueueFull
from core.gpu import Gpu, Seat
from tests.core.queueing import Office, gpu, sample, settled
from tests.virtual_time import in_virtual_time, now


async def held(seat: Seat, seconds: float, cost: int = 100, *, optional: bool = False) -> float:
    """Takes a slot for some seconds; when it came."""
    async with seat.slot(cost, optional=optional):
        came = now()
        await asyncio.sleep(seconds)
    return came


@in_virtual_time
async def test_o1_never_more_calls_in_flight_than_the_endpoint_answers():
    office = Office(gpu(slots=4))
    for n in range(500):
        office.job(f"u{n}", seconds=0.5)
    start = now()
    await office.closing()
    assert office.most_in_flight == 4
    assert now() - start == pytest.approx(500 / 4 * 0.5)


@in_virtual_time
async def test_o2_the_job_after_the_last_place_is_refused_at_once():
    at = gpu()
    seats = [at.enter(f"u{n}", f"c{n}") for n in range(100)]
    refusals = sample("rag_queue_refusals_total", reason="total")
    with pytest.raises(QueueFull) as full:
        at.enter("late", "c")
    assert (full.value.reason, at.jobs) == ("total", 100)
    assert "\n" not in str(full.value)
    assert sample("rag_queue_refusals_total", reason="total") == refusals + 1
    seats[7].leave()
    at.enter("late", "c")


@in_virtual_time
async def test_o2_three_jobs_a_person_and_twenty_five_a_place():
    at = gpu()
    for _ in range(3):
        at.enter("flooder", "c1")
    with pytest.raises(QueueFull, match="earlier questions"):
        at.enter("flooder", "c2")
    for n in range(22):
        at.enter(f"u{n}", "c1")
    with pytest.raises(QueueFull) as full:
        at.enter("u99", "c1")
    assert full.value.reason == "place"
    at.enter("u99", "c2")


@in_virtual_time
async def test_jobs_from_before_a_restart_are_taken_beyond_the_limits():
    at = gpu(total=2)
    for _ in range(500):
        at.enter("u", "c", enforce=False)
    assert at.jobs == 500


@in_virtual_time
async def test_a_person_has_one_job_running_however_many_slots_are_free():
    office = Office(gpu(slots=4))
    for _ in range(3):
        office.job("a", seconds=1.0)
    start = now()
    await office.closing()
    assert now() - start == pytest.approx(3.0)


@pytest.mark.parametrize("slots", [1, 4])
def test_o3_one_question_of_another_person_is_served_within_a_completion_of_each_slot(slots: int):
    @in_virtual_time
    async def scenario() -> None:
        office = Office(gpu(slots=slots, running_per_asker=slots))
        for _ in range(50):
            office.job("flooder")
        await asyncio.sleep(3.5)
        before = len(office.served)
        office.job("b")
        await office.closing()
        assert office.served.index("b") - before < slots + 1

    scenario()


@in_virtual_time
async def test_o3_twenty_equal_people_are_served_alike_for_five_minutes():
    office = Office(gpu(slots=4))
    for n in range(20):
        for turn in range(20):
            # Long questions and short ones, each person their own mixture.
            office.job(f"u{n}", seconds=1.0 + (n + turn) % 3, cost=200 + 300 * ((n + turn) % 3))
    await asyncio.sleep(300)
    assert max(office.tokens.values()) / min(office.tokens.values()) <= 1.5
    assert len(office.tokens) == 20
    for task in office.tasks:
        task.cancel()
    await asyncio.gather(*office.tasks, return_exceptions=True)
    assert (office.gpu.jobs, office.gpu.in_use) == (0, 0)


@in_virtual_time
async def test_o3_fairness_is_by_tokens_not_by_questions():
    office = Office(gpu(running_per_asker=9))
    for _ in range(10):
        office.job("long", cost=4000)
        office.job("short", cost=500)
    await asyncio.sleep(9.5)
    assert office.served.count("short") >= 7


@in_virtual_time
async def test_nobody_saves_up_turns_by_having_been_silent():
    office = Office(gpu(running_per_asker=99))
    for _ in range(40):
        office.job("steady")
    await asyncio.sleep(20.5)
    for _ in range(10):
        office.job("silent so far")
    await asyncio.sleep(10)
    assert 4 <= office.served[20:30].count("steady") <= 6


@in_virtual_time
async def test_a_job_that_has_begun_goes_before_jobs_that_have_not():
    office = Office(gpu())
    office.job("a", calls=2, seconds=1.0, think=0.1)
    for asker in "bcd":
        office.job(asker, seconds=1.0)
    await office.closing()
    assert office.served == ["a", "b", "a", "c", "d"]


@in_virtual_time
async def test_the_slot_works_for_others_while_its_job_searches():
    office = Office(gpu())
    for n in range(10):
        office.job(f"u{n}", calls=2, seconds=1.0, think=0.3)
    start = now()
    await office.closing()
    assert now() - start <= 20 / 0.97


@in_virtual_time
async def test_o4_a_seat_tells_how_many_come_before_it_and_how_long_that_takes():
    at = gpu()
    first = at.enter("a", "c")
    assert (first.ahead, first.wait_seconds) == (0, 0.0)
    running = asyncio.create_task(held(first, 10.0))
    await settled()
    second, third = at.enter("b", "c"), at.enter("b", "c")
    fourth = at.enter("c", "c")
    assert [seat.ahead for seat in (first, second, third, fourth)] == [0, 0, 2, 1]
    assert second.wait_seconds is None, "nothing is known of how long jobs take"
    await running
    first.leave()
    running = asyncio.create_task(held(second, 10.0))
    await settled()
    assert (third.ahead, fourth.ahead) == (1, 0)
    assert third.wait_seconds == pytest.approx(20.0)
    assert fourth.wait_seconds == pytest.approx(10.0)
    await running


@in_virtual_time
async def test_o7_expired_jobs_are_dropped_before_any_call():
    office = Office(gpu(slots=4))
    outcomes = []
    for n in range(100):
        seat = office.gpu.enter(f"u{n}", "c", enforce=False, ttl=0.0 if n % 2 else 900.0)
        outcomes.append(asyncio.create_task(held(seat, 1.0)))
    ended = await asyncio.gather(*outcomes, return_exceptions=True)
    assert sum(isinstance(end, QuestionExpired) for end in ended) == 50
    assert sum(isinstance(end, float) for end in ended) == 50


@in_virtual_time
async def test_o7_a_job_that_waits_is_told_when_its_time_is_over_and_one_that_has_begun_is_not():
    at = gpu(ttl_seconds=30.0)
    a, b = at.enter("a", "c"), at.enter("b", "c")
    running = asyncio.create_task(held(a, 100.0))
    await settled()
    start = now()
    with pytest.raises(QuestionExpired):
        await held(b, 1.0)
    assert now() - start == pytest.approx(30.0)
    await running
    await held(a, 1.0)


@in_virtual_time
async def test_a_rewrite_whose_slot_does_not_come_soon_is_left_out_and_its_job_keeps_its_place():
    at = gpu(patience_seconds=20.0)
    a, b = at.enter("a", "c"), at.enter("b", "c")
    running = asyncio.create_task(held(a, 60.0))
    await settled()
    start = now()
    with pytest.raises(NoSlot):
        await held(b, 1.0, optional=True)
    assert now() - start == pytest.approx(20.0)
    late = asyncio.create_task(held(at.enter("c", "c"), 1.0))
    await settled()
    answer = asyncio.create_task(held(b, 1.0))
    await running
    a.leave()
    assert await answer < await late


@in_virtual_time
async def test_waiting_for_the_slot_takes_nothing_off_the_seconds_of_the_call():
    at = gpu(patience_seconds=20.0)
    a, b = at.enter("a", "c"), at.enter("b", "c")
    running = asyncio.create_task(held(a, 10.0))
    await settled()
    start = now()
    assert await held(b, 3.0, optional=True) == pytest.approx(start + 10.0)
    assert now() - start == pytest.approx(13.0)
    await running


@in_virtual_time
async def test_o8_a_cancelled_job_gives_its_slot_to_the_next_at_once():
    at = gpu()
    a, b = at.enter("a", "c"), at.enter("b", "c")
    running = asyncio.create_task(held(a, 100.0))
    await settled()
    waiting = asyncio.create_task(held(b, 1.0))
    await asyncio.sleep(5)
    running.cancel()
    start = now()
    assert await waiting == start
    assert at.in_use == 0


@in_virtual_time
async def test_a_job_cancelled_in_the_moment_its_slot_comes_does_not_keep_it():
    at = gpu()
    a, b, c = (at.enter(asker, "c") for asker in "abc")
    running = asyncio.create_task(held(a, 5.0))
    await settled()
    unlucky = asyncio.create_task(held(b, 1.0))
    next_one = asyncio.create_task(held(c, 1.0))
    await settled()
    running.add_done_callback(lambda _: unlucky.cancel())
    await next_one
    assert unlucky.cancelled()
    assert at.in_use == 0


@in_virtual_time
async def test_leaving_twice_is_no_harm_and_a_seat_that_was_left_takes_no_slot():
    at = gpu()
    with at.enter("a", "c") as seat:
        seat.leave()
    seat.leave()
    assert at.jobs == 0
    with pytest.raises(RuntimeError):
        await held(seat, 1.0)


@in_virtual_time
async def test_background_work_waits_until_no_person_does():
    at = gpu()
    office = Office(at)
    office.job("a", seconds=5.0)
    office.job("b", seconds=5.0)
    await settled()
    start = now()
    async with at.background().slot(100):
        assert now() - start == pytest.approx(10.0)
        assert office.served == ["a", "b"]
    await office.closing()


@in_virtual_time
async def test_background_work_is_asked_to_end_when_a_person_comes_and_only_when_no_slot_is_free():
    at = gpu(slots=2)
    async with at.background().slot(100) as lent:
        assert lent.taken_back is not None
        a = asyncio.create_task(held(at.enter("a", "c"), 5.0))
        await asyncio.sleep(1)
        assert not lent.taken_back.is_set()
        b = asyncio.create_task(held(at.enter("b", "c"), 5.0))
        await settled()
        assert lent.taken_back.is_set()
    came = now()
    assert await b == came
    await a


@in_virtual_time
async def test_o12_the_numbers_are_there_for_the_operator(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    waits = sample("rag_queue_wait_seconds_count")
    office = Office(gpu(slots=2))
    for n in range(10):
        office.job(f"u{n}")
    await asyncio.sleep(0.5)
    assert sample("rag_queue_jobs", state="waiting") == 8
    assert sample("rag_queue_jobs", state="begun") == 2
    assert (sample("rag_model_slots_in_use"), sample("rag_model_slots")) == (2, 2)
    assert sample("rag_model_up") == 1
    await office.closing()
    assert sample("rag_queue_wait_seconds_count") == waits + 10
    assert (sample("rag_model_slots_in_use"), sample("rag_queue_jobs", state="begun")) == (0, 0)
    assert caplog.text == ""


def test_an_endpoint_without_a_slot_is_no_endpoint():
    with pytest.raises(ValueError, match="at least one"):
        Gpu(0)


@in_virtual_time
async def test_jobs_get_ready_when_they_are_near_the_front_and_not_before():
    at = gpu(slots=2)
    seats = [at.enter(f"u{n}", "c") for n in range(10)]
    start, ready = now(), list[int]()

    async def work(n: int) -> None:
        await seats[n].near()
        ready.append(n)
        await held(seats[n], 1.0)
        seats[n].leave()

    tasks = [asyncio.ensure_future(work(n)) for n in range(10)]
    await settled()
    assert ready == [0, 1, 2, 3, 4, 5], "two are served, and for each slot two more are ready"
    await asyncio.sleep(1.5)
    assert ready == list(range(8))
    await asyncio.gather(*tasks)
    assert now() - start == pytest.approx(5.0)


@in_virtual_time
async def test_jobs_at_the_front_that_wait_for_others_of_their_thread_hold_up_nobody():
    """Each of the first eight comes after one of the last eight in its thread."""
    at = gpu(slots=2)
    first = [at.enter(f"u{n}", "c") for n in range(8)]
    last = [at.enter(f"v{n}", "c") for n in range(8)]

    async def thread(n: int) -> None:
        for seat in (last[n], first[n]):
            await seat.near()
            await held(seat, 1.0)
            seat.leave()

    start = now()
    await asyncio.gather(*map(thread, range(8)))
    assert now() - start == pytest.approx(8.0)


@in_virtual_time
async def test_a_job_that_is_never_near_expires_and_one_that_leaves_is_let_go():
    at = gpu(slots=1)
    blocker = at.enter("u0", "c")
    others = [at.enter(f"u{n}", "c") for n in range(1, 4)]
    late, gone = at.enter("late", "c", ttl=5.0), at.enter("gone", "c")
    start = now()
    holding = asyncio.ensure_future(held(blocker, 60.0))
    await settled()
    ready = [asyncio.ensure_future(seat.near()) for seat in others]
    left = asyncio.ensure_future(gone.near())
    await settled()
    assert [task.done() for task in ready] == [True, True, False], "two for the slot"
    gone.leave()
    with pytest.raises(asyncio.CancelledError):
        await left
    with pytest.raises(QuestionExpired):
        await late.near()
    assert now() - start == pytest.approx(5.0)
    others[0].leave()
    await asyncio.wait_for(ready[2], 1.0)
    holding.cancel()
