"""Below the global limit, and what people wait for first; by a clock that nothing else on the machine moves."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from adapters.discord.pacing import BURST, Pacer, Urgency, urgency
from tests.virtual_time import in_virtual_time


async def go(pacer: Pacer, name: str, order: list[tuple[str, float]], as_: Urgency = Urgency.FIRST) -> None:
    urgency.set(as_)
    await pacer.turn()
    order.append((name, asyncio.get_running_loop().time()))


@in_virtual_time
async def test_requests_go_evenly_after_a_small_burst():
    pacer, order = Pacer(per_second=100), list[tuple[str, float]]()
    await asyncio.gather(*(go(pacer, str(number), order) for number in range(30)))
    times = [at for _, at in order]
    assert times[-1] - times[0] == pytest.approx((30 - BURST) / 100)
    for first in times:
        assert len([at for at in times if first <= at < first + 0.1]) <= 10 + BURST
    assert all(after >= before for before, after in pairwise(times))


@in_virtual_time
async def test_final_texts_overtake_growing_ones_and_those_typing_signs():
    pacer, order = Pacer(per_second=50), list[tuple[str, float]]()
    for number in range(BURST):
        await go(pacer, f"at once {number}", order)
    tasks = []
    for name, as_ in (("typing", Urgency.TYPING), ("edit", Urgency.EDIT), ("final", Urgency.FIRST)):
        tasks.append(asyncio.create_task(go(pacer, name, order, as_)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert [name for name, _ in order[BURST:]] == ["final", "edit", "typing"]


@in_virtual_time
async def test_whoever_gives_up_takes_no_turn():
    pacer, order = Pacer(per_second=50), list[tuple[str, float]]()
    for number in range(BURST):
        await go(pacer, str(number), order)
    given_up = asyncio.create_task(pacer.turn())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait_for(go(pacer, "next", order), 1)
    assert order[-1][0] == "next"
    assert not pacer.waiting
