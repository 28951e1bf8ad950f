"""Below Discord's global limit of 50 requests a second, which discord.py does not keep by itself.

It stands where a request leaves (a trace of aiohttp), so that repeated requests count as well. What people wait
for goes first; typing signs only go when nobody waits. And only so many are under way: where the network or Discord
stands still for a moment, they would all arrive together afterwards.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import IntEnum
from types import SimpleNamespace
from typing import Final

import aiohttp
import discord

PER_SECOND: Final = 36
BURST: Final = 4
"""Requests that may go at once after a pause."""
UNDER_WAY: Final = 10
"""Requests that are not answered yet. In no second arrive more than these, a burst and those that go in it: 50."""
LOST_SECONDS: Final = 2.0
"""A request that is not answered by then takes no place of another any more."""
FREE: Final = ("/interactions/", "/webhooks/", "/gateway")
"""Not counted by Discord against the global limit, or no requests of its API."""

SHORTEST_SLEEP: Final = 0.0001
"""A shorter one may be none at all to the clock."""


class Urgency(IntEnum):
    """Of a request."""

    FIRST = 0
    """New messages, final texts, and everything that is not said to be less."""
    NOTICE = 1
    """That there will be no answer, where nothing was said before."""
    EDIT = 2
    """A text that grows."""
    TYPING = 3


urgency: ContextVar[Urgency] = ContextVar("urgency", default=Urgency.FIRST)


@contextmanager
def urgent(wanted: Urgency) -> Iterator[None]:
    """All requests within are as urgent as this."""
    before = urgency.set(wanted)
    try:
        yield
    finally:
        urgency.reset(before)


class Pacer:
    """Lets at most so many requests go in a second, the most urgent first."""

    def __init__(self, per_second: int = PER_SECOND) -> None:
        self.per_second = per_second
        self.unauthorized = asyncio.Event()
        """Discord does not take our token any more: no request goes out."""
        self._closed_until = 0.0
        """All requests are refused until then: one that is sent all the same prolongs it."""
        self._earliest = 0.0
        """When the next request may go if they go evenly."""
        self._under_way: dict[int, float] = {}
        """When they went, by number, oldest first."""
        self._answered = asyncio.Event()
        self._line: list[tuple[int, int, asyncio.Future[int]]] = []
        self._numbers = itertools.count()
        self._pump: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._line)

    def trace(self) -> aiohttp.TraceConfig:
        """For `discord.Client(http_trace=...)`."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._before)
        trace.on_request_end.append(self._after)
        trace.on_request_exception.append(self._failed)
        return trace

    async def turn(self) -> int:
        """Waits until a request may go; its number, for `over`."""
        if not self._line and self._room() <= 0:
            return self._count()
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._line, (urgency.get(), next(self._numbers), turn))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._let_go())
        return await turn

    def over(self, number: int) -> None:
        """A request was answered, or has failed."""
        if self._under_way.pop(number, None) is not None:
            self._answered.set()

    async def _let_go(self) -> None:
        while self._line:
            if (seconds := self._room()) > 0:
                self._answered.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._answered.wait(), max(seconds, SHORTEST_SLEEP))
                continue
            _, _, turn = heapq.heappop(self._line)
            if not turn.done():
                turn.set_result(self._count())

    def _room(self) -> float:
        """Seconds until one more may go, if none is answered until then."""
        now = asyncio.get_running_loop().time()
        even = self._earliest - (BURST - 1) / self.per_second - now
        for number in [number for number, at in self._under_way.items() if now - at >= LOST_SECONDS]:
            del self._under_way[number]
        if len(self._under_way) < UNDER_WAY:
            return even
        return max(even, next(iter(self._under_way.values())) + LOST_SECONDS - now)

    def _count(self) -> int:
        now, number = asyncio.get_running_loop().time(), next(self._numbers)
        self._earliest = max(self._earliest, now) + 1 / self.per_second
        self._under_way[number] = now
        return number

    async def _before(
        self, session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        if params.url.scheme.startswith("ws") or any(part in params.url.path for part in FREE):
            return
        self._check()
        context.number = await self.turn()
        try:
            self._check()
        except BaseException:
            self.over(context.number)
            raise

    def _check(self) -> None:
        if self.unauthorized.is_set():
            raise aiohttp.ClientConnectionError("Discord does not take the bot's token.")
        if (seconds := self._closed_until - asyncio.get_running_loop().time()) > 0:
            raise discord.RateLimited(seconds)

    async def _after(
        self, session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        if any(part in params.url.path for part in FREE):
            return
        self.over(context.number)
        if params.response.status == 401:
            self.unauthorized.set()
        elif params.response.status == 429 and _is_for_all(params.response.headers):
            with suppress(ValueError):
                pause = float(params.response.headers.get("Retry-After", ""))
                self._closed_until = asyncio.get_running_loop().time() + pause

    async def _failed(
        self, session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams
    ) -> None:
        if (number := getattr(context, "number", None)) is not None:
            self.over(number)


def _is_for_all(headers: Mapping[str, str]) -> bool:
    """Whether a refusal is not only for its route: the global limit, or a ban, which does not come from the API."""
    return "X-RateLimit-Global" in headers or ("Via" not in headers and "X-RateLimit-Bucket" not in headers)
