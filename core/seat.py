"""What a job holds while it is there: a seat, and a slot for each call to the model; and how many there may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from core.errors import ModelUnavailable
from core.shedding import ShedLevel

if TYPE_CHECKING:
    from core.gpu import Gpu

TYPICAL_COST: Final = 2_000
"""Tokens of a call that is not known yet, to tell how many come before somebody."""


class Line(Protocol):
    """Where calls wait: a `Seat`, or `Background`."""

    def slot(self, cost: int, *, optional: bool = False) -> AbstractAsyncContextManager[Slot]:
        """The model, for one call of so many tokens: waits until it is free."""
        ...


class JobLine(Line, Protocol):
    """Where the calls of one job wait: a `Seat`, or what stands before one."""

    @property
    def level(self) -> ShedLevel:
        """What is left out now, since many wait."""
        ...

    @property
    def patience_seconds(self) -> float:
        """How long a call that may be left out waits for its slot."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Jobs that may be there at a time, and seconds that they may wait."""

    total: int = 100
    per_asker: int = 3
    per_place: int = 25
    running_per_asker: int = 1
    ttl_seconds: float = 900.0
    """From admission to the first call: after that nobody waits for the answer any more."""
    outage_seconds: float = 900.0
    """How long a job waits for an endpoint that takes no calls."""
    patience_seconds: float = 20.0
    """How long a call that may be left out, such as a rewrite, waits for its slot."""

    def exceeded_by(self, asker: str, place: str, seats: Collection[Seat]) -> str:
        """Whose limit one more job would exceed: "total", "asker" or "place"; empty if there is room."""
        if len(seats) >= self.total:
            return "total"
        if sum(seat.asker == asker for seat in seats) >= self.per_asker:
            return "asker"
        return "place" if sum(seat.place == place for seat in seats) >= self.per_place else ""


class Seat:
    """A job's place from admission to its end. Leave it in any case, best by `with`."""

    def __init__(self, gpu: Gpu, asker: str, place: str, number: int, now: float, ttl: float) -> None:
        self._gpu = gpu
        self.asker, self.place = asker, place
        self.number = number
        """Order of arrival."""
        self.cost = TYPICAL_COST
        self.entered_at = now
        self.expires_at = now + ttl
        self.begun = False
        """Whether the model was called for it."""
        self.is_near = False
        """Whether it was told to get ready."""
        self.refusals = self.outages = 0
        """Calls that the endpoint did not take, and those among them that were the first of an outage."""
        self.busy_seconds = 0.0

    @property
    def ahead(self) -> int:
        """How many waiting jobs come before this one; 0 for the next one and for one that has begun."""
        return self._gpu.ahead_of(self)

    @property
    def wait_seconds(self) -> float | None:
        """How long until its turn, by the jobs of late; None while that cannot be told."""
        return self._gpu.wait_of(self)

    @property
    def level(self) -> ShedLevel:
        """What is left out now."""
        return self._gpu.level

    @property
    def patience_seconds(self) -> float:
        """How long an optional call waits for its slot."""
        return self._gpu.limits.patience_seconds

    async def near(self) -> None:
        """Returns when the job is near the front of the line: what it does before its first call may be done now.

        Raises `QuestionExpired` when it waited too long.
        """
        await self._gpu.near(self)

    @asynccontextmanager
    async def slot(self, cost: int, *, optional: bool = False) -> AsyncIterator[Slot]:
        """Waits for a slot and holds it; `cost` is in tokens, prompt and longest reply together.

        Raises `QuestionExpired` when the job waited too long to begin, `ModelUnavailable` when the endpoint
        has taken no calls for too long, and `NoSlot` when the call is `optional` and better left out.
        """
        self.cost = cost
        slot = await self._gpu.turn(Call(self, cost, optional, self._gpu.clock()))
        try:
            yield slot
        finally:
            slot.release()

    def leave(self) -> None:
        """Gives the place up; a second time, nothing happens."""
        self._gpu.leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class Background:
    """Where work waits that nobody waits for."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    @property
    def patience_seconds(self) -> float:
        """How long a call waits for its slot."""
        return self._gpu.limits.patience_seconds

    @asynccontextmanager
    async def slot(self, cost: int, *, optional: bool = True) -> AsyncIterator[Slot]:
        """Like `Seat.slot`, when no person's job wants it; always optional."""
        slot = await self._gpu.turn(Call(None, cost, True, self._gpu.clock()))
        try:
            yield slot
        finally:
            slot.release()


class Slot:
    """The right to one call, which tells it how the call goes."""

    def __init__(self, gpu: Gpu, call: Call, *, first: bool, probe: bool, now: float) -> None:
        self._gpu = gpu
        self.seat, self.cost = call.seat, call.cost
        self.first, self.probe, self.granted_at = first, probe, now
        self.taken_back = asyncio.Event() if call.seat is None else None
        """Set when a person wants the slot: the call is to end at once. None for a slot that is kept."""
        self.is_refused = self.is_decided = self.is_free = False

    def answered(self) -> None:
        """The endpoint has begun to answer, with whatever."""
        if not self.is_decided:
            self.is_decided = True
            self._gpu.answered(self)

    def refused(self, error: ModelUnavailable) -> bool:
        """The endpoint did not take the call: the job goes back to its place. Whether it may wait there again."""
        self.is_decided = self.is_refused = True
        return self._gpu.refused(self, error)

    def may_retry(self) -> bool:
        """Whether the call may be made once more after the endpoint took it and failed."""
        return self._gpu.backoff.may_retry()

    def release(self) -> None:
        """Frees the slot; a second time, nothing happens."""
        if not self.is_free:
            self.is_free = True
            self._gpu.freed(self)


class Call:
    """A call that waits for a slot."""

    def __init__(self, seat: Seat | None, cost: int, optional: bool, since: float) -> None:
        self.seat, self.cost, self.optional, self.since = seat, cost, optional, since
        self.slot: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
