"""A job while this process is at it: what is known of it that is not in the database."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from adapters import notices
from adapters.jobs import Ending, Job
from adapters.ports import Phase, Post, Seat
from core.errors import LeaseLost

if TYPE_CHECKING:
    from adapters.live import LiveMessage


class Verdict(StrEnum):
    """Why an attempt is cancelled."""

    STOPPED = "stopped"
    """Its asker wants no more of it."""
    AGAIN = "again"
    """What it was told of the conversation is not so any more."""
    LOST = "lost"
    """The job is not ours any more."""


@dataclass(eq=False)
class Ticket:
    """See the module."""

    job: Job
    seat: Seat | None = None
    ids: dict[int, str] = field(default_factory=dict)
    """The ids of our messages, by part."""
    position: str = ""
    """What its asker was last told of its place in the line."""
    doubtful: bool = False
    """A message may exist that we do not know of, or an edit may still come."""
    ending: Ending | None = None
    working: bool = False
    """An attempt is under way, and does not wait for the model."""
    counted: bool = False
    """The attempt that is under way is in the database's count."""
    task: asyncio.Future[Any] | None = None
    """The attempt, or the wait before it."""
    runner: asyncio.Task[None] | None = None
    """What does the job, from the first attempt to the delivery."""
    live: LiveMessage | None = None
    verdict: Verdict | None = None
    closing: bool = False
    """The job is being ended in the database: that it is no longer open there is no loss."""
    error: Exception | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _lost: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._admitted = time.monotonic() - self.job.age
        self.ids = {part.number: part.message_id for part in self.job.parts if part.message_id is not None}

    def tell_position(self) -> str:
        """Where it stands in the line now, in words, for its asker."""
        assert self.seat is not None
        self.position = notices.position(self.seat.ahead, self.seat.wait_seconds)
        return self.position

    def age(self) -> float:
        """Seconds since it was admitted."""
        return time.monotonic() - self._admitted

    def cancel(self, verdict: Verdict) -> None:
        """Ends the attempt that is under way, if any."""
        if self.verdict is not Verdict.LOST:
            self.verdict = verdict
        if verdict is Verdict.LOST:
            self._lost.set()
        if self.task is not None:
            self.task.cancel()

    async def pause(self, seconds: float, until: asyncio.Event | None = None) -> None:
        """Waits, but not beyond `until`. Raises `LeaseLost` as soon as the job is lost."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._lost, until) if event is not None]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._lost.is_set():
            raise LeaseLost

    def post(self, part: int, body: str, phase: Phase) -> Post:
        """A message of ours for this job."""
        job = self.job
        asked = {"reply_to": job.message_id, "key": job.key, "asker": job.asker}
        return Post(thread=job.thread, part=part, body=body, phase=phase, **asked)
