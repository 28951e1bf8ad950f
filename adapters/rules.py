"""The numbers of the dispatcher, and how it waits before it tries again."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from core.errors import DataDirError

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Seconds, unless it says otherwise."""

    attempts: int = 3
    """Of one job; then it ends with a notice."""
    ttl: float = 900.0
    """A question that was not begun by then ends with a notice."""
    heartbeat: float = 10.0
    """Between two extensions of the lease; the lease itself is three times as long."""
    position_every: float = 10.0
    """At most one notice of the position in the line."""
    refusal_every: float = 60.0
    """At most one refusal is said to an asker."""
    resumes_per_second: float = 10.0
    """After a start: every one of them means a few requests to the platform."""
    placeholder: float = 5.0
    """How long the work waits for its placeholder."""
    longest_edit_wait: float = 60.0
    """A platform that wants a longer pause sees no more edits but the last."""
    settling: float = 2.0
    """How long a request whose reply was lost may still have an effect."""
    first_retry: float = 0.5
    longest_retry: float = 60.0
    give_up: float = 86_400.0
    """An answer that could not be delivered by then never will be."""
    store_patience: float = math.inf
    """How long a result waits for a disk that is full or a database that is locked."""
    grace: float = 20.0
    """How long answers that are under way may take when the process is to end."""
    free_bytes: int = 200 * 2**20
    """With less on the disk no question is taken."""

    def backoff(self, tries: int, retry_after: float | None = None) -> float:
        """Seconds before the next try: as told, or up to twice as long each time, by chance."""
        if retry_after is not None:
            return retry_after + random.uniform(0, self.first_retry)
        return random.uniform(0, min(self.longest_retry, self.first_retry * 2 ** min(tries, 10))) + 0.05

    async def patiently(self, write: Callable[[], Awaitable[T]]) -> T:
        """The result of `write`, tried again while the disk is full or the database is locked."""
        started, tries = time.monotonic(), 0
        while True:
            try:
                return await write()
            except DataDirError as error:
                if time.monotonic() - started >= self.store_patience:
                    raise
                if not tries:
                    log.warning("Waiting for the disk: %s", error)
                tries += 1
                await asyncio.sleep(min(5.0, self.backoff(tries)))
