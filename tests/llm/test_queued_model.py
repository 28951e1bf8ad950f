"""The queue and the real client against a server that misbehaves."""

from __future__ import annotations

import asyncio
import time

import pytest

from core.breaker import Breaker
from core.deadlines import Deadlines
from core.errors import ModelTimeout, ModelUnavailable, Preempted
from core.gpu import Gpu, QueueLimits
from core.llm import HttpChatModel
from core.ports import ChatModel
from core.queued_model import QueuedModel
from tests.llm.asking import Outcome, ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import OpenAIServer, Reply

SLOW = Reply(pieces=("Well", 0.05, "."))


async def asked(gpu: Gpu, model: ChatModel, asker: str, *purposes: str) -> Outcome:
    """The last of one job's calls, one for each purpose."""
    with gpu.enter(asker, "c", enforce=False) as seat:
        for purpose in purposes or ("generate",):
            outcome = await ask(QueuedModel(model, seat), request(asker, purpose=purpose))
    return outcome


def texts(outcomes: list[Outcome]) -> set[str]:
    return {outcome.text for outcome in outcomes}


async def test_o1_never_more_requests_at_the_server_than_slots_and_none_idle(
    server: OpenAIServer, model: HttpChatModel
) -> None:
    server.default = lambda body: SLOW
    gpu = Gpu(4)
    jobs = (asked(gpu, model, f"u{n}", "rewrite", "generate") for n in range(25))
    assert texts(await asyncio.gather(*jobs)) == {"Well."}
    assert (server.max_in_flight, gpu.in_use) == (4, 0)
    assert len(server.chats) == 50


@pytest.mark.parametrize(
    ("reply", "deadlines"),
    [
        (Reply(before="hang"), Deadlines(first_token=0.2)),
        (Reply(pieces=("w ",) * 10, end="hang"), Deadlines(gap=0.2)),
        (Reply(pieces=(), drip=0.02), Deadlines(first_token=0.2)),
        (Reply(pieces=("w ", 0.05) * 50), Deadlines(wall=0.3)),
    ],
    ids=["F10 nothing comes", "F10 stops after ten tokens", "F11 pings only", "F11 too slow"],
)
@pytest.mark.parametrize("nemesis", [True, False])
async def test_a_deadline_closes_the_stream_and_frees_the_slot(
    server: OpenAIServer, make_model: MakeModel, reply: Reply, deadlines: Deadlines, nemesis: bool
) -> None:
    server.nemesis = nemesis
    server.script(reply)
    gpu, model = Gpu(1), make_model(deadlines=deadlines)
    outcome = await asked(gpu, model, "a")
    assert (type(outcome.error) is ModelTimeout) is nemesis
    assert gpu.in_use == 0
    await server.until(lambda: server.in_flight == 0)
    assert len(server.chats) == 1
    assert (await asked(gpu, model, "b")).text == "Yes."


@pytest.mark.parametrize("reply", [Reply(before="hang"), Reply(pieces=("w ", 5.0))], ids=["before", "in the middle"])
async def test_o8_a_cancelled_question_is_cancelled_at_the_server_and_its_slot_used_again(
    server: OpenAIServer, model: HttpChatModel, reply: Reply
) -> None:
    server.script(reply)
    gpu = Gpu(1)
    first = asyncio.create_task(asked(gpu, model, "a"))
    await server.until(lambda: server.in_flight == 1)
    second = asyncio.create_task(asked(gpu, model, "b"))
    await asyncio.sleep(0.05)
    assert len(server.chats) == 1
    first.cancel()
    await server.until(lambda: server.disconnects == 1)
    assert (await second).text == "Yes."
    assert gpu.in_use == 0


@pytest.mark.parametrize("status", [429, 503])
async def test_f14_an_endpoint_that_is_busy_is_asked_again_and_nobody_notices(
    server: OpenAIServer, model: HttpChatModel, status: int
) -> None:
    server.script(*[Reply(status=status, headers={"Retry-After": "0.1"})] * 4)
    gpu = Gpu(2)
    outcomes = await asyncio.gather(*(asked(gpu, model, f"u{n}") for n in range(10)))
    assert texts(outcomes) == {"Yes."}
    assert len(server.chats) == 14


async def test_f9_an_endpoint_that_comes_back_is_found_without_a_restart(
    server: OpenAIServer, make_model: MakeModel
) -> None:
    model = make_model(breakers={"generate": Breaker("generate", seconds=1.0)})
    await server.stop()
    gpu = Gpu(4)
    jobs = [asyncio.create_task(asked(gpu, model, f"u{n}", "rewrite", "generate")) for n in range(20)]
    await asyncio.sleep(0.5)
    assert gpu.is_down
    assert not any(job.done() for job in jobs)
    await server.start()
    assert texts(await asyncio.wait_for(asyncio.gather(*jobs), 10)) == {"Yes."}
    assert not gpu.is_down


@pytest.mark.parametrize(
    "failed",
    [Reply(status=503), Reply(status=500), Reply(before="reset"), Reply(before="hang")],
    ids=["503", "500", "reset", "hang"],
)
async def test_o9_an_endpoint_that_always_fails_gets_few_more_calls_than_jobs(
    server: OpenAIServer, make_model: MakeModel, failed: Reply
) -> None:
    server.default = lambda body: failed
    gpu = Gpu(4, limits=QueueLimits(outage_seconds=2.0))
    jobs, model = 40, make_model(deadlines=Deadlines(first_token=0.2))
    started = time.monotonic()
    outcomes = await asyncio.gather(*(asked(gpu, model, f"u{n}") for n in range(jobs)))
    assert all(type(outcome.error) in (ModelUnavailable, ModelTimeout) for outcome in outcomes)
    probes = 5 + (time.monotonic() - started) / 5
    assert len(server.chats) <= 1.1 * jobs + probes
    assert gpu.in_use == 0


async def test_o6_a_rewrite_that_hangs_costs_its_own_seconds_and_no_answer(
    server: OpenAIServer, make_model: MakeModel
) -> None:
    def hanging_rewrite(body: dict[str, object]) -> Reply:
        return Reply(before="hang") if body["messages"][0]["content"].startswith("r") else Reply()  # type: ignore[index]

    server.default = hanging_rewrite
    model = make_model(deadlines_for={"rewrite": Deadlines(wall=0.2)})
    gpu = Gpu(1)

    async def job(n: int) -> tuple[Outcome, Outcome]:
        with gpu.enter(f"u{n}", "c") as seat:
            queued = QueuedModel(model, seat)
            return await ask(queued, request(f"r{n}", purpose="rewrite")), await ask(queued, request(f"g{n}"))

    outcomes = await asyncio.gather(*(job(n) for n in range(20)))
    assert {answer.text for _, answer in outcomes} == {"Yes."}
    assert all(rewrite.error for rewrite, _ in outcomes)
    assert sum(chat["messages"][0]["content"].startswith("r") for chat in server.chats) == 5, "then the breaker is open"


async def test_a_running_summary_gives_way_to_a_question_at_once(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(pieces=("notes ", 60.0, "more")))
    gpu = Gpu(1)
    summary = asyncio.create_task(ask(QueuedModel(model, gpu.background()), request(purpose="summarize")))
    await server.until(lambda: server.in_flight == 1)
    await asyncio.sleep(0.05)
    assert (await asked(gpu, model, "a")).text == "Yes."
    assert isinstance((await summary).error, Preempted)
    assert server.disconnects == 1


async def test_a_slot_is_free_when_the_reply_is_complete_however_slow_its_reader(
    server: OpenAIServer, model: HttpChatModel
) -> None:
    gpu = Gpu(1)
    with gpu.enter("a", "c") as seat:
        async for delta in QueuedModel(model, seat).stream(request()):
            if delta.finish:
                assert gpu.in_use == 0
                assert (await asked(gpu, model, "b")).text == "Yes."


@pytest.mark.parametrize(
    ("reply", "again"),
    [
        (Reply(status=502), True),
        (Reply(before="reset"), True),
        (Reply(pieces=(), end="reset"), True),
        (Reply(status=400), False),
        (Reply(pieces=("Half a",), end="reset"), False),
    ],
    ids=["502", "reset", "F13 reset before any text", "400", "F13 reset after text"],
)
async def test_a_failure_before_the_first_word_is_tried_again_and_unseen(
    server: OpenAIServer, model: HttpChatModel, reply: Reply, again: bool
) -> None:
    server.script(reply)
    outcome = await asked(Gpu(1), model, "a")
    assert len(server.chats) == 1 + again
    assert (outcome.text, outcome.error is None) == (("Yes.", True) if again else (outcome.text, False))
