"""Who is next: people take turns by the tokens they have had (start-time fair queueing).

Each asker has an account of tokens, in use like a clock of their own: a call moves it on by its cost, and who
is furthest behind is next. An account never lies behind the start of the last job begun, so nobody saves
turns up by being silent. Pure bookkeeping; nothing here knows of slots or time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar


class Job(Protocol):
    @property
    def asker(self) -> str: ...

    @property
    def number(self) -> int:
        """Order of arrival."""
        ...

    @property
    def cost(self) -> int:
        """Tokens its next call may take."""
        ...


J = TypeVar("J", bound=Job)


class FairQueue:
    """The accounts of the askers."""

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._start = 0.0
        """Account of the asker of the last job begun, before it was charged."""

    def had(self, asker: str) -> float:
        """Tokens on the account of `asker`."""
        return max(self._had.get(asker, 0.0), self._start)

    def charge(self, job: Job, *, begins: bool) -> None:
        """Puts the cost of a call on the account of its asker. `begins`: it is the first of its job."""
        had = self.had(job.asker)
        if begins:
            self._start = had
        self._had[job.asker] = had + job.cost

    def refund(self, job: Job, cost: int) -> None:
        """Takes back a charge for a call that did not happen."""
        if job.asker in self._had:
            self._had[job.asker] -= cost

    def forget(self, askers_left: Collection[str]) -> None:
        """Drops accounts that say nothing any more; all of them when nobody is left."""
        if not askers_left:
            self._had.clear()
            self._start = 0.0
        elif len(self._had) > len(askers_left):
            self._had = {a: had for a, had in self._had.items() if a in askers_left or had > self._start}

    def first(self, jobs: Iterable[J]) -> J | None:
        """Which of `jobs` is next."""
        return min(jobs, key=lambda job: (self.had(job.asker), job.number), default=None)

    def order(self, jobs: Iterable[J]) -> list[J]:
        """`jobs` in the order in which they will be served, if nobody joins."""
        ahead: dict[str, float] = {}
        keyed: list[tuple[float, int, J]] = []
        for job in sorted(jobs, key=lambda job: job.number):
            start = ahead.setdefault(job.asker, self.had(job.asker))
            ahead[job.asker] += job.cost
            keyed.append((start, job.number, job))
        return [job for _, _, job in sorted(keyed, key=lambda entry: entry[:2])]
