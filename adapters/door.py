"""Whether a question is let in: a place in the line for the model, or the words of a refusal."""

from __future__ import annotations

import time
from collections.abc import Callable

from adapters import notices
from adapters.jobs import Job
from adapters.ports import Gpu, Inbound, Seat, ThreadKey
from adapters.rules import Rules
from core import metrics
from core.errors import DataDirError


class Door:
    """In front of the line."""

    def __init__(self, gpu: Gpu, rules: Rules, free_bytes: Callable[[], int]) -> None:
        self._gpu, self._rules, self._free_bytes = gpu, rules, free_bytes
        self._refused_at: dict[str, float] = {}

    def enter(self, inbound: Inbound) -> Seat:
        """A place for a new question. Raises `QueueFull`, or `DataDirError` if there is no room on the disk."""
        if self._free_bytes() < self._rules.free_bytes:
            metrics.QUEUE_REFUSALS.labels(reason="disk").inc()
            raise DataDirError(notices.DISK)
        return self._gpu.enter(_who(inbound.thread, inbound.author_id), _where(inbound.thread))

    def back(self, job: Job) -> Seat:
        """A place for one that was let in before, for as long as it may still wait."""
        left = max(0.0, self._rules.ttl - job.age)
        return self._gpu.enter(_who(job.thread, job.asker), _where(job.thread), enforce=False, ttl=left)

    def may_tell(self, inbound: Inbound) -> bool:
        """Whether its asker is told of a refusal: of many in a short time only the first one is."""
        asker, now, every = _who(inbound.thread, inbound.author_id), time.monotonic(), self._rules.refusal_every
        self._refused_at = {who: at for who, at in self._refused_at.items() if now - at < every}
        if asker in self._refused_at:
            return False
        self._refused_at[asker] = now
        return True


def _who(thread: ThreadKey, asker: str) -> str:
    return f"{thread.platform}/{thread.workspace}/{asker}"


def _where(thread: ThreadKey) -> str:
    return f"{thread.platform}/{thread.workspace}/{thread.channel}"
