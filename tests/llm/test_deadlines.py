"""Slow and silent endpoints, and calls that are given up: on time, for real, and without a trace."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from core.deadlines import Deadlines, within
from core.errors import ModelTimeout
from core.llm import HttpChatModel
from core.types import FinishReason
from tests.llm.asking import ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import OpenAIServer, Reply

SHORT = Deadlines(first_token=0.5, gap=0.5, wall=1.2)
"""Times of a reply below are far from them, since a busy machine adds its own."""
EMPTY = b'data: {"choices": [{"delta": {"content": ""}}]}\n\n'
SILENT = {
    "accepts and says nothing": (Reply(before="hang"), "", "no text"),
    "headers and nothing more": (Reply(pieces=(), end="hang"), "", "no text"),
    "hangs after some text": (Reply(pieces=("4 ", "bar"), end="hang"), "4 bar", "in the middle"),
    "comments only": (Reply(pieces=(), drip=0.02), "", "no text"),
    "comments after some text": (Reply(pieces=("4 bar",), drip=0.02), "4 bar", "in the middle"),
    "empty pieces only": (Reply(pieces=(EMPTY, 0.05) * 40), "", "no text"),
    "one token at a time for ever": (Reply(pieces=("a", 0.1) * 40), "aa", "not done"),
    "a model that thinks for ever": (
        Reply(pieces=(b'data: {"choices": [{"delta": {"reasoning": "hm"}}]}\n\n', 0.1) * 40),
        "",
        "not done",
    ),
}


@pytest.mark.parametrize(("reply", "text", "reason"), SILENT.values(), ids=list(SILENT))
async def test_a_deadline_ends_the_call_and_frees_the_slot(
    server: OpenAIServer, make_model: MakeModel, reply: Reply, text: str, reason: str
) -> None:  # F10, F11, M5
    server.script(reply)
    async with asyncio.timeout(20):
        outcome = await ask(make_model(deadlines=SHORT))
    assert type(outcome.error) is ModelTimeout
    assert reason in str(outcome.error)
    assert outcome.text.startswith(text)
    await server.until(lambda: server.in_flight == 0)
    assert server.disconnects == 1


@pytest.mark.parametrize("reply", [reply for reply, *_ in SILENT.values()], ids=list(SILENT))
async def test_with_the_silence_switched_off_no_deadline_passes(
    server: OpenAIServer, make_model: MakeModel, reply: Reply
) -> None:
    server.nemesis = False
    server.script(reply)
    assert (await ask(make_model(deadlines=SHORT))).error is None


async def test_each_purpose_has_its_own_deadlines(server: OpenAIServer, make_model: MakeModel) -> None:
    model = make_model(deadlines_for={"rewrite": Deadlines(wall=0.1)})
    server.script(Reply(delay=0.3), Reply(delay=0.3))
    assert type((await ask(model, request(purpose="rewrite"))).error) is ModelTimeout
    assert (await ask(model)).text == "Yes."


async def test_a_rewrite_has_three_seconds_unless_told_otherwise(server: OpenAIServer) -> None:  # O6
    model = HttpChatModel(server.base_url, model="m")
    assert model.deadlines_of("rewrite").wall == 3.0
    assert model.deadlines_of("generate") == Deadlines(connect=5.0, first_token=60.0, gap=15.0, wall=180.0)
    await model.aclose()


async def test_a_slow_reader_is_not_taken_for_a_slow_model(server: OpenAIServer, make_model: MakeModel) -> None:
    server.script(Reply(pieces=("a", 0.01, "b")))
    text = ""
    async for delta in make_model(deadlines=Deadlines(gap=0.1, wall=2.0)).stream(request()):
        text += delta.text
        await asyncio.sleep(0.15)
    assert text == "ab"


@pytest.mark.parametrize("tail", [{"end": "hang"}, {"drip": 0.02}])
async def test_a_complete_reply_whose_connection_stays_open_is_not_waited_for(
    server: OpenAIServer, model: HttpChatModel, tail: dict[str, object]
) -> None:
    finish = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    server.script(Reply(pieces=("4 bar", finish), **tail))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        outcome = await ask(model)
    assert (outcome.text, outcome.finish) == ("4 bar", FinishReason.STOP)


@pytest.mark.parametrize("reply", [Reply(before="hang"), Reply(pieces=("a", "b"), end="hang")])
async def test_cancelling_the_caller_reaches_the_caller_and_the_server(
    server: OpenAIServer, model: HttpChatModel, reply: Reply
) -> None:  # O8
    server.script(reply)
    task = asyncio.create_task(ask(model))
    await server.until(lambda: server.in_flight == 1)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.until(lambda: server.disconnects == 1)
    assert server.in_flight == 0


async def test_closing_the_iterator_reaches_the_server(server: OpenAIServer, model: HttpChatModel) -> None:  # O8
    server.script(Reply(pieces=("a", "b"), end="hang"))
    async with aclosing(model.stream(request())) as deltas:
        assert (await anext(deltas)).text == "a"
    await server.until(lambda: server.disconnects == 1)
    assert server.in_flight == 0


async def test_an_iterator_that_is_merely_dropped_is_closed_too(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(pieces=("a", "b"), end="hang"))
    async for _ in model.stream(request()):
        break
    await server.until(lambda: server.disconnects == 1)


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.002, 0.004, 0.008, 0.016])
async def test_cancelling_at_any_moment_stays_a_cancellation_and_leaves_no_connection(
    server: OpenAIServer, make_model: MakeModel, moment: float
) -> None:
    """The deadlines pass at about the moment of the cancellation, which some calls get twice."""
    model = make_model(deadlines=Deadlines(first_token=0.02 + moment, gap=0.02, wall=0.05))
    server.default = lambda body: Reply(pieces=("a", 0.01, "b"), delay=0.01)
    for _ in range(8):
        tasks = [asyncio.create_task(ask(model)) for _ in range(4)]
        await asyncio.sleep(moment * 2)
        finished = {task for task in tasks if task.done()}
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        done, _ = await asyncio.wait(tasks, timeout=10.0)
        assert len(done) == 4
        assert all(task.cancelled() for task in done - finished)
    await server.until(lambda: server.in_flight == 0)
    await server.until(lambda: server.connections <= 8)


async def test_waiting_never_swallows_a_cancellation_that_comes_with_the_deadline() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.05)  # Still busy when the caller is cancelled as well.

    task = asyncio.create_task(within(0.02, stubborn()))
    await asyncio.sleep(0.04)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_waiting_tells_a_foreign_cancellation_from_the_callers() -> None:
    async def ended_by_others() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ConnectionAbortedError):
        await within(1.0, ended_by_others())


async def test_waiting_with_no_time_left_does_not_begin() -> None:
    begun = []

    async def work() -> None:
        begun.append(1)

    with pytest.raises(TimeoutError):
        await within(0.0, work())
    assert not begun
