"""Inbox, jobs and outbox: a message is taken once, worked on by one process, and answered in one place.

A process owns the jobs that it admitted or took over, until they end, by a lease that it has to extend. Whatever
it writes for a job names itself and the job's fence, so that a process that lost a job (stopped, and started
again) can write nothing for it any more: `LeaseLost`.

Urgent writes are those that the model, or a platform that wants its acknowledgement, would wait for. The id of a
message that was just created is none: in a crowd there are hundreds of them, and whoever dies before finds it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Delete, and_, case, delete, exists, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.jobs import OPEN, Ending, Job, JobState, Part, Work
from adapters.ports import Inbound, ThreadKey, TurnState
from adapters.store import ticks
from adapters.store.admission import Admission, admit
from adapters.store.batch import Batches
from adapters.store.database import Database
from adapters.store.job_rows import Names, job_value, names_of, new_part
from adapters.store.models import InboxRow, JobRow, PartRow, ThreadRow, TurnRow
from adapters.store.rows import heard_by, settled
from adapters.store.window import memory_of, names_in
from core.errors import LeaseLost
from core.types import Answer

ATTEMPTS = 5
LEASE_SECONDS = 30.0
KNOWN_DAYS = 30
"""How long the id of a message without a job is kept: no platform repeats an older one, and no catch-up reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A message of ours that was created, or that shows its final body."""

    job: Job
    part: int
    id: str
    delivered: bool = False
    last: bool = False


class SqlJobs:
    """The jobs of one process. Every method is one transaction, which what is written often shares with others."""

    def __init__(self, database: Database, lease_seconds: float = LEASE_SECONDS) -> None:
        self.database = database
        self.lease_seconds = lease_seconds
        self.owner = secrets.token_hex(16)
        self._admissions: Batches[Admission, Job | None] = Batches(self._admit)
        self._lookups: Batches[ThreadKey, tuple[int, int] | None] = Batches(self._firsts)
        self._messages: Batches[_Message, None] = Batches(self._note)

    async def admit(self, inbound: Inbound) -> Job | None:
        """Stores the question and its job; None if the message is known. When this returns, it is on the disk."""
        return await self.database.run(self._admissions.add(Admission(inbound=inbound)))

    async def refuse(self, inbound: Inbound, bodies: Sequence[str]) -> Job | None:
        """Stores that the message was refused, with the notice that is to be shown, if any."""
        return await self.database.run(self._admissions.add(Admission(inbound=inbound, refusal=bodies)))

    async def extend(self) -> set[int]:
        """Extends the lease of all jobs of this process; the ids of those that it still has."""
        return await self.database.run(self._extend())

    async def take_over(self, platforms: Collection[str], *, alone: bool) -> list[Job]:
        """Takes the open jobs that nobody is at, oldest first. `alone`: no other process can be alive."""
        return await self.database.run(self._take_over(platforms, alone=alone))

    async def next(self, thread: ThreadKey) -> tuple[int, int] | None:
        """Id and fence of the job of this process that is to be done first in a thread."""
        return await self.database.run(self._lookups.add(thread))

    async def begin(self, job: Job, most_turns: int) -> Work:
        """Counts an attempt, before the work; the question as it reads now, and what the thread holds before it."""
        return await self.database.run(self._begin(job, most_turns))

    async def count(self, job: Job, attempts: int) -> None:
        """Adds to the attempts, or takes off what was none."""
        await self.database.run(self._write(job, attempts=JobRow.attempts + attempts))

    async def release(self, job: Job, *, attempts: int = 0) -> None:
        """Gives the job up for whoever takes it over."""
        await self.database.run(
            self._write(
                job,
                attempts=JobRow.attempts + attempts,
                state=case((JobRow.state == JobState.RUNNING, JobState.QUEUED.value), else_=JobRow.state),
                lease_owner="",
            )
        )

    async def settle(self, job: Job, answer: Answer, state: TurnState, bodies: Sequence[str], ending: Ending) -> Job:
        """Stores what was searched, answered, cited and degraded, and the messages that are to show it."""
        return await self.database.run(self._settle(job, answer, state, bodies, ending))

    async def posted(self, job: Job, part: int, message_id: str) -> None:
        """Stores the id of a message of ours."""
        await self.database.run(self._messages.add(_Message(job=job, part=part, id=message_id)))

    async def delivered(self, job: Job, part: int, message_id: str, *, last: bool) -> None:
        """Stores that the message shows its final body; the `last` one ends the job."""
        message = _Message(job=job, part=part, id=message_id, delivered=True, last=last)
        await self.database.run(self._messages.add(message))

    async def end(self, job: Job, state: JobState) -> None:
        """Ends the job without delivery, and its turn without an answer if it has none."""
        await self.database.run(self._end(job, state))

    async def disown(self, ids: Collection[int]) -> None:
        """Gives up jobs that this process has lost sight of."""
        await self.database.run(self._disown(ids))

    async def abandon(self, platform: str) -> list[str]:
        """Ends all open jobs of a platform that does not go on where it was; the questions, oldest first."""
        return await self.database.run(self._abandon(platform))

    async def _admit(self, admissions: Sequence[Admission]) -> list[Job | None]:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self.database.write(urgent=True) as session:
                    return await admit(session, admissions, self.owner, self.lease_seconds)
            except IntegrityError:
                # Another process was faster, with a message or a place in a thread. Look again.
                # SQLite, where a writer is alone, never gets here.
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _extend(self) -> set[int]:
        async with self.database.write() as session:
            mine = (
                update(JobRow)
                .where(JobRow.lease_owner == self.owner, JobRow.state.in_(OPEN))
                .values(lease_until=ticks.now() + self.lease_seconds)
                .returning(JobRow.id)
            )
            return set((await session.scalars(mine)).all())

    async def _take_over(self, platforms: Collection[str], *, alone: bool) -> list[Job]:
        now = ticks.now()
        # No lease is longer than that, whatever a clock says.
        lasting = JobRow.lease_until.between(now, now + self.lease_seconds)
        free = or_(JobRow.lease_owner == "", JobRow.lease_boot != ticks.boot(), ~lasting)
        theirs = JobRow.lease_owner != self.owner
        here = select(InboxRow.id).where(InboxRow.platform.in_(platforms))
        taken = (
            update(JobRow)
            .where(JobRow.state.in_(OPEN), JobRow.inbox_id.in_(here), theirs if alone else and_(theirs, free))
            .values(
                fence=JobRow.fence + 1,
                state=case((JobRow.state == JobState.RUNNING, JobState.QUEUED.value), else_=JobRow.state),
                lease_owner=self.owner,
                lease_boot=ticks.boot(),
                lease_until=now + self.lease_seconds,
            )
            .returning(JobRow.id)
        )
        async with self.database.write() as session:
            await session.execute(_old_and_without_a_job())
            ids = (await session.scalars(taken)).all()
            return await _values(session, JobRow.id.in_(ids))

    async def _firsts(self, threads: Sequence[ThreadKey]) -> list[tuple[int, int] | None]:
        columns = (InboxRow.platform, InboxRow.workspace, InboxRow.channel, InboxRow.thread)
        names = [names_of(thread) for thread in threads]
        to_do = (
            select(JobRow.id, JobRow.fence, *columns)
            .join(InboxRow, InboxRow.id == JobRow.inbox_id)
            .join(TurnRow, TurnRow.id == JobRow.turn_id)
            .where(
                JobRow.state.in_((JobState.QUEUED, JobState.RUNNING, JobState.DELIVERING)),
                JobRow.lease_owner == self.owner,
                tuple_(*columns).in_(names),
            )
            .order_by(TurnRow.seq)
        )
        firsts: dict[Names, tuple[int, int]] = {}
        async with self.database.read() as session:
            for id_, fence, *thread in await session.execute(to_do):
                firsts.setdefault(tuple(thread), (id_, fence))
        return [firsts.get(thread) for thread in names]

    async def _begin(self, job: Job, most_turns: int) -> Work:
        async with self.database.write(urgent=True) as session:
            counted = {"attempts": JobRow.attempts + 1, "state": JobState.RUNNING.value}
            attempts = await session.scalar(
                update(JobRow).where(self._mine(job)).values(counted).returning(JobRow.attempts)
            )
            turn = await session.get(TurnRow, job.turn)
            if attempts is None or turn is None:
                raise LeaseLost
            thread = await session.get_one(ThreadRow, turn.thread_id)
            names = await names_in(session, thread.id)
            memory = await memory_of(session, thread, turn.seq, most_turns, names)
            return Work(
                text=turn.typed,
                author=names[turn.author_id],
                exact=turn.exact,
                heard=heard_by(turn),
                unread=tuple(turn.unread),
                memory=memory,
                attempts=attempts,
            )

    async def _write(self, job: Job, **values: Any) -> None:
        async with self.database.write(urgent=True) as session:
            await self._guarded(session, job, values)

    async def _guarded(self, session: AsyncSession, job: Job, values: dict[str, Any]) -> None:
        changed = update(JobRow).where(self._mine(job)).values(values).returning(JobRow.id)
        if await session.scalar(changed) is None:
            raise LeaseLost

    async def _settle(self, job: Job, answer: Answer, state: TurnState, bodies: Sequence[str], ending: Ending) -> Job:
        async with self.database.write(urgent=True) as session:
            await self._guarded(session, job, {"state": JobState.DELIVERING.value, "ending": ending.value})
            values = settled(answer, state, datetime.now(UTC))
            await session.execute(update(TurnRow).where(TurnRow.id == job.turn).values(**values))
            for number, body in enumerate(bodies):
                await _put(session, job, number, {"body": body})
        parts = tuple(Part(number=number, body=body) for number, body in enumerate(bodies))
        return replace(job, state=JobState.DELIVERING, parts=parts)

    async def _end(self, job: Job, state: JobState) -> None:
        async with self.database.write() as session:
            await self._guarded(session, job, {"state": state.value, "lease_owner": ""})
            unanswered = and_(TurnRow.id == job.turn, TurnRow.state == TurnState.ASKED.value)
            await session.execute(update(TurnRow).where(unanswered).values(state=TurnState.FAILED.value))

    async def _disown(self, ids: Collection[int]) -> None:
        async with self.database.write() as session:
            theirs = and_(JobRow.id.in_(ids), JobRow.lease_owner == self.owner)
            await session.execute(update(JobRow).where(theirs).values(lease_owner=""))

    async def _note(self, messages: Sequence[_Message]) -> list[LeaseLost | None]:
        async with self.database.write() as session:
            return [await self._noted(session, message) for message in messages]

    async def _noted(self, session: AsyncSession, message: _Message) -> LeaseLost | None:
        job = message.job
        ended = {"state": JobState.DONE.value, "lease_owner": ""} if message.last else {"lease_owner": self.owner}
        try:
            await self._guarded(session, job, ended)
        except LeaseLost as lost:
            return lost  # It has written nothing, and the others' messages are none of its business.
        values = {"message_id": message.id} | ({"delivered": True} if message.delivered else {})
        await _put(session, job, message.part, values)
        return None

    async def _abandon(self, platform: str) -> list[str]:
        here = select(InboxRow.id).where(InboxRow.platform == platform)
        ended = {"state": JobState.DONE.value, "ending": Ending.INTERRUPTED.value, "lease_owner": ""}
        async with self.database.write() as session:
            gone = update(JobRow).where(JobRow.state.in_(OPEN), JobRow.inbox_id.in_(here)).values(ended)
            turns = [turn for turn in await session.scalars(gone.returning(JobRow.turn_id)) if turn is not None]
            unanswered = and_(TurnRow.id.in_(turns), TurnRow.state == TurnState.ASKED.value)
            lost = await session.execute(
                update(TurnRow)
                .where(unanswered)
                .values(state=TurnState.FAILED.value)
                .returning(TurnRow.id, TurnRow.typed)
            )
            return [typed for _, typed in sorted(lost.all())]

    def _mine(self, job: Job) -> ColumnElement[bool]:
        return and_(JobRow.id == job.id, JobRow.fence == job.fence, JobRow.lease_owner == self.owner)


async def _put(session: AsyncSession, job: Job, part: int, values: dict[str, Any]) -> None:
    """Changes what is kept of a message of ours, or begins to keep it: while an answer grows, so do its parts."""
    this = and_(PartRow.job_id == job.id, PartRow.part == part)
    if await session.scalar(update(PartRow).where(this).values(values).returning(PartRow.id)) is None:
        session.add(new_part(job.id, part, job.key, **values))


async def _values(session: AsyncSession, which: ColumnElement[bool]) -> list[Job]:
    rows = select(JobRow, InboxRow).join(InboxRow, InboxRow.id == JobRow.inbox_id).where(which).order_by(JobRow.id)
    found = (await session.execute(rows)).all()
    parts: dict[int, list[PartRow]] = {}
    wanted = select(PartRow).where(PartRow.job_id.in_([job.id for job, _ in found])).order_by(PartRow.part)
    for part in await session.scalars(wanted):
        parts.setdefault(part.job_id, []).append(part)
    return [job_value(job, inbox, parts.get(job.id, [])) for job, inbox in found]


def _old_and_without_a_job() -> Delete:
    """Removes what was kept of messages that were deleted, most of them never for us, and of forgotten ones."""
    old = InboxRow.received_at < datetime.now(UTC) - timedelta(days=KNOWN_DAYS)
    return delete(InboxRow).where(old, ~exists().where(JobRow.inbox_id == InboxRow.id))
