"""Below Discord's global limit of 50 requests a second, which discord.py does not keep by itself.

It stands where a request leaves (a trace of aiohttp), so that repeated requests count as well. What people wait
for goes first; typing signs only go when nobody waits.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from enum import IntEnum
from types import SimpleNamespace
from typing import Final

import aiohttp
import discord

PER_SECOND: Final = 40
BURST: Final = 5
"""Requests that may go at once after a pause. Both together stay below 50: on their way requests move together."""
FREE: Final = ("/interactions/", "/webhooks/", "/gateway")
"""Not counted by Discord against the global limit, or no requests of its API."""


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
        self._line: list[tuple[int, int, asyncio.Future[None]]] = []
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
        return trace

    async def turn(self) -> None:
        """Waits until a request may go."""
        if not self._line and self._room() <= 0:
            self._count()
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._line, (urgency.get(), next(self._numbers), turn))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._let_go())
        await turn

    async def _let_go(self) -> None:
        while self._line:
            if (seconds := self._room()) > 0:
                await asyncio.sleep(seconds)
                continue
            _, _, turn = heapq.heappop(self._line)
            if not turn.done():
                self._count()
                turn.set_result(None)

    def _room(self) -> float:
        """Seconds until one more may go."""
        return self._earliest - (BURST - 1) / self.per_second - asyncio.get_running_loop().time()

    def _count(self) -> None:
        self._earliest = max(self._earliest, asyncio.get_running_loop().time()) + 1 / self.per_second

    async def _before(
        self, session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        if params.url.scheme.startswith("ws") or any(part in params.url.path for part in FREE):
            return
        if self.unauthorized.is_set():
            raise aiohttp.ClientConnectionError("Discord does not take the bot's token.")
        if (seconds := self._closed_until - asyncio.get_running_loop().time()) > 0:
            raise discord.RateLimited(seconds)
        await self.turn()

    async def _after(
        self, session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        if any(part in params.url.path for part in FREE):
            return
        if params.response.status == 401:
            self.unauthorized.set()
        elif params.response.status == 429 and _is_for_all(params.response.headers):
            with suppress(ValueError):
                pause = float(params.response.headers.get("Retry-After", ""))
                self._closed_until = asyncio.get_running_loop().time() + pause


def _is_for_all(headers: Mapping[str, str]) -> bool:
    """Whether a refusal is not only for its route: the global limit, or a ban, which does not come from the API."""
    return "X-RateLimit-Global" in headers or ("Via" not in headers and "X-RateLimit-Bucket" not in headers)
