"""Each call is counted once, by how it ended, and its tokens with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from core.breaker import Breaker
from core.deadlines import Deadlines
from core.llm import HttpChatModel
from tests.llm.asking import ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import OpenAIServer, Reply
from tests.servers.replies import Json, event

PURPOSE = "summarize"


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"purpose": PURPOSE, **labels}) or 0.0


def calls() -> dict[str, float]:
    return {
        sample.labels["result"]: sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "rag_model_calls_total" and sample.labels["purpose"] == PURPOSE
    }


@pytest.fixture
def new_calls() -> Iterator[dict[str, float]]:
    """Filled by `settle` at the end of a test."""
    before = calls()
    after: dict[str, float] = {}
    yield after
    changed = {label: value - before.get(label, 0.0) for label, value in calls().items()}
    assert after == {label: value for label, value in changed.items() if value}


ENDS = {
    "ok": Reply(),
    "unavailable": Reply(status=500),
    "timeout": Reply(before="hang"),
    "rejected": Reply(status=400),
    "too_long": Reply(status=413),
    "cut": Reply(end="cut"),
    "garbage": Reply(body="<html>"),
}


@pytest.mark.parametrize(("result", "reply"), ENDS.items())
async def test_a_call_is_counted_by_its_end(
    server: OpenAIServer, make_model: MakeModel, new_calls: dict[str, float], result: str, reply: Reply
) -> None:
    server.script(reply)
    wall = 0.2 if result == "timeout" else 5.0
    await ask(make_model(deadlines=Deadlines(wall=wall)), request(purpose=PURPOSE))
    new_calls[result] = 1.0


async def test_a_cancelled_call_is_counted_as_such(
    server: OpenAIServer, model: HttpChatModel, new_calls: dict[str, float]
) -> None:
    server.script(Reply(before="hang"))
    task = asyncio.create_task(ask(model, request(purpose=PURPOSE)))
    await server.until(lambda: server.in_flight == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    new_calls["cancelled"] = 1.0


async def test_a_reader_that_stops_at_the_finish_has_had_a_good_call(
    model: HttpChatModel, new_calls: dict[str, float]
) -> None:
    deltas = model.stream(request(purpose=PURPOSE))
    async for delta in deltas:
        if delta.finish:
            break
    await deltas.aclose()
    new_calls["ok"] = 1.0


async def test_a_call_that_the_breaker_refuses_is_counted_too(
    server: OpenAIServer, make_model: MakeModel, new_calls: dict[str, float]
) -> None:
    model = make_model(breakers={PURPOSE: Breaker("x", failures=1)})
    server.script(Reply(status=500))
    await ask(model, request(purpose=PURPOSE))
    await ask(model, request(purpose=PURPOSE))
    assert len(server.chats) == 1
    new_calls["unavailable"] = 2.0


async def test_tokens_are_counted_as_the_endpoint_says(server: OpenAIServer, model: HttpChatModel) -> None:
    names = ("rag_prompt_tokens_total", "rag_cached_prompt_tokens_total")
    before = [counted(name) for name in names]
    usage = {"prompt_tokens": 40, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 30}}
    server.script(Reply(usage=usage), Reply(usage=None))
    await ask(model, request(purpose=PURPOSE))
    await ask(model, request(purpose=PURPOSE))
    assert [counted(name) - start for name, start in zip(names, before, strict=True)] == [40.0, 30.0]


@pytest.mark.parametrize(
    ("told", "shares"),
    [
        ({"usage": {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 30}}}, [0.75]),  # vLLM
        ({"usage": {"prompt_tokens": 40}, "timings": {"cache_n": 10}}, [0.25]),  # llama.cpp
        ({"usage": {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 0}}}, [0.0]),
        ({"usage": {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 99}}}, [1.0]),
        ({"usage": {"prompt_tokens": 40, "prompt_tokens_details": None}}, []),  # does not tell
        ({"usage": {"prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}}, []),
    ],
)
async def test_the_cached_share_is_that_of_each_call_whose_endpoint_tells_it(
    server: OpenAIServer, model: HttpChatModel, told: Json, shares: list[float]
) -> None:
    names = ("rag_cached_prompt_share_count", "rag_cached_prompt_share_sum")
    before = [counted(name) for name in names]
    server.script(Reply(pieces=("Six bar.", event({"choices": [], **told})), usage=None))
    await ask(model, request(purpose=PURPOSE))
    assert [counted(name) - start for name, start in zip(names, before, strict=True)] == pytest.approx(
        [len(shares), sum(shares)]
    )
