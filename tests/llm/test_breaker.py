"""The breaker by itself, with the clock in hand."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from core.breaker import Breaker
from core.errors import ModelCut, ModelRejected, ModelTimeout, ModelUnavailable
from core.llm_refusal import retry_after


class Bench:
    """A breaker of three failures and ten seconds, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.breaker = Breaker("test", failures=3, seconds=10.0, clock=lambda: self.now)

    def call(self, error: BaseException | None = None) -> None:
        with suppress(BaseException), self.breaker.admit():
            if error is not None:
                raise error

    def is_refused(self) -> bool:
        try:
            with self.breaker.admit():
                raise asyncio.CancelledError
        except asyncio.CancelledError:
            return False
        except ModelUnavailable:
            return True


@pytest.fixture
def bench() -> Bench:
    return Bench()


def opened(bench: Bench) -> Bench:
    for _ in range(3):
        bench.call(ModelTimeout())
    return bench


def test_it_opens_after_failures_in_a_row_and_not_before(bench: Bench) -> None:
    bench.call(ModelUnavailable())
    bench.call(ModelTimeout())
    assert not bench.is_refused()
    bench.call(ModelUnavailable())
    assert bench.is_refused()


@pytest.mark.parametrize("answer", [None, ModelRejected(), ModelCut()])
def test_any_answer_between_the_failures_starts_the_count_anew(bench: Bench, answer: Exception | None) -> None:
    for _ in range(4):
        bench.call(ModelTimeout())
        bench.call(ModelTimeout())
        bench.call(answer)
    assert not bench.is_refused()


@pytest.mark.parametrize("nothing", [asyncio.CancelledError(), GeneratorExit(), ZeroDivisionError()])
def test_cancelled_calls_and_bugs_say_nothing(bench: Bench, nothing: BaseException) -> None:
    for _ in range(5):
        bench.call(nothing)
    assert not bench.is_refused()
    bench.call(ModelTimeout())
    bench.call(ModelTimeout())
    bench.call(nothing)
    bench.call(ModelTimeout())
    assert bench.is_refused()


def test_a_refused_call_learns_when_to_come_back(bench: Bench) -> None:
    opened(bench)
    bench.now += 4
    with pytest.raises(ModelUnavailable) as refused:
        bench.breaker.admit()
    assert retry_after(refused.value) == 6.0


def test_after_the_wait_one_probe_goes_through_and_no_second_one(bench: Bench) -> None:
    opened(bench)
    bench.now += 10
    with bench.breaker.admit() as permit:
        assert permit.probe
        assert bench.is_refused()


def test_a_good_probe_closes_it(bench: Bench) -> None:
    opened(bench)
    bench.now += 10
    bench.call()
    assert not bench.breaker.is_open
    bench.call(ModelTimeout())
    assert not bench.is_refused()


def test_a_bad_probe_opens_it_for_the_whole_time_again(bench: Bench) -> None:
    opened(bench)
    bench.now += 10
    bench.call(ModelTimeout())
    bench.now += 9
    assert bench.is_refused()
    bench.now += 1
    assert not bench.is_refused()


def test_a_cancelled_probe_leaves_room_for_the_next(bench: Bench) -> None:
    opened(bench)
    bench.now += 10
    bench.call(asyncio.CancelledError())
    bench.call()
    assert not bench.breaker.is_open


def test_calls_from_before_it_opened_do_not_lengthen_the_wait(bench: Bench) -> None:
    late = bench.breaker.admit()
    opened(bench)
    bench.now += 9
    with pytest.raises(ModelTimeout), late:
        raise ModelTimeout
    bench.now += 1
    assert not bench.is_refused()


def test_what_happens_after_the_answer_is_not_counted(bench: Bench) -> None:
    for _ in range(3):
        with suppress(ModelTimeout), bench.breaker.admit() as permit:
            permit.answered()
            raise ModelTimeout
    assert not bench.is_refused()
