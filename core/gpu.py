"""The scheduler that knows that it is one GPU: who may call the model, when, and who has to wait.

A job has a seat from admission to its end, and takes a slot for each call to the model:

    with gpu.enter(asker, place) as seat:           # or QueueFull
        async with seat.slot(cost) as slot: ...     # waits for its turn; one call at a time

There are as many slots as the endpoint answers calls at the same time, so nothing waits inside the endpoint,
where it could be neither seen nor put in another order. A free slot goes to

    1. a job that has begun: its answer follows its rewrite
    2. the job of the person who has had the fewest tokens (`core.fair_queue`), one at a time for each
    3. background work, which gives its slot back as soon as a person wants it

All of it runs in one event loop and does no I/O. What a call comes to is told to its slot: an endpoint that
takes no calls is left alone for a while (`core.backoff`), and the jobs keep their places.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from core import metrics
from core.backoff import Backoff
from core.errors import ModelUnavailable, NoSlot, QuestionExpired, QueueFull, ThreadwiseError
from core.fair_queue import FairQueue
from core.seat import Background, Call, QueueLimits, Seat, Slot
from core.shedding import Shedding, ShedLevel

__all__ = ["Background", "Gpu", "QueueLimits", "Seat", "ShedLevel", "Slot"]
log = logging.getLogger(__name__)

MOST_OUTAGES: Final = 5
"""The job whose call is the first to be refused this often, while others are answered, is taken for the cause."""
NEWEST: Final = 0.2
"""Weight of the newest job in the moving average of their seconds."""


class Gpu:
    """One chat endpoint. For one event loop."""

    def __init__(
        self,
        slots: int,
        *,
        limits: QueueLimits = QueueLimits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if slots < 1:
            raise ValueError("an endpoint answers at least one call at a time")
        self.slots, self.limits, self.clock = slots, limits, clock
        self.backoff = Backoff()
        self.in_use = 0
        """Calls in flight, never more than `slots`."""
        self._fair = FairQueue()
        self._shedding = Shedding()
        self._seats: dict[int, Seat] = {}
        self._numbers = 0
        self._running: Counter[str] = Counter()
        self._calls: list[Call] = []
        self._far: dict[int, asyncio.Future[None]] = {}
        """Jobs that wait until they are near the front, by the number of their seat."""
        self._background: list[Call] = []
        self._lent: list[Slot] = []
        """Slots of background work."""
        self._refusal = ModelUnavailable()
        self._average: float | None = None
        self._places: tuple[dict[int, int], int] | None = None
        """What `_ranks` told last; None when something has changed since."""
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        metrics.SLOTS.set(slots)

    def enter(self, asker: str, place: str, *, enforce: bool = True, ttl: float | None = None) -> Seat:
        """A seat for a new job, or `QueueFull`. `asker` and `place` say for whom and where, in any words.

        Without `enforce` there is always room, for jobs that were admitted before a restart; `ttl` is what
        is left of the seconds that such a job may wait to begin.
        """
        if enforce and (reason := self.limits.exceeded_by(asker, place, self._seats.values())):
            metrics.QUEUE_REFUSALS.labels(reason=reason).inc()
            raise QueueFull(reason)
        self._numbers += 1
        ttl = self.limits.ttl_seconds if ttl is None else ttl
        seat = Seat(self, asker, place, self._numbers, self.clock(), ttl)
        self._seats[seat.number] = seat
        self._changed()
        return seat

    def background(self) -> Background:
        """Where summaries wait."""
        return Background(self)

    @property
    def level(self) -> ShedLevel:
        """What is left out now."""
        return self._shed(self.clock())

    @property
    def is_down(self) -> bool:
        """Whether the endpoint takes no calls, so that jobs wait for it."""
        return self.backoff.down_since is not None

    @property
    def jobs(self) -> int:
        """Jobs that have a seat."""
        return len(self._seats)

    # ------------------------------------------------------------------------- what seats and slots tell

    async def near(self, seat: Seat) -> None:
        """`Seat.near`."""
        if seat.begun or seat.is_near or seat.number not in self._seats:
            return
        self._far[seat.number] = far = asyncio.get_running_loop().create_future()
        self._changed()
        try:
            await far
        finally:
            if self._far.get(seat.number) is far:
                del self._far[seat.number]

    async def turn(self, call: Call) -> Slot:
        """Waits until `call` has its slot."""
        if call.seat is not None and call.seat.number not in self._seats:
            raise RuntimeError("the job has left its seat")
        waiting = self._background if call.seat is None else self._calls
        waiting.append(call)
        self._changed()
        try:
            return await call.slot
        except asyncio.CancelledError:
            if call in waiting:
                waiting.remove(call)
                self._changed()
            elif call.slot.done() and not call.slot.cancelled() and call.slot.exception() is None:
                call.slot.result().release()  # It came while the waiting ended.
            raise

    def answered(self, slot: Slot) -> None:
        """A call is being answered."""
        if self.backoff.answered(probe=slot.probe):
            log.warning("The model takes questions again: %d are waiting.", len(self._calls))
            self._changed()

    def refused(self, slot: Slot, error: ModelUnavailable) -> bool:
        """A call was not taken: its job is back at its place, and everybody waits; false if it had better not."""
        self._refusal = error
        began = self.backoff.refused(self.clock(), error.retry_after, probe=slot.probe)
        if began:
            log.warning("The model takes no questions, they wait: %s", error)
        if (seat := slot.seat) is None:
            return False
        seat.refusals += 1
        seat.outages += began
        self._fair.refund(seat, slot.cost)
        if slot.first:
            self._set_begun(seat, False)
        return seat.outages < MOST_OUTAGES

    def freed(self, slot: Slot) -> None:
        """A call has ended."""
        self.in_use -= 1
        self.backoff.undecided(probe=slot.probe and not slot.is_decided)
        if slot in self._lent:
            self._lent.remove(slot)
        if slot.seat is not None and not slot.is_refused:
            slot.seat.busy_seconds += self.clock() - slot.granted_at
            if slot.first:
                metrics.QUEUE_WAIT.observe(slot.granted_at - slot.seat.entered_at)
        self._changed()

    def leave(self, seat: Seat) -> None:
        """A job has ended."""
        if self._seats.pop(seat.number, None) is None:
            return
        if (far := self._far.pop(seat.number, None)) is not None:
            far.cancel()
        for call in [call for call in self._calls if call.seat is seat]:
            self._calls.remove(call)
            call.slot.cancel()
        self._set_begun(seat, False)
        if seat.busy_seconds:
            before = seat.busy_seconds if self._average is None else self._average
            self._average = (1 - NEWEST) * before + NEWEST * seat.busy_seconds
        self._fair.forget({left.asker for left in self._seats.values()})
        self._changed()

    def ahead_of(self, seat: Seat) -> int:
        """`Seat.ahead`."""
        ranks, begun = self._ranks()
        return 0 if seat.number not in ranks else begun + ranks[seat.number]

    def wait_of(self, seat: Seat) -> float | None:
        """`Seat.wait_seconds`."""
        before = self.ahead_of(seat) - (self.slots - self.in_use)
        if seat.begun or (before < 0 and not self.is_down):
            return 0.0
        return None if self._average is None or self.is_down else (before + 1) * self._average / self.slots

    # -------------------------------------------------------------------------------------- who is next

    def _ranks(self) -> tuple[dict[int, int], int]:
        """The places of the jobs that have not begun, by the number of their seat, and how many begun ones wait too."""
        if self._places is None:
            order = self._fair.order(self._not_begun())
            begun = sum(call.seat is not None and call.seat.begun for call in self._calls)
            self._places = {seat.number: rank for rank, seat in enumerate(order)}, begun
        return self._places

    def _changed(self) -> None:
        """Has it all looked at once, however much changes in this moment."""
        self._places = None
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Takes in what has changed: ends waits, gives slots, and sees to it that it looks again in time."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        now = self.clock()
        for calls in (self._calls, self._background):
            calls[:] = [call for call in calls if not call.slot.done()]  # Cancelled, and about to say so.
        self._shed(now)
        self._end_waits(now)
        while call := self._next(now):
            self._give(call, now)
        if self.backoff.admits(now) and any(map(self._may_begin, self._calls)):
            self._take_back()
        self._places = None
        self._let_near()
        self._report()
        self._look_again(now)

    def _let_near(self) -> None:
        """Tells the first who wait for it that it is time to get ready, until two for each slot are.

        Not simply the front of the line: a job there may wait for another one of its thread, further behind.
        """
        if not self._far:
            return
        ready = sum(seat.is_near and not seat.begun for seat in self._seats.values())
        for number in self._ranks()[0]:
            if ready >= 2 * self.slots or not self._far:
                return
            if (far := self._far.pop(number, None)) is not None and not far.done():
                self._seats[number].is_near = True
                ready += 1
                far.set_result(None)

    def _next(self, now: float) -> Call | None:
        if self.in_use >= self.slots or not self.backoff.admits(now):
            return None
        ready = [call for call in self._calls if self._may_begin(call)]
        if self.is_down and ready:
            # The probe: somebody else each time, so that a call that brings the endpoint down hides nobody.
            fewest = min(call.seat.refusals for call in ready if call.seat)
            ready = [call for call in ready if call.seat and call.seat.refusals == fewest]
        by_seat = {call.seat: call for call in ready if call.seat}
        begun = [seat for seat in by_seat if seat.begun]
        if seat := min(begun, key=lambda seat: seat.number, default=None) or self._fair.first(by_seat):
            return by_seat[seat]
        return self._background[0] if self._background and not self.is_down else None

    def _may_begin(self, call: Call) -> bool:
        seat = call.seat
        return seat is not None and (seat.begun or self._running[seat.asker] < self.limits.running_per_asker)

    def _give(self, call: Call, now: float) -> None:
        (self._background if call.seat is None else self._calls).remove(call)
        first = call.seat is not None and not call.seat.begun
        if call.seat is not None:
            self._fair.charge(call.seat, begins=first)
            self._set_begun(call.seat, True)
        slot = Slot(self, call, first=first, probe=self.backoff.begin(first=first), now=now)
        self.in_use += 1
        if call.seat is None:
            self._lent.append(slot)
        call.slot.set_result(slot)

    def _take_back(self) -> None:
        """Asks for one slot of background work, unless one is on its way already."""
        if self._lent and not any(slot.taken_back and slot.taken_back.is_set() for slot in self._lent):
            last = self._lent[-1].taken_back
            assert last is not None
            last.set()

    def _set_begun(self, seat: Seat, begun: bool) -> None:
        self._running[seat.asker] += begun - seat.begun
        seat.begun = begun
        if not self._running[seat.asker]:
            del self._running[seat.asker]

    def _not_begun(self) -> list[Seat]:
        return [seat for seat in self._seats.values() if not seat.begun]

    # ------------------------------------------------------------------------------------- how long

    def _end_waits(self, now: float) -> None:
        for call in [*self._calls, *self._background]:
            ends, why = self._end_of_wait(call)
            if ends <= now:
                (self._background if call.seat is None else self._calls).remove(call)
                call.slot.set_exception(why(str(self._refusal) if why is ModelUnavailable else ""))
        for number, far in list(self._far.items()):
            if self._seats[number].expires_at <= now:
                del self._far[number]
                if not far.done():
                    far.set_exception(QuestionExpired())

    def _end_of_wait(self, call: Call) -> tuple[float, type[ThreadwiseError]]:
        """When `call` waits no longer, and what it is told then."""
        seat, ends = call.seat, [math.inf, math.inf, math.inf]
        if call.optional:
            shed = seat is not None and self._shedding.level >= ShedLevel.NO_REWRITE
            ends[0] = -math.inf if shed else call.since + self.limits.patience_seconds
        if seat is not None and not seat.begun:
            ends[1] = seat.expires_at
        if seat is not None and (down := self.backoff.down_since) is not None:
            ends[2] = max(down, seat.entered_at) + self.limits.outage_seconds
        soonest = min(ends)
        return soonest, (NoSlot, QuestionExpired, ModelUnavailable)[ends.index(soonest)]

    def _shed(self, now: float) -> ShedLevel:
        before = self._shedding.level
        share = len(self._seats) / self.limits.total
        wait = len(self._not_begun()) * (self._average or 0.0) / self.slots if self.in_use >= self.slots else 0.0
        level = self._shedding.update(share, wait, now)
        if level != before:
            metrics.SHED_LEVEL.set(level)
            log.warning(
                "Load level %d (%s), was %d: %d questions, the next would wait about %.0f s.",
                level,
                level.name.lower(),
                before,
                len(self._seats),
                wait,
            )
        return level

    def _report(self) -> None:
        waiting = len(self._not_begun())
        metrics.QUEUE_JOBS.labels(state="waiting").set(waiting)
        metrics.QUEUE_JOBS.labels(state="begun").set(len(self._seats) - waiting)
        metrics.SLOTS_IN_USE.set(self.in_use)
        metrics.MODEL_UP.set(not self.is_down)

    def _look_again(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [self._end_of_wait(call)[0] for call in (*self._calls, *self._background)]
        times += [self._seats[number].expires_at for number in self._far]
        if self._calls and self.is_down and self.backoff.until > now:
            times.append(self.backoff.until)
        if (calm := self._shedding.next_look) is not None:
            times.append(calm)
        if (soonest := min(times, default=math.inf)) < math.inf:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, soonest - now), self._look)
