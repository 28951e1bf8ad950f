"""Questions that their askers edit or delete: the memory follows, the summary too, and the bytes on the disk."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from sqlalchemy import Text, cast, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.jobs import OPEN, Deleted, Edited, Ending, JobState
from adapters.ports import Inbound, Readers, ThreadKey, TurnState
from adapters.store.database import Database
from adapters.store.faults import backups_of
from adapters.store.job_rows import claims_of, new_inbox, thread_of
from adapters.store.models import FactRow, InboxRow, JobRow, PartRow, ThreadRow, TurnRow
from adapters.store.window import is_thread
from core.errors import DataDirError

log = logging.getLogger(__name__)


class SqlChanges:
    """What becomes of stored questions. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def delete(self, thread: ThreadKey, message_id: str) -> Deleted | None:
        """Removes a question from the memory, however often it was asked; None if it is not known.

        Its jobs, if they are open, are taken from whoever has them and left for somebody to remove our messages. A
        message that comes after its deletion is known, and so never answered.
        """
        found = await self.database.run(self._delete(thread, message_id))
        if found is not None:
            try:
                await self.database.run(self._wipe())
            except DataDirError as error:
                log.warning("A deleted question is still in the log of the database: %s", error)
        return found

    async def reset(self, thread: ThreadKey) -> None:
        """Later prompts hold nothing of what was said so far; it stays stored."""
        await self.database.run(self._reset(thread))

    async def edit(self, inbound: Inbound) -> Edited:
        """Puts the text of `inbound` in the place of the one it had before, however often it was asked."""
        return await self.database.run(self._edit(inbound))

    async def _delete(self, thread: ThreadKey, message_id: str) -> Deleted | None:
        async with self.database.write() as session:
            claims = await claims_of(session, thread, message_id)
            if all(claim.message_id != message_id for claim in claims):
                session.add(new_inbox(thread, message_id))
                await _unhear(session, thread, message_id)
            remembered = [thread_of(claim) for claim in claims if await _remove(session, claim)]
            return Deleted(remembered=frozenset(remembered)) if claims else None

    async def _reset(self, thread: ThreadKey) -> None:
        async with self.database.write() as session:
            row = await session.scalar(select(ThreadRow).where(is_thread(thread)))
            if row is not None:
                last = await session.scalar(select(func.max(TurnRow.seq)).where(TurnRow.thread_id == row.id))
                row.summary, row.summary_seq, row.begins_after = "", last or 0, last or 0
                row.revision += 1

    async def _edit(self, inbound: Inbound) -> Edited:
        async with self.database.write() as session:
            claims = await claims_of(session, inbound.thread, inbound.message_id)
            outcomes = {await _replace(session, claim, inbound) for claim in claims}
            # Of those that differ, the one after which there is most to do.
            return next((edited for edited in reversed(Edited) if edited in outcomes), Edited.UNKNOWN)

    async def _wipe(self) -> None:
        for backup in await asyncio.to_thread(backups_of, self.database.path):
            backup.unlink(missing_ok=True)
        await self.database.empty_log()


async def _remove(session: AsyncSession, claim: InboxRow) -> bool:
    """Leaves nothing of a question; whether it had an answer."""
    job = await session.scalar(select(JobRow).where(JobRow.inbox_id == claim.id))
    turn = await _turn_of(session, claim)
    if job is not None:
        job.asker = ""
        await session.execute(update(PartRow).where(PartRow.job_id == job.id).values(body=None))
        if job.state in OPEN:
            job.state, job.ending = JobState.REMOVING.value, Ending.DELETED.value
            job.fence, job.lease_owner = job.fence + 1, ""
    if turn is None:
        return False
    remembered = turn.answered != ""
    await _take_out(session, turn)
    await _forget_facts(session, turn)
    turn.state = TurnState.DELETED.value
    turn.typed = turn.answered = turn.author_id = turn.author = turn.query_reason = ""
    turn.citations, turn.degraded, turn.heard, turn.unread = [], [], [], []
    return remembered


async def _replace(session: AsyncSession, claim: InboxRow, inbound: Inbound) -> Edited:
    """Puts the text of `inbound` into the turn of a question."""
    turn = await _turn_of(session, claim)
    if turn is None or turn.state == TurnState.DELETED.value:
        return Edited.UNKNOWN
    if turn.typed == inbound.text:
        return Edited.UNCHANGED
    job = await session.scalar(select(JobRow).where(JobRow.inbox_id == claim.id))
    turn.typed, turn.edited_at = inbound.text, datetime.now(UTC)
    if inbound.readers is Readers.UNKNOWN:
        # Never the other way: who asked to be forgotten is not remembered after an edit.
        turn.readers = Readers.UNKNOWN.value
    if job is not None and job.state == JobState.QUEUED:
        return Edited.REPLACED
    await _take_out(session, turn)
    await _forget_facts(session, turn)
    return Edited.STORED


async def _turn_of(session: AsyncSession, claim: InboxRow) -> TurnRow | None:
    """The turn of a message: also of one from before there were jobs."""
    return await session.scalar(
        select(TurnRow).where(
            TurnRow.platform == claim.platform,
            TurnRow.workspace == claim.workspace,
            TurnRow.channel == claim.channel,
            TurnRow.message_id == claim.message_id,
        )
    )


async def _unhear(session: AsyncSession, thread: ThreadKey, message_id: str) -> None:
    """Of a message that was no question: the turns after it may hold it."""
    may_hold = select(TurnRow).where(
        TurnRow.platform == thread.platform,
        TurnRow.workspace == thread.workspace,
        TurnRow.channel == thread.channel,
        cast(TurnRow.heard, Text).contains(message_id, autoescape=True),
    )
    for turn in (await session.scalars(may_hold)).all():
        turn.heard = [aside for aside in turn.heard if aside["message_id"] != message_id]
        await _take_out(session, turn)


async def _take_out(session: AsyncSession, turn: TurnRow) -> None:
    """Nothing that was made of the old words is used again. A summary that covers them is made anew."""
    turn.searched = ""
    thread = await session.get_one(ThreadRow, turn.thread_id)
    thread.revision += 1
    if thread.summary_seq >= turn.seq:
        thread.summary_seq, thread.summary = 0, ""


async def _forget_facts(session: AsyncSession, turn: TurnRow) -> None:
    """What the turn's asker said of themselves in it."""
    await session.execute(delete(FactRow).where(FactRow.turn_id == turn.id))
