"""What is left out under load, and that it comes back; in virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from core.errors import NoSlot
from core.gpu import ShedLevel
from core.shedding import Shedding
from tests.core.queueing import Office, gpu, sample, settled
from tests.virtual_time import in_virtual_time, now

NONE, NO_REWRITE, SHORTER, LAST_TURNS = ShedLevel


@pytest.mark.parametrize(
    ("share", "level"),
    [
        (0.0, NONE),
        (0.29, NONE),
        (0.3, NO_REWRITE),
        (0.59, NO_REWRITE),
        (0.6, SHORTER),
        (0.89, SHORTER),
        (0.9, LAST_TURNS),
    ],
)
def test_o5_the_level_follows_the_share_of_a_full_queue(share: float, level: ShedLevel):
    assert Shedding().update(share, 0.0, 0.0) == level


def test_o5_a_long_wait_leaves_the_rewrite_out_in_a_short_queue():
    assert Shedding().update(0.02, 20.0, 0.0) == NONE
    assert Shedding().update(0.02, 20.1, 0.0) == NO_REWRITE


def test_o5_a_level_is_left_a_tenth_below_where_it_began_and_not_before():
    shedding = Shedding()
    shedding.update(0.6, 0.0, 0.0)
    assert shedding.update(0.51, 0.0, 100.0) == SHORTER
    assert shedding.update(0.51, 0.0, 200.0) == SHORTER
    shedding.update(0.49, 0.0, 300.0)
    assert shedding.update(0.49, 0.0, 309.0) == SHORTER
    assert shedding.update(0.49, 0.0, 310.0) == NO_REWRITE


def test_o5_a_load_that_comes_and_goes_does_not_flicker():
    shedding = Shedding()
    levels = [shedding.update(0.31 if second % 2 else 0.1, 0.0, float(second)) for second in range(100)]
    assert levels == [NONE, *[NO_REWRITE] * 99]


@in_virtual_time
async def test_o5_a_ramp_reaches_and_leaves_each_level_in_order_with_a_line_for_each(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    at = gpu(slots=4)
    office = Office(at)
    seen = [at.level]
    for n in range(100):
        office.job(f"u{n}", seconds=3.0)
        seen.append(at.level)
    while at.jobs:
        await asyncio.sleep(0.1)
        seen.append(at.level)
    changes = [level for before, level in zip([None, *seen], seen, strict=False) if level != before]
    assert changes == [NONE, NO_REWRITE, SHORTER, LAST_TURNS, SHORTER, NO_REWRITE, NONE]
    assert len(caplog.records) == 6
    assert sample("rag_shed_level") == 0
    await office.closing()


@in_virtual_time
async def test_o5_a_rewrite_gets_no_slot_from_the_first_level_on_and_waiting_ones_give_up():
    at = gpu()
    office = Office(at)
    office.job("a", seconds=15.0)
    await settled()
    seat = at.enter("b", "c")

    async def rewrite() -> float:
        async with seat.slot(100, optional=True):
            return now()

    waiting = asyncio.create_task(rewrite())
    await asyncio.sleep(1)
    assert not waiting.done()
    start = now()
    for n in range(29):
        office.job(f"u{n}", seconds=0.01)
    with pytest.raises(NoSlot):
        await waiting
    assert now() == start
    with pytest.raises(NoSlot):
        await rewrite()
    seat.leave()
    await office.closing()


@in_virtual_time
async def test_o5_with_the_load_gone_the_rewrite_is_back_within_thirty_seconds():
    at = gpu(slots=4)
    office = Office(at)
    for n in range(100):
        office.job(f"u{n}", seconds=3.0)
    steady = at.enter("somebody who stays", "c", enforce=False)
    await office.closing()
    await asyncio.sleep(30)
    assert at.level is NONE
    async with steady.slot(100, optional=True):
        pass


@in_virtual_time
async def test_a_long_wait_is_told_by_the_jobs_of_late():
    at = gpu()
    office = Office(at)
    office.job("a", seconds=15.0)
    await office.closing()
    office.job("b", seconds=15.0)
    await settled()
    at.enter("c", "c")
    assert at.level is NONE
    at.enter("d", "c")
    assert at.level is NO_REWRITE
    await office.closing()
