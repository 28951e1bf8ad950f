"""One inbound message, one reply: admit, order, answer, remember, deliver; then condense what is long ago.

    admit      one transaction stores message, turn and job; the channel acknowledges when it returns
    lanes      one job at a time in a thread, in the order of the platform
    live       a placeholder, created once, that shows the place in the line and then the growing answer
    attempts   the answer, or a notice after three attempts or 15 minutes; stored before it is shown as final
    outbox     the final text, by edits that may be repeated, until it is delivered or there is no place for it

What a process leaves behind when it dies, the next one takes over: nothing is lost and nothing is said twice.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from adapters import notices
from adapters.attempts import Attempts
from adapters.door import Door
from adapters.fault import fault
from adapters.jobs import Admitted, Edited, Ending, Job, JobState
from adapters.lanes import Lanes
from adapters.leases import Leases
from adapters.live import LiveMessage
from adapters.memories import Memories
from adapters.outbox import Outbox
from adapters.ports import AnswerTurn, Channel, Gpu, Inbound, Person, Phase, Scope, Seat, ThreadKey, public
from adapters.resume import fair_order
from adapters.rules import Rules
from adapters.store import SqlConversationStore
from adapters.summaries import Summaries
from adapters.ticket import Ticket, Verdict
from core import metrics
from core.errors import ChannelGone, DataDirError, LeaseLost, QueueFull, ThreadwiseError
from core.types import Answer
from core.window import MAX_PAIRS, MIN_PAIRS

log = logging.getLogger(__name__)
T = TypeVar("T")


class Dispatcher:
    """Between `start` and `close`. Channels are attached before the start."""

    def __init__(
        self,
        store: SqlConversationStore,
        answer: AnswerTurn,
        gpu: Gpu,
        most_turns: int,
        summaries: Summaries | None = None,
        *,
        rules: Rules = Rules(),  # noqa: B008 - frozen, so that all may share it
        free_bytes: Callable[[], int] | None = None,
        scope: Scope = public,
        memories: Memories | None = None,
    ) -> None:
        """A prompt may take `most_turns`; without `summaries`, older ones are forgotten to the model, and without
        `memories` nothing is remembered of people."""
        self._store, self._jobs, self._summaries, self._memories = store, store.jobs, summaries, memories
        self.rules = rules
        self._door = Door(gpu, rules, free_bytes or (lambda: shutil.disk_usage(store.database.path.parent).free))
        self._channels: dict[str, Channel] = {}
        self._leases = Leases(store.jobs, rules)
        self._outbox = Outbox(store.jobs, self._channels, rules, self._leases.sure)
        self._attempts = Attempts(answer, store.jobs, self._outbox, most_turns, scope, memories)
        self._lanes = Lanes(self._first_of)
        self._tickets: dict[int, Ticket] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False

    def attach(self, channel: Channel) -> None:
        """Answers of its platform go to `channel`; the jobs of others wait for a process that has theirs."""
        self._channels[channel.platform] = channel

    async def start(self, *, alone: bool = True) -> None:
        """Takes over what was left behind. `alone`: no other process can be at work on this database."""
        jobs = await self._jobs.take_over(list(self._channels), alone=alone)
        metrics.JOBS_RESUMED.inc(len(jobs))
        if jobs:
            log.warning("%d questions were left unfinished by the last run and go on now", len(jobs))
        self._spawn(self._resume(jobs))
        self._spawn(self._beat())
        self._spawn(self._tell_positions())

    # --------------------------------------------------------------------------------- from the channels

    async def admit(self, inbound: Inbound) -> Admitted | None:
        """Takes a message. When it returns, the message is on the disk and may be acknowledged.

        None: it is known already, and to be acknowledged again. Raises `ThreadwiseError` if it could not be stored,
        or on shutdown: then it must not be acknowledged, so that it comes again.
        """
        # In a task of its own: a channel that gives up waiting must not leave a job that nobody is at.
        return await asyncio.shield(self._spawn(self._admit(inbound)))

    async def edited(self, inbound: Inbound) -> Edited:
        """A message has another text now: while its answer is being made, that begins anew; when it is there, the
        channel may offer to answer it again."""
        outcome = await self._store.changes.edit(inbound)
        if outcome is not Edited.STORED:
            return outcome
        for ticket in self._tickets.values():
            if ticket.job.asks(inbound.thread, inbound.message_id) and ticket.task:
                ticket.cancel(Verdict.AGAIN)
                outcome = Edited.REPLACED
        self._summarize_again(inbound.thread)
        return outcome

    async def deleted(self, thread: ThreadKey, message_id: str) -> None:
        """A message is gone: so are its job, what we show for it unless it is final, and what we remember of it."""
        found = await self._store.changes.delete(thread, message_id)
        if found is None:
            return
        for ticket in self._tickets.values():
            if ticket.job.thread in found.remembered and not ticket.job.asks(thread, message_id) and ticket.task:
                # It may be about to tell the model what is gone.
                ticket.cancel(Verdict.AGAIN)
        for held in found.remembered:
            self._summarize_again(held)
        await self._sweep()

    def place_gone(self, platform: str, workspace: str, place: str | None) -> None:
        """A thread, a channel, or with None a whole workspace is gone to us: what waits there ends undeliverable."""
        for ticket in list(self._tickets.values()):
            thread = ticket.job.thread
            within = (thread.platform, thread.workspace) == (platform, workspace)
            if within and (place is None or place in (thread.channel, thread.thread)) and ticket.live is not None:
                ticket.live.lose_place()

    async def forget(self, thread: ThreadKey) -> int:
        """Removes a conversation for good; how many turns it had."""
        turns = await self._store.forget(thread)
        await self._sweep()
        return turns

    @property
    def remembers(self) -> bool:
        """Whether facts about people are kept."""
        return self._memories is not None

    async def facts_about(self, person: Person) -> dict[int, str]:
        """What is remembered of a person, by number, newest first: for them alone. There may be facts from when it
        was on."""
        return await self._store.facts.of(person)

    async def forget_about(self, person: Person, number: int | None = None) -> tuple[str, ...]:
        """Removes what is remembered of a person for good, or one fact by its number; what it was. Their
        conversations stay."""
        gone = await self._store.facts.forget(person, number)
        for ticket in self._tickets.values():
            job = ticket.job
            asks = (job.thread.platform, job.asker) == (person.platform, person.id)
            if gone and asks and person.is_in(job.thread.workspace) and ticket.task:
                # It may be about to tell the model what is forgotten.
                ticket.cancel(Verdict.AGAIN)
        return gone

    def job_of(self, key: str) -> Job | None:
        """The job of this process whose messages carry `Post.key`, while it is open."""
        return next((ticket.job for ticket in self._tickets.values() if ticket.job.key == key), None)

    async def reset(self, thread: ThreadKey) -> None:
        """Later questions of the thread are answered as if it began with them."""
        await self._store.changes.reset(thread)

    def stop(self, job: int) -> None:
        """The asker wants no more of the answer: what is there of it is final."""
        if (ticket := self._tickets.get(job)) is not None:
            ticket.cancel(Verdict.STOPPED)

    async def ended(self, job: int) -> None:
        """Returns when the job has ended. Raises `DataDirError` if its end could not be stored."""
        if (ticket := self._tickets.get(job)) is not None:
            await ticket.ended.wait()
            if ticket.error is not None:
                raise ticket.error

    async def close(self, grace: float | None = None) -> None:
        """Takes nothing more, lets answers that are under way end for `grace` seconds, leaves the rest to the next."""
        grace = self.rules.grace if grace is None else grace
        self._closing = True
        runners = {ticket.runner: ticket for ticket in self._tickets.values() if ticket.runner is not None}
        for runner, ticket in runners.items():
            if ticket.job.state is JobState.QUEUED and not ticket.working:
                runner.cancel()
        if runners:
            await asyncio.wait(runners, timeout=grace)
        left = [*runners, *self._tasks, *self._lanes.tasks()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=2.0)
        lives = [ticket.live.close() for ticket in self._tickets.values() if ticket.live is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*lives), 2.0)
        if not self._tickets:
            return
        with suppress(DataDirError, TimeoutError):
            # Whoever starts next need not wait for the leases to run out.
            await asyncio.wait_for(self._jobs.disown(list(self._tickets)), 2.0)

    # ------------------------------------------------------------------------------------------ admission

    async def _admit(self, inbound: Inbound) -> Admitted | None:
        if self._closing:
            raise ThreadwiseError("Threadwise is stopping: send the message again in a minute.")
        fault("K0")
        try:
            seat = self._door.enter(inbound)
        except (QueueFull, DataDirError) as full:
            return await self._refuse(inbound, str(full))
        try:
            job = await self._jobs.admit(inbound)
        except BaseException:  # cancelled as well: a seat that nobody leaves is taken for good
            seat.leave()
            raise
        if job is None:
            seat.leave()
            return None
        self._enter(job, seat)
        fault("K1")
        return Admitted(job=job.id)

    async def _refuse(self, inbound: Inbound, why: str) -> Admitted | None:
        silent = not self._door.may_tell(inbound)
        channel = self._channels[inbound.thread.platform]
        job = await self._jobs.refuse(inbound, [] if silent else channel.bodies(notices.notice(why)))
        if job is None:
            return None
        metrics.JOBS_ENDED.labels(ending=Ending.REFUSED.value).inc()
        if silent:
            return Admitted(job=None, refused=True)
        self._enter(job)
        return Admitted(job=job.id, refused=True)

    def _enter(self, job: Job, seat: Seat | None = None, *, resumed: bool = False) -> None:
        ticket = Ticket(job, doubtful=resumed)
        self._tickets[job.id] = ticket
        if job.state is JobState.QUEUED:
            ticket.seat = seat or self._door.back(job)
            ticket.live = LiveMessage(ticket, self._outbox, self._jobs)
            ticket.live.start(ticket.tell_position)
        if job.turn is not None and job.state is not JobState.REMOVING:
            self._lanes.wake(job.thread)
        else:
            ticket.runner = self._spawn(self._run(ticket))

    # ----------------------------------------------------------------------------------------- the work

    async def _first_of(self, thread: ThreadKey) -> bool:
        first = await self.rules.patiently(lambda: self._jobs.next(thread))
        ticket = self._tickets.get(first[0]) if first is not None else None
        if first is None or ticket is None or ticket.job.fence != first[1] or self._closing:
            return False  # Who enters a ticket wakes the lane.
        ticket.runner = asyncio.ensure_future(self._run(ticket))
        try:
            await asyncio.wait({ticket.runner})
        except asyncio.CancelledError:
            ticket.runner.cancel()
            raise
        return True

    async def _run(self, ticket: Ticket) -> None:
        outcome: tuple[Answer, int] | None = None
        try:
            if ticket.live is not None and ticket.job.state is JobState.QUEUED:
                outcome = await self._attempts.run(ticket, ticket.live)
                fault("K10")
            await self._let_go(ticket)
            await (
                self._outbox.remove(ticket) if ticket.job.state is JobState.REMOVING else self._outbox.deliver(ticket)
            )
            ending = ticket.ending or (Ending.DELETED if ticket.job.state is JobState.REMOVING else None)
            if ending is not None:
                metrics.JOBS_ENDED.labels(ending=ending.value).inc()
        except LeaseLost:
            log.info("A job was given up: it was deleted, or another process has it")
        except ChannelGone as gone:
            log.info("An answer has no place any more: %s", gone)
            await self._give_up(ticket)
        except DataDirError as error:
            ticket.error = error
        except Exception:  # the outer boundary of a job: whatever it is, the question is not lost
            log.exception("A job ended on an unexpected error and is tried again")
            await asyncio.sleep(self.rules.backoff(1))
            await self._jobs.disown([ticket.job.id])
        finally:
            await self._leave(ticket)
        if outcome is not None:
            self._condense(ticket.job.thread, outcome[1], outcome[0])
            if self._memories is not None and ticket.job.turn is not None and ticket.ending is Ending.ANSWERED:
                self._memories.start(ticket.job.turn)

    async def _give_up(self, ticket: Ticket) -> None:
        ticket.closing = True
        metrics.JOBS_ENDED.labels(ending=JobState.UNDELIVERABLE.value).inc()
        with suppress(LeaseLost):
            await self.rules.patiently(lambda: self._jobs.end(ticket.job, JobState.UNDELIVERABLE))

    async def _leave(self, ticket: Ticket) -> None:
        """Nobody is at the ticket any more."""
        await self._let_go(ticket)
        if self._tickets.get(ticket.job.id) is ticket:
            del self._tickets[ticket.job.id]
        ticket.ended.set()

    async def _let_go(self, ticket: Ticket) -> None:
        """Of the line and of the live message: neither is needed any more."""
        if ticket.seat is not None:
            ticket.seat.leave()
        if ticket.live is not None:
            await ticket.live.close()

    def _condense(self, thread: ThreadKey, turns: int, answer: Answer) -> None:
        """Lets the thread's older turns be condensed, unless the next question has the model's time already."""
        tight = answer.kept.turns_dropped > 0
        waiting = any(ticket.job.thread == thread for ticket in self._tickets.values())
        if self._summaries is not None and not waiting and turns >= (MIN_PAIRS if tight else MAX_PAIRS):
            self._summaries.start(thread, tight=tight)

    def _summarize_again(self, thread: ThreadKey) -> None:
        if self._summaries is not None:
            self._summaries.again(thread)

    # --------------------------------------------------------------------------------- in the background

    async def _resume(self, jobs: list[Job]) -> None:
        """Oldest first, in turn among the askers, and no faster than the platforms like."""
        for job in fair_order(jobs):
            if job.id not in self._tickets:
                self._enter(job, resumed=True)
            await asyncio.sleep(1 / self.rules.resumes_per_second)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.rules.heartbeat)
            try:
                await self._sweep()
            except DataDirError as error:
                log.warning("The leases could not be extended: %s", error)

    async def _sweep(self) -> None:
        """Extends the leases, lets go of jobs that are lost, and takes those that nobody is at."""
        known = dict(self._tickets)
        ours = await self._leases.renew()
        for id_, ticket in known.items():
            if id_ not in ours and not ticket.closing:
                self._lose(ticket)
        for job in await self._jobs.take_over(list(self._channels), alone=False):
            if (before := self._tickets.get(job.id)) is not None:
                # Taken from us and free again, both since the leases were extended.
                self._lose(before)
            self._spawn(self._enter_after(before, job))

    def _lose(self, ticket: Ticket) -> None:
        """The job is not the ticket's any more."""
        if not ticket.ended.is_set():
            ticket.cancel(Verdict.LOST)
            if ticket.runner is None:
                self._spawn(self._drop(ticket))

    async def _drop(self, ticket: Ticket) -> None:
        """Ends a ticket that was lost while it waited for its turn in the thread."""
        await self._leave(ticket)
        self._lanes.wake(ticket.job.thread)

    async def _enter_after(self, before: Ticket | None, job: Job) -> None:
        if before is not None:
            await before.ended.wait()
        self._enter(job, resumed=True)

    async def _tell_positions(self) -> None:
        """Where a waiting question stands: when that has changed, and not too often."""
        while True:
            await asyncio.sleep(self.rules.position_every)
            for ticket in self._tickets.values():
                if ticket.seat is None or ticket.live is None or ticket.working or ticket.live.text:
                    continue
                told = ticket.position
                if (word := ticket.tell_position()) != told:
                    ticket.live.show(word, Phase.WAITING)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
