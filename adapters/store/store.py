"""The memory of conversations over SQL. Every method is one transaction; none is open between two calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sqlalchemy import and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from adapters.jobs import OPEN, Ending, JobState
from adapters.ports import Backlog, StoredTurn, ThreadInfo, ThreadKey
from adapters.store.changes import SqlChanges
from adapters.store.database import BUSY_TIMEOUT, Database
from adapters.store.facts import SqlFacts
from adapters.store.faults import backups_of
from adapters.store.files import prepare
from adapters.store.installations import SqlInstallations
from adapters.store.job_rows import is_in
from adapters.store.jobs import LEASE_SECONDS, SqlJobs
from adapters.store.lookups import SqlLookups
from adapters.store.models import InboxRow, JobRow, PartRow, ThreadRow, TurnRow
from adapters.store.rows import remembered, stored_turn
from adapters.store.window import is_thread, names_in, uncovered


class SqlConversationStore:
    """The memory of conversations. Open it with `open`, and close it."""

    def __init__(self, database: Database, lease_seconds: float = LEASE_SECONDS) -> None:
        self.database = database
        self.jobs = SqlJobs(database, lease_seconds)
        self.changes = SqlChanges(database)
        self.lookups = SqlLookups(database)
        self.facts = SqlFacts(database)
        self.installations = SqlInstallations(database)

    @classmethod
    async def open(
        cls, path: Path | str, *, busy_timeout: float = BUSY_TIMEOUT, lease_seconds: float = LEASE_SECONDS
    ) -> SqlConversationStore:
        """The store in the file `path`, created or migrated if need be; `DataDirError` if it cannot be used."""
        database = Database(await asyncio.to_thread(prepare, Path(path), busy_timeout), busy_timeout)
        try:
            await database.connect()
        except BaseException:  # cancelled as well: nobody else knows of these connections
            await database.close()
            raise
        return cls(database, lease_seconds)

    async def close(self) -> None:
        """Ends what is being written, then lets go of the file. May be called twice."""
        await self.database.close()

    async def backlog(self, thread: ThreadKey) -> Backlog | None:
        """What the summary of the thread does not cover; None if there is no such thread."""
        return await self.database.run(self._backlog(thread))

    async def condense(self, backlog: Backlog, upto: int, summary: str) -> bool:
        """Puts `summary` in the place of the backlog's and its watermark at `upto`, in one transaction.

        False, and nothing is changed, if the watermark has moved since, or something was deleted or edited.
        """
        return await self.database.run(self._condense(backlog, upto, summary))

    async def threads(self, platform: str, limit: int) -> list[ThreadInfo]:
        """The conversations on a platform, the one with the newest question first."""
        return await self.database.run(self._threads(platform, limit))

    async def turns(self, thread: ThreadKey) -> list[StoredTurn]:
        """The whole conversation, oldest turn first, whatever became of each."""
        return await self.database.run(self._turns(thread))

    async def last_turn(self, thread: ThreadKey) -> StoredTurn | None:
        """The newest turn of the conversation, whatever became of it."""
        turns = await self.database.run(self._turns(thread, newest=1))
        return turns[0] if turns else None

    async def forget(self, thread: ThreadKey) -> int:
        """Removes the conversation, also from the bytes on the disk; the number of turns removed.

        Backups from before a migration hold it as well, and go.
        """
        return await self.database.run(self._forget(thread))

    async def abandon(self, platform: str) -> list[str]:
        """Ends what a killed process left unanswered on a platform that does not go on; the questions, oldest first."""
        return await self.jobs.abandon(platform)

    async def _backlog(self, thread: ThreadKey) -> Backlog | None:
        async with self.database.read() as session:
            row = await session.scalar(select(ThreadRow).where(is_thread(thread)))
            if row is None:
                return None
            pairs = select(TurnRow).where(uncovered(row)).order_by(TurnRow.seq)
            names = await names_in(session, row.id)
            turns = tuple((turn.seq, remembered(turn, names)) for turn in await session.scalars(pairs))
            return Backlog(
                conversation=row.id, summary=row.summary, revision=row.revision, covered=row.summary_seq, turns=turns
            )

    async def _condense(self, backlog: Backlog, upto: int, summary: str) -> bool:
        unmoved = and_(
            ThreadRow.id == backlog.conversation,
            ThreadRow.summary_seq == backlog.covered,
            ThreadRow.revision == backlog.revision,
        )
        async with self.database.write() as session:
            moved = await session.scalar(
                update(ThreadRow).where(unmoved).values(summary=summary, summary_seq=upto).returning(ThreadRow.id)
            )
            return moved is not None

    async def _threads(self, platform: str, limit: int) -> list[ThreadInfo]:
        # Newest by id, not by clock: clocks jump.
        ends = (
            select(
                TurnRow.thread_id,
                func.min(TurnRow.id).label("first"),
                func.max(TurnRow.id).label("last"),
                func.count().label("turns"),
            )
            .group_by(TurnRow.thread_id)
            .subquery()
        )
        first, last = aliased(TurnRow), aliased(TurnRow)
        rows = (
            select(ThreadRow, first.typed, ends.c.turns, func.coalesce(last.answered_at, last.asked_at))
            .join(ends, ends.c.thread_id == ThreadRow.id)
            .join(first, first.id == ends.c.first)
            .join(last, last.id == ends.c.last)
            .where(ThreadRow.platform == platform)
            .order_by(last.id.desc())
            .limit(max(limit, 0))
        )
        async with self.database.read() as session:
            return [
                ThreadInfo(key=_key(row), title=title, turns=turns, last_at=last_at)
                for row, title, turns, last_at in await session.execute(rows)
            ]

    async def _turns(self, thread: ThreadKey, newest: int | None = None) -> list[StoredTurn]:
        rows = select(TurnRow).join(ThreadRow, ThreadRow.id == TurnRow.thread_id).where(is_thread(thread))
        order = TurnRow.seq if newest is None else TurnRow.seq.desc()
        rows = rows.order_by(order).limit(newest)
        async with self.database.read() as session:
            return [stored_turn(row) for row in await session.scalars(rows)]

    async def _forget(self, thread: ThreadKey) -> int:
        async with self.database.write() as session:
            thread_id = await session.scalar(select(ThreadRow.id).where(is_thread(thread)))
            await _forget_jobs(session, thread)
            rows = delete(TurnRow).where(TurnRow.thread_id == thread_id).returning(TurnRow.id)
            gone = (await session.scalars(rows)).all()
            await session.execute(delete(ThreadRow).where(ThreadRow.id == thread_id))
            if gone:
                # Before the commit: killed in between, the conversation is still there to be forgotten again.
                for backup in await asyncio.to_thread(backups_of, self.database.path):
                    backup.unlink(missing_ok=True)
        # Always, so that forgetting again completes what a reader has held up.
        await self.database.empty_log()
        return len(gone)


async def _forget_jobs(session: AsyncSession, thread: ThreadKey) -> None:
    """Whoever works for the conversation loses the job; what was shown of unfinished answers is to go."""
    jobs = JobRow.inbox_id.in_(select(InboxRow.id).where(is_in(InboxRow, thread)))
    await session.execute(
        update(JobRow)
        .where(jobs, JobRow.state.in_(OPEN))
        .values(state=JobState.REMOVING.value, ending=Ending.DELETED.value, lease_owner="", fence=JobRow.fence + 1)
    )
    await session.execute(update(JobRow).where(jobs).values(asker=""))
    theirs = PartRow.job_id.in_(select(JobRow.id).where(jobs))
    await session.execute(update(PartRow).where(theirs).values(body=None))


def _key(row: ThreadRow) -> ThreadKey:
    return ThreadKey(platform=row.platform, workspace=row.workspace, channel=row.channel, thread=row.thread)
