"""Messages become rows: inbox, turn, job and outbox together, many messages in one transaction.

A crowd that asks in one moment must be on the disk within seconds. A transaction for each message would take ten round
trips to the driver's thread and a sync of the disk each; here a whole batch takes as many as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from sqlalchemy import and_, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.jobs import Ending, Job, JobState
from adapters.ports import AGAIN, Inbound, Readers, TurnState
from adapters.store.columns import storable
from adapters.store.job_rows import Names, job_value, key_of, names_of, new_inbox, new_job, new_part
from adapters.store.models import InboxRow, JobRow, ThreadRow, TurnRow
from adapters.store.rows import new_thread, new_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A message that is to be taken."""

    inbound: Inbound
    refusal: Sequence[str] | None = None
    """The bodies of the notice that it is refused with, none for silence. None: it is accepted."""


async def admit(session: AsyncSession, admissions: Sequence[Admission], owner: str, lease: float) -> list[Job | None]:
    """The jobs of the messages, in the hands of `owner`; None for each message that is known, or repeats one that was
    deleted."""
    known = await _known(session, admissions)
    first: dict[Names, Admission] = {}
    for admission in admissions:
        if (message := _message(admission.inbound)) not in known:
            first.setdefault(message, admission)
    now = {message: await _as_it_reads_now(session, admission) for message, admission in first.items()}
    new = {message: admission for message, admission in now.items() if admission is not None}
    jobs = await _insert(session, list(new.values()), owner, lease)
    made = dict(zip(new, jobs, strict=True))
    # Of a message that is in the batch twice, the first one has the job.
    return [made.get(message) if first.get(message := _message(a.inbound)) is a else None for a in admissions]


async def _as_it_reads_now(session: AsyncSession, admission: Admission) -> Admission | None:
    """What is asked again was read before: meanwhile it may have been edited, its author may have been forgotten, or it
    was deleted. None if it was."""
    inbound = admission.inbound
    _, is_again, asked = inbound.message_id.rpartition(AGAIN)
    if not is_again:
        return admission
    names = dict(zip(("platform", "workspace", "channel", "message_id"), _message(inbound, asked), strict=True))
    turn = await session.scalar(select(TurnRow).filter_by(**names))
    if turn is None:
        inbox = await session.scalar(select(InboxRow).filter_by(**names))
        # A deletion leaves the row of its message, without a job or without its asker.
        jobs = select(JobRow.id).where(JobRow.inbox_id == inbox.id, JobRow.asker != "") if inbox is not None else None
        return None if jobs is not None and await session.scalar(jobs) is None else admission
    if turn.state == TurnState.DELETED.value:
        return None
    text = turn.typed if turn.edited_at is not None else inbound.text
    readers = Readers.UNKNOWN if turn.readers == Readers.UNKNOWN.value else inbound.readers
    return replace(admission, inbound=replace(inbound, text=text, readers=readers))


async def _known(session: AsyncSession, admissions: Iterable[Admission]) -> set[Names]:
    columns = (InboxRow.platform, InboxRow.workspace, InboxRow.channel, InboxRow.message_id)
    messages = {_message(admission.inbound) for admission in admissions}
    return {tuple(row) for row in await session.execute(select(*columns).where(tuple_(*columns).in_(messages)))}


async def _insert(session: AsyncSession, admissions: Sequence[Admission], owner: str, lease: float) -> list[Job]:
    if not admissions:
        return []
    inboxes = [new_inbox(a.inbound.thread, a.inbound.message_id, a.inbound.order) for a in admissions]
    session.add_all(inboxes)
    turns = await _turns(session, [a.inbound for a in admissions if a.refusal is None])
    await session.flush()
    jobs = []
    for admission, inbox in zip(admissions, inboxes, strict=True):
        turn = turns.get(_message(admission.inbound))
        job = new_job(inbox, turn, asker=admission.inbound.author_id, owner=owner, lease=lease)
        if admission.refusal is not None:
            job.state = (JobState.DELIVERING if admission.refusal else JobState.DONE).value
            job.ending = Ending.REFUSED.value
        jobs.append(job)
    session.add_all(jobs)
    await session.flush()
    parts = []
    for admission, inbox, job in zip(admissions, inboxes, jobs, strict=True):
        bodies: Sequence[str | None] = [None] if admission.refusal is None else admission.refusal
        parts.append([new_part(job.id, number, key_of(inbox), body) for number, body in enumerate(bodies)])
    session.add_all(part for theirs in parts for part in theirs)
    return [job_value(job, inbox, theirs) for job, inbox, theirs in zip(jobs, inboxes, parts, strict=True)]


async def _turns(session: AsyncSession, inbounds: Sequence[Inbound]) -> dict[Names, TurnRow]:
    """The turns of the questions, each at its place in its thread."""
    threads = await _threads(session, inbounds)
    last = select(TurnRow.thread_id, func.max(TurnRow.seq)).group_by(TurnRow.thread_id)
    ids = [thread.id for thread in threads.values()]
    ends = {row[0]: row[1] for row in await session.execute(last.where(TurnRow.thread_id.in_(ids)))}
    made = {}
    # Of a batch, too, the platform's order counts; those without one keep the order of arrival.
    for inbound in sorted(inbounds, key=attrgetter("order")):
        thread = threads[names_of(inbound.thread)]
        place = await _make_room(session, thread.id, inbound.order) if thread.id in ends and inbound.order else None
        if place is None:
            place = ends.get(thread.id, 0) + 1
        ends[thread.id] = ends.get(thread.id, 0) + 1
        session.add(turn := new_turn(inbound, thread.id, place))
        made[_message(inbound)] = turn
    return made


async def _threads(session: AsyncSession, inbounds: Sequence[Inbound]) -> dict[Names, ThreadRow]:
    """The conversations that the questions belong to, begun if need be."""
    columns = (ThreadRow.platform, ThreadRow.workspace, ThreadRow.channel, ThreadRow.thread)
    wanted = {names_of(inbound.thread): inbound for inbound in reversed(inbounds)}
    rows = await session.scalars(select(ThreadRow).where(tuple_(*columns).in_(list(wanted))))
    threads = {(row.platform, row.workspace, row.channel, row.thread): row for row in rows}
    missing = {
        names: new_thread(inbound.thread, created_at=inbound.sent_at)
        for names, inbound in wanted.items()
        if names not in threads
    }
    session.add_all(missing.values())
    await session.flush()
    return threads | missing


async def _make_room(session: AsyncSession, thread_id: int, order: str) -> int | None:
    """The place before the questions that wait and were sent later; None if there are none."""
    waits = and_(TurnRow.thread_id == thread_id, JobRow.state == JobState.QUEUED)
    later = and_(waits, InboxRow.order_key > literal(order))
    first = select(func.min(TurnRow.seq)).join(JobRow, JobRow.turn_id == TurnRow.id)
    place = await session.scalar(first.join(InboxRow, InboxRow.id == JobRow.inbox_id).where(later))
    if place is None:
        return None
    moved = select(TurnRow).join(JobRow, JobRow.turn_id == TurnRow.id).where(waits, TurnRow.seq >= place)
    for turn in (await session.scalars(moved.order_by(TurnRow.seq.desc()))).all():
        # One by one from the end: no two turns may have the same place at any moment.
        turn.seq += 1
        await session.flush()
    return int(place)


def _message(inbound: Inbound, message_id: str | None = None) -> Names:
    """The names of the message, or of another one in its channel."""
    thread, id_ = inbound.thread, inbound.message_id if message_id is None else message_id
    return tuple(map(storable, (thread.platform, thread.workspace, thread.channel, id_)))
