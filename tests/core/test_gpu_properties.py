"""Whatever comes and goes in whatever order: no slot is lost, none is given twice, nobody is forgotten."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ModelError, QuestionExpired
from core.gpu import MOST_OUTAGES, Gpu
from core.llm_refusal import unavailable
from core.queued_model import QueuedModel
from tests.core.queueing import Endpoint, Scripted, gpu, request
from tests.virtual_time import in_virtual_time

JOB = st.tuples(
    st.sampled_from("abcd"),  # asker
    st.floats(0, 5),  # seconds before it comes
    st.lists(st.sampled_from(["rewrite", "generate"]), max_size=3),
    st.none() | st.floats(0, 20),  # seconds until it is cancelled
    st.floats(0, 2),  # seconds between its calls
)
BACKGROUND = st.tuples(st.floats(0, 20), st.none() | st.floats(0, 20))


@settings(max_examples=300, deadline=None)
@given(
    slots=st.integers(1, 4),
    jobs=st.lists(JOB, max_size=20),
    summaries=st.lists(BACKGROUND, max_size=4),
    failing=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
def test_every_job_ends_and_every_slot_comes_back(slots: int, jobs, summaries, failing: float, seed: int):
    chance = random.Random(seed)

    def does(since: float) -> Scripted:
        if chance.random() < failing:
            return unavailable("busy", not_taken=True)
        return chance.choice([0.0, 0.5, 3.0])

    @in_virtual_time
    async def scenario() -> None:
        at, model = gpu(slots=slots), Endpoint(does)

        async def job(asker: str, comes: float, purposes: list[str], think: float) -> int:
            await asyncio.sleep(comes)
            done = 0
            with at.enter(asker, "c", enforce=False) as seat:
                for purpose in purposes:
                    try:
                        async for _ in QueuedModel(model, seat).stream(request(purpose=purpose)):
                            pass
                        done += 1
                    except ModelError:
                        assert purpose == "rewrite" or seat.outages >= MOST_OUTAGES
                        done += 1
                    await asyncio.sleep(think)
            return done

        async def summary(comes: float) -> None:
            await asyncio.sleep(comes)
            async for _ in QueuedModel(model, at.background()).stream(request(purpose="summarize")):
                pass

        tasks: list[tuple[asyncio.Task[Any], float | None, int | None]] = []
        for asker, comes, purposes, cancelled, think in jobs:
            tasks.append((asyncio.create_task(job(asker, comes, purposes, think)), cancelled, len(purposes)))
        tasks += [(asyncio.create_task(summary(comes)), cancelled, None) for comes, cancelled in summaries]
        for task, cancelled, _ in tasks:
            if cancelled is not None:
                asyncio.get_running_loop().call_later(cancelled, task.cancel)
        endings = await asyncio.gather(*(task for task, _, _ in tasks), return_exceptions=True)
        for ending, (_, cancelled, calls) in zip(endings, tasks, strict=True):
            if calls is not None:
                assert ending == calls or (isinstance(ending, asyncio.CancelledError) and cancelled is not None)
            else:
                assert ending is None or isinstance(ending, (ModelError, asyncio.CancelledError))
        assert model.most_in_flight <= slots
        _is_empty(at)
        assert at.slots == slots
        await asyncio.gather(*(_served(at, n) for n in range(slots)))  # All slots can still be had, at a time.

    scenario()


async def _served(at: Gpu, n: int) -> None:
    with at.enter(f"after {n}", "c") as seat:
        try:
            async with asyncio.timeout(100), seat.slot(1) as slot:
                slot.answered()
                await asyncio.sleep(0.1)
        except QuestionExpired:
            raise AssertionError from None


def _is_empty(at: Gpu) -> None:
    assert (at.jobs, at.in_use) == (0, 0)
    assert not at._calls
    assert not at._background
    assert not at._lent
    assert not at._running
    assert at._timer is None
