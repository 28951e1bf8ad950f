"""Attempts at an answer, until the final text is stored: an answer, or a notice in its place.

An attempt is counted in the database before it begins, so that a question that kills the process is given up
after three. What only waits for the model is no attempt: whoever stands in line when the process dies is not
to blame. Who was only under way beside the culprit is not given up with it: see `suspects`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, TypeVar

from adapters import notices
from adapters.fault import fault
from adapters.jobs import Ending, Work
from adapters.live import LiveMessage
from adapters.memories import Memories
from adapters.outbox import Outbox
from adapters.ports import AnswerTurn, Phase, Scope, Seat, TurnState
from adapters.store.jobs import SqlJobs
from adapters.suspects import Suspects
from adapters.ticket import Ticket, Verdict
from core.errors import ChannelGone, LeaseLost, QuestionExpired
from core.seat import Slot
from core.shedding import ShedLevel
from core.types import Answer, Question

log = logging.getLogger(__name__)
T = TypeVar("T")

LONG_WAIT: Final = 3.0
"""Seconds for the model after which an attempt has not really begun."""


class Attempts:
    """For all jobs."""

    def __init__(
        self,
        answer: AnswerTurn,
        jobs: SqlJobs,
        outbox: Outbox,
        most_turns: int,
        scope: Scope,
        memories: Memories | None = None,
    ) -> None:
        self._answer, self._jobs, self._outbox, self._rules = answer, jobs, outbox, outbox.rules
        self._most_turns, self._scope, self._memories = most_turns, scope, memories
        self._suspects = Suspects(self._rules.attempts)

    async def run(self, ticket: Ticket, live: LiveMessage) -> tuple[Answer, int]:
        """What was stored as the end of the job, and the number of turns that stood before it, not summarized.

        Raises `ChannelGone` if there is nobody to answer any more. Cancelled, it leaves the job to the next process.
        """
        try:
            return await self._run(ticket, live)
        finally:
            self._suspects.leave(ticket)

    async def _run(self, ticket: Ticket, live: LiveMessage) -> tuple[Answer, int]:
        with suppress(TimeoutError):
            await asyncio.wait_for(live.opened.wait(), self._rules.placeholder)
        attempts = ticket.job.attempts
        while True:
            if live.gone:
                raise ChannelGone
            if ticket.verdict is Verdict.STOPPED:
                return await self._end(ticket, notices.stopped(live.text), Ending.STOPPED), 0
            if ticket.age() >= self._rules.ttl:
                return await self._end(ticket, notices.notice(str(QuestionExpired())), Ending.EXPIRED), 0
            if attempts >= self._rules.attempts:
                return await self._end(ticket, notices.notice(notices.FAILED), Ending.FAILED), 0
            try:
                if not await self._near(ticket):
                    continue
                # Said before it is so: a write goes on to its end when its caller is cancelled.
                ticket.counted = ticket.working = True
                work = await self._rules.patiently(lambda: self._jobs.begin(ticket.job, self._most_turns))
                attempts = work.attempts
                fault("K4")
                answer = await self._attempt(ticket, live, work)
                if answer is not None:
                    answer = replace(answer, unread=work.unread)
                    fault("K9")
                    return await self._end(ticket, answer, Ending.ANSWERED), len(work.memory.turns)
                if ticket.verdict is Verdict.AGAIN:
                    ticket.verdict = None
                    attempts -= 1
                    await self._rules.patiently(lambda: self._jobs.count(ticket.job, -ticket.counted))
            except QuestionExpired as expired:
                return await self._end(ticket, notices.notice(str(expired)), Ending.EXPIRED), 0
            except LeaseLost:
                raise
            except asyncio.CancelledError:
                # A shutdown is no attempt.
                await self._jobs.release(ticket.job, attempts=-ticket.counted)
                raise
            except Exception:  # whatever it is: it is logged and counted, and after three attempts the asker is told
                log.exception("An attempt at an answer ended on an unexpected error")
                await ticket.pause(self._rules.backoff(attempts))
            finally:
                ticket.working = False

    async def _near(self, ticket: Ticket) -> bool:
        """Waits until it is worth while to begin; False if the ticket's verdict is to be looked at."""
        assert ticket.seat is not None
        while not self._suspects.may_begin(ticket):
            if not await self._undisturbed(ticket, self._suspects.someone_left()):
                return False
        return await self._undisturbed(ticket, ticket.seat.near())

    async def _undisturbed(self, ticket: Ticket, wait: Awaitable[None]) -> bool:
        """Waits; False if a verdict came."""
        waiting = await self._cancellable(ticket, wait)
        if ticket.verdict is Verdict.AGAIN:
            ticket.verdict = None
        return not waiting.cancelled() and waiting.result() is None

    async def _cancellable(self, ticket: Ticket, work: Awaitable[T]) -> asyncio.Future[T]:
        """`work`, done or cancelled by a verdict. Raises `LeaseLost` if that was the verdict."""
        task = asyncio.ensure_future(work)
        ticket.task = task
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
            raise
        finally:
            ticket.task = None
        if ticket.verdict is Verdict.LOST:
            raise LeaseLost
        return task

    async def _attempt(self, ticket: Ticket, live: LiveMessage, work: Work) -> Answer | None:
        """The answer; None if it was cancelled, for the reason that the ticket's verdict says."""
        assert ticket.seat is not None
        word = notices.AGAIN if work.attempts > 1 else notices.position(ticket.seat.ahead, ticket.seat.wait_seconds)
        live.show(word, Phase.WAITING)
        question = Question(
            text=work.text,
            author=work.author,
            exact=work.exact,
            heard=work.heard,
            scope=self._scope(ticket.job.thread),
            history=tuple(work.memory.turns),
            summary=work.memory.summary,
            summarized=work.memory.summarized,
        )

        async def show(text: str) -> None:
            live.show(text, Phase.GROWING)

        line = _CountedLine(ticket, ticket.seat, self._jobs, live)

        async def answered() -> Answer:
            facts: tuple[str, ...] = ()
            if self._memories is not None and ticket.job.turn is not None:
                facts = await self._memories.recall(ticket.job.turn, work.text)
            return await self._answer(replace(question, facts=facts), show, line)

        task = await self._cancellable(ticket, answered())
        if task.cancelled() or ticket.verdict is Verdict.AGAIN:
            return None
        return task.result()

    async def _end(self, ticket: Ticket, answer: Answer, ending: Ending) -> Answer:
        state = TurnState.ANSWERED if answer.complete else TurnState.INCOMPLETE
        state = TurnState.FAILED if answer.stand_in else state
        bodies = self._outbox.channel(ticket.job).bodies(answer)
        ticket.job = await self._rules.patiently(lambda: self._jobs.settle(ticket.job, answer, state, bodies, ending))
        ticket.ending = ending
        return answer


class _CountedLine:
    """Takes an attempt off the count when it waits long for the model, and adds it again before the call."""

    def __init__(self, ticket: Ticket, seat: Seat, jobs: SqlJobs, live: LiveMessage) -> None:
        self._ticket, self._seat, self._jobs, self._live = ticket, seat, jobs, live

    @property
    def level(self) -> ShedLevel:
        return self._seat.level

    @property
    def patience_seconds(self) -> float:
        return self._seat.patience_seconds

    @asynccontextmanager
    async def slot(self, cost: int, *, optional: bool = False) -> AsyncIterator[Slot]:
        waits = asyncio.create_task(self._waits())
        try:
            async with self._seat.slot(cost, optional=optional) as slot:
                waits.cancel()
                if not self._ticket.counted:
                    await self._count(1)
                    self._live.show(notices.WORKING, Phase.WAITING)
                yield slot
        finally:
            waits.cancel()

    async def _waits(self) -> None:
        await asyncio.sleep(LONG_WAIT)
        await self._count(-1)

    async def _count(self, attempts: int) -> None:
        ticket = self._ticket
        if ticket.counted != (attempts > 0):
            ticket.counted = ticket.working = attempts > 0
            await self._jobs.count(ticket.job, attempts)
