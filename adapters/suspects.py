"""Questions at which processes died until one attempt is left: one of them at work at a time.

Whoever is under way when the process dies is counted an attempt, the culprit and the innocent. If all of them
were tried together again, the third death would end them all. So the last attempt of each is made while no other
one is at its last: whatever kills the process then has one of them at most to take along. Others run beside it.
"""

from __future__ import annotations

import asyncio

from adapters.ticket import Ticket


class Suspects:
    """Of one process. They have their turns in no order but that of their coming."""

    def __init__(self, attempts: int) -> None:
        """A question is given up after so many."""
        self._last = attempts - 1
        self._at_work: Ticket | None = None
        self._free = asyncio.Event()

    def may_begin(self, ticket: Ticket) -> bool:
        """Whether it is no suspect, or has its turn, which is its own from then on until it leaves."""
        if not 0 < ticket.job.attempts == self._last or self._at_work is ticket:
            return True
        if self._at_work is not None:
            return False
        self._at_work = ticket
        self._free.clear()
        return True

    async def someone_left(self) -> None:
        """Returns when there may be a turn to be had."""
        await self._free.wait()

    def leave(self, ticket: Ticket) -> None:
        """Gives the turn up, if it had it."""
        if self._at_work is ticket:
            self._at_work = None
            self._free.set()
