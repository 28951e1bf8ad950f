"""One job at a time in a thread, threads side by side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from adapters.ports import ThreadKey

log = logging.getLogger(__name__)
PAUSE: Final = 5.0


class Lanes:
    """A task for each thread that has something to do, and none for the others."""

    def __init__(self, work: Callable[[ThreadKey], Awaitable[bool]]) -> None:
        """`work` does the first job of a thread; False if there is none."""
        self._work = work
        self._running: dict[ThreadKey, asyncio.Task[None]] = {}
        self._woken: set[ThreadKey] = set()

    def __len__(self) -> int:
        return len(self._running)

    def wake(self, thread: ThreadKey) -> None:
        """There may be something to do in `thread`."""
        self._woken.add(thread)
        if thread not in self._running:
            self._running[thread] = asyncio.create_task(self._run(thread))

    def tasks(self) -> list[asyncio.Task[None]]:
        """Those that are at it, or wait for something."""
        return list(self._running.values())

    async def _run(self, thread: ThreadKey) -> None:
        try:
            while thread in self._woken:
                self._woken.discard(thread)
                while await self._worked(thread):
                    pass
        finally:
            self._woken.discard(thread)
            del self._running[thread]

    async def _worked(self, thread: ThreadKey) -> bool:
        try:
            return await self._work(thread)
        except Exception:  # the outer boundary of a thread
            # A thread that nobody is at any more would wait for ever.
            log.exception("A thread's work ended on an unexpected error and is taken up again")
            await asyncio.sleep(PAUSE)
            return True
