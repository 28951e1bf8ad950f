"""A few calls at a time; the others wait outside, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from core.errors import NoSlot
from core.turnstile import Turnstile
from core.types import ChatRequest, Delta, Message

REQUEST = ChatRequest(messages=(Message(role="user", content="x"),), max_tokens=1)


class Gate:
    """A model whose calls end when they are let go."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.go = asyncio.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go.wait()
            yield Delta(text="done")
        finally:
            self.running -= 1


async def read(model: Turnstile) -> str:
    return "".join([delta.text async for delta in model.stream(REQUEST)])


async def test_no_more_calls_run_than_were_said_and_all_have_their_turn():
    gate = Gate()
    model = Turnstile(gate, 2)
    calls = [asyncio.create_task(read(model)) for _ in range(7)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gate.running == 2
    gate.go.set()
    assert await asyncio.gather(*calls) == ["done"] * 7
    assert gate.most == 2


async def test_who_waits_too_long_gets_no_slot_and_the_others_theirs():
    gate = Gate()
    model = Turnstile(gate, 1, patience=0.05)
    first = asyncio.create_task(read(model))
    await asyncio.sleep(0)
    with pytest.raises(NoSlot):
        await read(model)
    gate.go.set()
    assert await first == "done"
    assert await read(model) == "done"


async def test_a_call_that_is_given_up_makes_room():
    gate = Gate()
    model = Turnstile(gate, 1)
    first = asyncio.create_task(read(model))
    await asyncio.sleep(0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.go.set()
    assert await read(model) == "done"
