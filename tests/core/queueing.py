"""Jobs at a scheduler, in a few words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from prometheus_client import REGISTRY

from core.errors import ModelError
from core.gpu import Gpu, QueueLimits
from core.types import ChatRequest, Delta, FinishReason, Message
from tests.virtual_time import now

Scripted = float | ModelError
"""Seconds of a good answer, or what is raised at once."""


def gpu(slots: int = 1, **limits: Any) -> Gpu:
    return Gpu(slots, limits=QueueLimits(**limits), clock=now)


class Office:
    """Runs jobs of one call each, and writes down who was served."""

    def __init__(self, at: Gpu) -> None:
        self.gpu = at
        self.served: list[str] = []
        self.tokens: dict[str, int] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.most_in_flight = 0
        self._in_flight = 0

    def job(self, asker: str, *, seconds: float = 1.0, cost: int = 100, calls: int = 1, think: float = 0.0) -> None:
        """A job of `calls` calls with `think` seconds between them, admitted now."""
        seat = self.gpu.enter(asker, "c1", enforce=False)

        async def run() -> None:
            with seat:
                for _ in range(calls):
                    async with seat.slot(cost):
                        self._in_flight += 1
                        self.most_in_flight = max(self.most_in_flight, self._in_flight)
                        await asyncio.sleep(seconds)
                        self._in_flight -= 1
                        self.served.append(asker)
                        self.tokens[asker] = self.tokens.get(asker, 0) + cost
                    await asyncio.sleep(think)

        self.tasks.append(asyncio.create_task(run()))

    async def closing(self) -> None:
        await asyncio.gather(*self.tasks)


class Endpoint:
    """A chat model that does what a function of the seconds since its start says; counts its calls."""

    def __init__(self, does: Callable[[float], Scripted]) -> None:
        self.does = does
        self.started = now()
        self.calls: list[tuple[float, str]] = []
        self.in_flight = self.most_in_flight = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        since = now() - self.started
        self.calls.append((since, request.messages[0].content))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            match self.does(since):
                case ModelError() as error:
                    raise error
                case seconds:
                    yield Delta(text="Well, ")
                    await asyncio.sleep(seconds)
                    yield Delta(finish=FinishReason.STOP)
        finally:
            self.in_flight -= 1


def request(text: str = "q", *, purpose: str = "generate", max_tokens: int = 100) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), max_tokens=max_tokens, purpose=purpose)


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def settled() -> None:
    """All that can happen at this moment has happened."""
    for _ in range(5):
        await asyncio.sleep(0)
