"""An endpoint that takes no calls: jobs wait at their places, and few calls are made; in virtual time."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from core.errors import ModelCut, ModelError, ModelRejected, ModelTimeout, ModelUnavailable, NoSlot, QuestionExpired
from core.gpu import Gpu, Seat
from core.llm_refusal import unavailable
from core.queued_model import QueuedModel
from tests.core.queueing import Endpoint, Scripted, gpu, request, sample, settled
from tests.virtual_time import in_virtual_time, now


def refused(retry_after: float | None = None) -> ModelUnavailable:
    return unavailable("Cannot connect.", not_taken=True, retry_after=retry_after)


def down_for(seconds: float) -> Endpoint:
    return Endpoint(lambda since: refused() if since < seconds else 1.0)


async def ask(at: Gpu, model: Endpoint, text: str, *, asker: str = "", seat: Seat | None = None) -> str:
    """How a question of one call ends: its text, or the name of the error."""
    with seat or at.enter(asker or text, "c", enforce=False) as mine:
        try:
            return "".join([delta.text async for delta in QueuedModel(model, mine).stream(request(text))])
        except (ModelError, QuestionExpired) as error:
            return type(error).__name__


@in_virtual_time
async def test_f9_jobs_wait_for_an_endpoint_that_is_down_and_are_answered_without_a_restart(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    at, model = gpu(slots=4), down_for(100.0)
    asking = [asyncio.create_task(ask(at, model, f"q{n:02}")) for n in range(50)]
    await asyncio.sleep(5)
    assert at.is_down
    assert sample("rag_model_up") == 0
    assert at.enter("x", "elsewhere").wait_seconds is None
    await asyncio.sleep(95 + 10 + 5)
    assert not at.is_down
    assert set(await asyncio.gather(*asking)) == {"Well, "}
    assert len([record for record in caplog.records if "takes" in record.message]) == 2


@in_virtual_time
async def test_f9_the_endpoint_is_probed_by_one_call_about_every_ten_seconds():
    at, model = gpu(slots=4), down_for(600.0)
    asking = [asyncio.create_task(ask(at, model, f"q{n}")) for n in range(50)]
    await asyncio.sleep(600)
    late = [since for since, _ in model.calls if since > 60]
    pauses = [after - before for before, after in pairwise(late)]
    assert 5.0 <= min(pauses) <= max(pauses) <= 10.0
    assert model.most_in_flight <= 4
    await asyncio.gather(*asking)


@in_virtual_time
async def test_f9_a_job_gives_up_when_the_outage_lasts_longer_than_it_may_wait():
    at, model = gpu(outage_seconds=2.0), down_for(600.0)
    start = now()
    assert await ask(at, model, "first") == "ModelUnavailable"
    assert now() - start == pytest.approx(2.0)
    await asyncio.sleep(1.0)
    start = now()
    assert await ask(at, model, "second") == "ModelUnavailable"
    assert now() - start == pytest.approx(2.0)


@in_virtual_time
async def test_f9_in_an_outage_over_the_time_to_live_every_job_has_its_ending():
    at, model = gpu(slots=2), down_for(10_000.0)
    asking = [asyncio.create_task(ask(at, model, f"q{n}")) for n in range(30)]
    endings = await asyncio.gather(*asking)
    assert set(endings) <= {"QuestionExpired", "ModelUnavailable"}
    assert now() - model.started == pytest.approx(900.0, abs=1.0)
    assert (at.jobs, at.in_use) == (0, 0)


@in_virtual_time
async def test_f14_a_job_that_was_not_taken_keeps_its_place():
    at = gpu(slots=1)
    busy: list[Scripted] = [refused(), refused(5.0)]
    model = Endpoint(lambda since: busy.pop(0) if busy else 1.0)
    asking = [asyncio.create_task(ask(at, model, f"q{n}")) for n in range(3)]
    await asyncio.gather(*asking)
    answered = [text for _, text in model.calls[2:]]
    assert answered == ["q2", "q0", "q1"], "the probe is the next one that was not refused yet, then the old order"


@in_virtual_time
async def test_f14_the_wait_that_the_endpoint_asks_for_is_kept():
    busy: list[Scripted] = [refused(7.0)]
    model = Endpoint(lambda since: busy.pop(0) if busy else 1.0)
    await asyncio.gather(*(ask(at, model, f"q{n}") for at in [gpu(slots=4)] for n in range(3)))
    assert [round(since, 3) for since, _ in model.calls] == [0.0, 0.0, 0.0, 7.0] or model.calls[1][0] >= 7.0


@in_virtual_time
async def test_f14_a_job_that_was_not_taken_has_not_begun_and_expires_like_one():
    at, model = gpu(ttl_seconds=30.0), down_for(600.0)
    assert await ask(at, model, "q") == "QuestionExpired"
    assert now() - model.started == pytest.approx(30.0)


@in_virtual_time
async def test_background_work_does_not_call_an_endpoint_that_is_down():
    at, model = gpu(outage_seconds=2.0), down_for(60.0)
    assert await ask(at, model, "q") == "ModelUnavailable"
    calls = len(model.calls)
    await asyncio.sleep(15.0)
    with pytest.raises(NoSlot):
        async for _ in QueuedModel(model, at.background()).stream(request("notes", purpose="summarize")):
            pass
    assert len(model.calls) == calls


@in_virtual_time
async def test_f14_being_refused_is_no_attempt():
    at = gpu()
    busy: list[Scripted] = [refused()] * 8
    model = Endpoint(lambda since: busy.pop(0) if busy else 1.0)
    assert await ask(at, model, "q") == "Well, "
    assert len(model.calls) == 9


@in_virtual_time
async def test_a_question_that_brings_the_endpoint_down_does_not_keep_it_from_the_others():
    at = gpu(ttl_seconds=900.0)
    model = Endpoint(lambda since: 1.0)
    model.does = lambda since: refused() if model.calls[-1][1] == "poison" else 1.0
    poison = asyncio.create_task(ask(at, model, "poison"))
    start = now()
    endings = await asyncio.gather(*(ask(at, model, f"q{n}") for n in range(10)))
    assert set(endings) == {"Well, "}
    assert await poison == "ModelUnavailable"
    assert now() - start < 40


@pytest.mark.parametrize(
    "failure", [refused(), ModelUnavailable("HTTP 502"), ModelCut()], ids=["refused", "502", "cut"]
)
def test_o9_an_endpoint_that_always_fails_gets_few_more_calls_than_there_are_jobs(failure: ModelError):
    @in_virtual_time
    async def scenario() -> None:
        at, model = gpu(slots=4, outage_seconds=120.0), Endpoint(lambda since: failure)
        jobs = 100
        endings = await asyncio.gather(*(ask(at, model, f"q{n}") for n in range(jobs)))
        assert set(endings) <= {"ModelUnavailable", "ModelCut"}
        probes = (now() - model.started) / 5
        assert len(model.calls) <= 1.1 * jobs + 3 + probes

    scenario()


@in_virtual_time
async def test_o9_a_call_that_fails_once_is_made_again_and_one_that_goes_on_failing_three_times_at_most():
    at, script = gpu(), list[Scripted]([ModelUnavailable("HTTP 502"), 1.0])
    model = Endpoint(lambda since: script.pop(0))
    assert await ask(at, model, "q") == "Well, "
    at, model = gpu(), Endpoint(lambda since: ModelCut())
    assert await ask(at, model, "q") == "ModelCut"
    assert len(model.calls) == 3


@pytest.mark.parametrize("failure", [ModelTimeout(), ModelRejected()], ids=["timeout", "4xx"])
def test_o9_what_another_try_does_not_mend_is_not_tried_again(failure: ModelError):
    @in_virtual_time
    async def scenario() -> None:
        model = Endpoint(lambda since: failure)
        assert await ask(gpu(), model, "q") == type(failure).__name__
        assert len(model.calls) == 1

    scenario()


@in_virtual_time
async def test_o6_a_rewrite_is_never_made_again_and_holds_nobody_up():
    at = gpu()
    model = Endpoint(lambda since: refused())
    with at.enter("a", "c") as seat:
        with pytest.raises(ModelUnavailable):
            async for _ in QueuedModel(model, seat).stream(request(purpose="rewrite")):
                pass
        assert (len(model.calls), at.is_down) == (1, False)


@in_virtual_time
async def test_a_probe_that_is_cancelled_leaves_room_for_the_next():
    at, model = gpu(), down_for(3.0)
    first = asyncio.create_task(ask(at, model, "q0"))
    others = [asyncio.create_task(ask(at, model, f"q{n}")) for n in (1, 2)]
    await settled()
    model.does = lambda since: 1_000.0 if since < 30 else 1.0
    await asyncio.sleep(2)
    hanging = [task for task in (first, *others) if not task.done()]
    assert model.in_flight == 1
    hanging[0].cancel()
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert at.in_use == 0
    await asyncio.sleep(40)
    assert await ask(at, model, "q9") == "Well, "
