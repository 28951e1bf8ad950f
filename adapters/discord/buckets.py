"""One request at a time in each of Discord's buckets: discord.py counts several that are under way wrong.

Seen with 2.7.1: what is left of a bucket is for it the lesser of what a response tells and the limit less what is under
way. Both count the others that are under way as if they took nothing, so newcomers are let through. And from a route's
first response it learns in which bucket the route's requests are; those for other channels that are under way by then
keep counts of their own, beside those that later requests to the same channels begin.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakValueDictionary

import discord
from discord.http import Route

from adapters.discord.pacing import urgency

FIRST_SECONDS: Final = 2.0
"""So long the others of a route wait for its first response: whose request hangs holds up no other place for longer."""


def one_at_a_time(request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`discord.http.HTTPClient.request`, for one request of a route and place at a time, and until Discord has
    answered one of the route, for one of the route."""
    known = set[str]()
    firsts = WeakValueDictionary[str, asyncio.Lock]()
    lines = WeakValueDictionary[str, _Line]()

    async def send(route: Route, **options: Any) -> Any:
        if route.key not in known:
            first = firsts.setdefault(route.key, asyncio.Lock())
            try:
                async with asyncio.timeout(FIRST_SECONDS):
                    await first.acquire()
            except TimeoutError:
                return await in_place(route, **options)
            try:
                if route.key not in known:
                    return await in_place(route, **options)
            finally:
                first.release()
        return await in_place(route, **options)

    async def in_place(route: Route, **options: Any) -> Any:
        async with lines.setdefault(f"{route.key}:{route.major_parameters}", _Line()).turn():
            try:
                response = await request(route, **options)
            except discord.HTTPException:
                known.add(route.key)
                raise
            known.add(route.key)
            return response

    return send


class _Line:
    """One after the other, the most urgent first."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until it is this one's turn, which ends with the block."""
        if self._taken:
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (urgency.get(), next(self._numbers), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        self._taken = False
        while self._waiting and not self._taken:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._taken = True
                turn.set_result(None)
