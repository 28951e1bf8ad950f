"""Whether the jobs of this process are still its own: it may have been stopped for longer than its lease."""

from __future__ import annotations

from adapters.jobs import Job
from adapters.rules import Rules
from adapters.store import ticks
from adapters.store.jobs import SqlJobs
from core.errors import LeaseLost


class Leases:
    """Extended by the heartbeat, or by whoever finds them too old."""

    def __init__(self, jobs: SqlJobs, rules: Rules) -> None:
        self._jobs, self._rules = jobs, rules
        self._until = ticks.now() + jobs.lease_seconds

    async def renew(self) -> set[int]:
        """Extends them; the ids of the jobs that are ours."""
        since = ticks.now()
        ours = await self._jobs.extend()
        self._until = since + self._jobs.lease_seconds
        return ours

    async def sure(self, job: Job) -> None:
        """Returns if the job is ours, so that its messages may be touched; else raises `LeaseLost`."""
        if ticks.now() >= self._until and job.id not in await self._rules.patiently(self.renew):
            raise LeaseLost
