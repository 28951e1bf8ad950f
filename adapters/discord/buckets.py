"""One request at a time in each of Discord's buckets: discord.py counts several that are under way wrong.

Seen with 2.7.1: what remains of a bucket is taken from a response less what is under way, but never less than what the
limit would leave, so that newcomers are let through. And from a route's first response it learns in which bucket the
route's requests are; those for other channels that are under way by then keep counts of their own, beside those that
later requests to the same channels begin. Both together send more than Discord allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

import discord
from discord.http import Route


def one_at_a_time(request: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`discord.http.HTTPClient.request`, for one request of a route and place at a time, and until Discord has
    answered one of the route, for one of the route."""
    known = set[str]()
    locks = WeakValueDictionary[str, asyncio.Lock]()

    async def send(route: Route, **options: Any) -> Any:
        if route.key not in known:
            async with locks.setdefault(route.key, asyncio.Lock()):
                if route.key not in known:
                    return await learning(route, **options)
        async with locks.setdefault(f"{route.key}:{route.major_parameters}", asyncio.Lock()):
            return await request(route, **options)

    async def learning(route: Route, **options: Any) -> Any:
        try:
            response = await request(route, **options)
        except discord.HTTPException:
            known.add(route.key)
            raise
        known.add(route.key)
        return response

    return send
