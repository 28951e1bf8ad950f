"""Threads that people have taken over from the bot, as far as a process has heard or looked."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

Thread = TypeVar("Thread", bound=Hashable)
MOST_THREADS: Final = 5000
"""Kept in mind at a time; a thread that was dropped is looked at again."""
MOST_CHANGES: Final = 20
"""Kept of each thread, the newest."""


class Change(NamedTuple):
    """Who has a thread from a message on."""

    order: str
    """Of the message in its place, see `ports.platform_order`."""
    taken: bool
    """People; else the bot was called again."""


LookBack = Callable[[], Awaitable[Sequence[Change]]]
"""Reads what was said in a thread before now."""


@dataclass(slots=True)
class _Course:
    looked: bool = False
    """Nothing that was said in the thread is missing here."""
    changes: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        if change not in self.changes:
            insort(self.changes, change)
        del self.changes[:-MOST_CHANGES]


class Takeovers(Generic[Thread]):
    """What is known of each thread. All who ask of one that nobody knows wait for the same look at it.

    Messages need not come in order: what was missed is read up while new ones come in.
    """

    def __init__(self) -> None:
        self._courses: OrderedDict[Thread, _Course] = OrderedDict()
        self._looking: dict[Thread, asyncio.Task[None]] = {}

    async def is_taken(self, thread: Thread, order: str, look_back: LookBack) -> bool:
        """Whether people have taken over before a message of that order.

        `look_back` finds out for a thread of which something may have been missed.
        """
        if not self._course(thread).looked:
            if thread not in self._looking:
                self._looking[thread] = asyncio.create_task(self._look(thread, look_back))
            # The look goes on for the others when the one who began it is cancelled.
            await asyncio.shield(self._looking[thread])
        before = [change.taken for change in self._course(thread).changes if change.order < order]
        return bool(before) and before[-1]

    def note(self, thread: Thread, change: Change, *, opens: bool = False) -> None:
        """Keeps in mind what a message means for those after it.

        `opens`: it is the thread's first, and whatever comes after it will be heard.
        """
        course = self._course(thread)
        course.add(change)
        course.looked = course.looked or opens

    def drop(self, thread: Thread) -> None:
        """It is looked at again."""
        self._courses.pop(thread, None)

    def gap(self) -> None:
        """Something may have been missed in every thread."""
        for course in self._courses.values():
            course.looked = False

    def _course(self, thread: Thread) -> _Course:
        course = self._courses.setdefault(thread, _Course())
        self._courses.move_to_end(thread)
        while len(self._courses) > MOST_THREADS:
            self._courses.popitem(last=False)
        return course

    async def _look(self, thread: Thread, look_back: LookBack) -> None:
        try:
            seen = await look_back()
            course = self._course(thread)
            for change in seen:
                course.add(change)
            course.looked = True
        finally:
            del self._looking[thread]
