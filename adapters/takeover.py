"""Threads that people have taken over from the bot, as far as a process has heard or looked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

Thread = TypeVar("Thread", bound=Hashable)
MOST_THREADS: Final = 5000
"""Kept in mind at a time; a thread that was dropped is looked at again."""


class Takeovers(Generic[Thread]):
    """What is known of each thread. All who ask of one that nobody knows wait for the same look at it."""

    def __init__(self) -> None:
        self._taken: OrderedDict[Thread, bool] = OrderedDict()
        self._looking: dict[Thread, asyncio.Task[None]] = {}

    async def is_taken(self, thread: Thread, look_back: Callable[[], Awaitable[bool]]) -> bool:
        """Whether people have taken over; `look_back` finds out for a thread that was not heard of yet."""
        if thread not in self._taken:
            if thread not in self._looking:
                self._looking[thread] = asyncio.create_task(self._look(thread, look_back))
            # The look goes on for the others when the one who began it is cancelled.
            await asyncio.shield(self._looking[thread])
        return self._taken.get(thread, False)

    def note(self, thread: Thread, *, taken: bool) -> None:
        """Keeps in mind what a message means for those after it."""
        self._taken[thread] = taken
        self._taken.move_to_end(thread)
        while len(self._taken) > MOST_THREADS:
            self._taken.popitem(last=False)

    def drop(self, thread: Thread) -> None:
        """It is looked at again."""
        self._taken.pop(thread, None)

    async def _look(self, thread: Thread, look_back: Callable[[], Awaitable[bool]]) -> None:
        try:
            taken = await look_back()
            # What was said meanwhile is newer.
            if thread not in self._taken:
                self.note(thread, taken=taken)
        finally:
            del self._looking[thread]
