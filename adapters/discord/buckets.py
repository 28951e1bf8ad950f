"""One request at a time in each of Discord's buckets: discord.py counts several that are under way wrong.

Seen with 2.7.1: what is left of a bucket is for it the lesser of what a response tells and the limit less what is under
way. Both count the others that are under way as if they took nothing, so newcomers are let through. And from a route's
first response it learns in which bucket the route's requests are; those for other channels that are under way by then
keep counts of their own, beside those that later requests to the same channels begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import discord
from discord.http import Route

FIRST_SECONDS: Final = 2.0
"""So long the others of a route wait for its first response: whose request hangs holds up no other place for longer."""


def one_at_a_time(request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`discord.http.HTTPClient.request`, for one request of a route and place at a time, and until Discord has
    answered one of the route, for one of the route."""
    known = set[str]()
    locks = WeakValueDictionary[str, asyncio.Lock]()

    async def send(route: Route, **options: Any) -> Any:
        if route.key not in known:
            first = locks.setdefault(route.key, asyncio.Lock())
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
        async with locks.setdefault(f"{route.key}:{route.major_parameters}", asyncio.Lock()):
            try:
                response = await request(route, **options)
            except discord.HTTPException:
                known.add(route.key)
                raise
            known.add(route.key)
            return response

    return send
