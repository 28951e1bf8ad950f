"""Rows of inbox, jobs and outbox to values, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.jobs import Job, JobState, Part
from adapters.ports import AGAIN, ThreadKey
from adapters.store import ticks
from adapters.store.columns import storable
from adapters.store.models import InboxRow, JobRow, PartRow, TurnRow

Names = tuple[str, ...]
"""The columns that name a thread, or a message, as they are stored."""


def names_of(thread: ThreadKey) -> Names:
    """The columns of a thread, for a query about many."""
    return tuple(map(storable, (thread.platform, thread.workspace, thread.channel, thread.thread)))


def is_in(table: type[InboxRow], thread: ThreadKey) -> ColumnElement[bool]:
    """The messages of a thread."""
    return and_(
        table.platform == thread.platform,
        table.workspace == thread.workspace,
        table.channel == thread.channel,
        table.thread == thread.thread,
    )


async def claims_of(session: AsyncSession, thread: ThreadKey, message_id: str) -> list[InboxRow]:
    """The row of a message, whatever thread it is said to be in, and the rows of when it was asked again."""
    in_channel = and_(
        InboxRow.platform == thread.platform,
        InboxRow.workspace == thread.workspace,
        InboxRow.channel == thread.channel,
    )
    return list(await session.scalars(select(InboxRow).where(in_channel, is_question(message_id))))


def is_question(message_id: str) -> ColumnElement[bool]:
    """Whether what was asked is a message, the first time or again (see `adapters.ports.again`)."""
    again = f"{AGAIN}{message_id}"
    # Not by LIKE, to which "_" is any sign and "a" is "A". What stands before the id keeps longer ids apart.
    ends_so = func.substr(InboxRow.message_id, func.length(InboxRow.message_id) - len(again) + 1) == again
    return or_(InboxRow.message_id == message_id, ends_so)


def thread_of(inbox: InboxRow) -> ThreadKey:
    """Where a message is."""
    return ThreadKey(platform=inbox.platform, workspace=inbox.workspace, channel=inbox.channel, thread=inbox.thread)


def key_of(inbox: InboxRow) -> str:
    """Names the message, the same in every database."""
    names = "\n".join((inbox.platform, inbox.workspace, inbox.channel, inbox.message_id))
    return hashlib.sha256(storable(names).encode()).hexdigest()[:16]


def new_inbox(thread: ThreadKey, message_id: str, order: str = "") -> InboxRow:
    """The row of a message that is known from now on."""
    return InboxRow(
        platform=thread.platform,
        workspace=thread.workspace,
        channel=thread.channel,
        thread=thread.thread,
        message_id=message_id,
        order_key=order,
        received_at=datetime.now(UTC),
    )


def new_job(inbox: InboxRow, turn: TurnRow | None, *, asker: str, owner: str, lease: float) -> JobRow:
    """The row of a job that is admitted now, in the hands of `owner`."""
    now = ticks.now()
    return JobRow(
        inbox_id=inbox.id,
        turn_id=turn.id if turn else None,
        asker=asker,
        state=JobState.QUEUED.value,
        attempts=0,
        fence=1,
        lease_owner=owner,
        lease_boot=ticks.boot(),
        lease_until=now + lease,
        boot=ticks.boot(),
        ticks=now,
    )


def new_part(
    job_id: int,
    number: int,
    key: str,
    body: str | None = None,
    *,
    message_id: str | None = None,
    delivered: bool = False,
) -> PartRow:
    """The row of a message of ours; without an id it does not exist yet."""
    return PartRow(job_id=job_id, part=number, key=key, body=body, message_id=message_id, delivered=delivered)


def job_value(job: JobRow, inbox: InboxRow, parts: Sequence[PartRow]) -> Job:
    """The rows as a value."""
    return Job(
        id=job.id,
        fence=job.fence,
        thread=thread_of(inbox),
        message_id=inbox.message_id,
        key=key_of(inbox),
        asker=job.asker,
        turn=job.turn_id,
        state=JobState(job.state),
        attempts=job.attempts,
        age=ticks.age(job.boot, job.ticks, inbox.received_at, datetime.now(UTC)),
        parts=tuple(
            Part(number=part.part, message_id=part.message_id, body=part.body, delivered=part.delivered)
            for part in parts
        ),
    )
