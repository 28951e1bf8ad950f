"""Work that goes on to its end when whoever awaits it is cancelled.

A cancelled call of aiosqlite goes on in its thread, while SQLAlchemy takes the connection to be free, closes
it twice (which never returns), or throws it away in the middle of a transaction. So no call is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Unbroken:
    """Runs coroutines that are not to be cancelled, until it is closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Strong references: the event loop has only weak ones.
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work`; raises `RuntimeError` after `close`."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._name} is closed")
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Lets the running work end; nothing is begun any more."""
        self._closed = True
        await asyncio.gather(*self._running, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # A failure may find nobody waiting any more.
            task.exception()


class HasUnbroken(Protocol):
    """Whose methods `unbroken` may wrap."""

    @property
    def unbroken(self) -> Unbroken: ...


S = TypeVar("S", bound=HasUnbroken)


def unbroken(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """A method that runs to its end when its caller is cancelled."""

    @wraps(method)
    async def whole(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.unbroken.run(method(self, *args, **kwargs))

    return whole
