"""The `ConversationStore` over SQL. Every method is one transaction; none is open between two calls."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import ColumnElement, and_, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from adapters.ports import Backlog, Inbound, Memory, StoredTurn, ThreadInfo, ThreadKey, TurnState
from adapters.store.database import BUSY_TIMEOUT, Database
from adapters.store.faults import backups_of
from adapters.store.files import prepare
from adapters.store.models import ThreadRow, TurnRow
from adapters.store.rows import new_thread, new_turn, remembered, settled, stored_turn
from core.errors import ThreadwiseError
from core.types import Answer

ATTEMPTS = 5


class SqlConversationStore:
    """The memory of conversations. Open it with `open`, and close it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    async def open(cls, path: Path | str, *, busy_timeout: float = BUSY_TIMEOUT) -> SqlConversationStore:
        """The store in the file `path`, created or migrated if need be; `DataDirError` if it cannot be used."""
        database = Database(await asyncio.to_thread(prepare, Path(path), busy_timeout), busy_timeout)
        try:
            await database.connect()
        except BaseException:  # cancelled as well: nobody else knows of these connections
            await database.close()
            raise
        return cls(database)

    async def close(self) -> None:
        """Ends what is being written, then lets go of the file. May be called twice."""
        await self.database.close()

    async def ask(self, inbound: Inbound) -> int | None:
        """Stores the question, in the order of calls; its turn id, or None if the message is known."""
        return await self.database.run(self._ask(inbound))

    async def finish(self, turn_id: int, answer: Answer, state: TurnState) -> None:
        """Stores what was searched, answered, cited and degraded, in one transaction.

        Raises `ThreadwiseError` when there is no such turn: its conversation was forgotten meanwhile.
        """
        await self.database.run(self._finish(turn_id, answer, state))

    async def history(self, thread: ThreadKey, before: int, limit: int) -> Memory:
        """What the thread holds before turn id `before`: its summary and the newest `limit` pairs after that."""
        return await self.database.run(self._history(thread, before, limit))

    async def backlog(self, thread: ThreadKey) -> Backlog | None:
        """What the summary of the thread does not cover; None if there is no such thread."""
        return await self.database.run(self._backlog(thread))

    async def condense(self, backlog: Backlog, upto: int, summary: str) -> bool:
        """Puts `summary` in the place of the backlog's and its watermark at `upto`, in one transaction.

        False, and nothing is changed, if the watermark has moved or the conversation was forgotten since.
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

    async def recover(self) -> int:
        """Marks the turns that a killed process left unanswered as failed; how many. For the start only."""
        return await self.database.run(self._recover())

    async def _ask(self, inbound: Inbound) -> int | None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self.database.write() as session:
                    return await _insert(session, inbound)
            except IntegrityError:
                # Another process was faster, with this message or this place in the thread. Look again.
                # SQLite, where a writer is alone, never gets here.
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _finish(self, turn_id: int, answer: Answer, state: TurnState) -> None:
        values = settled(answer, state, datetime.now(UTC))
        async with self.database.write() as session:
            found = await session.scalar(
                update(TurnRow).where(TurnRow.id == turn_id).values(**values).returning(TurnRow.id)
            )
            if found is None:
                raise ThreadwiseError(f"turn {turn_id} is not in the store: its conversation was forgotten")

    async def _history(self, thread: ThreadKey, before: int, limit: int) -> Memory:
        async with self.database.read() as session:
            row = await session.scalar(select(ThreadRow).where(_is(thread)))
            if row is None:
                return Memory()
            pairs = select(TurnRow).where(_uncovered(row), TurnRow.id < before)
            newest = pairs.order_by(TurnRow.seq.desc()).limit(max(limit, 0))
            turns = tuple(remembered(turn) for turn in await session.scalars(newest))[::-1]
            return Memory(turns=turns, summary=row.summary)

    async def _backlog(self, thread: ThreadKey) -> Backlog | None:
        async with self.database.read() as session:
            row = await session.scalar(select(ThreadRow).where(_is(thread)))
            if row is None:
                return None
            pairs = select(TurnRow).where(_uncovered(row)).order_by(TurnRow.seq)
            turns = tuple((turn.seq, remembered(turn)) for turn in await session.scalars(pairs))
            return Backlog(conversation=row.id, summary=row.summary, covered=row.summary_seq, turns=turns)

    async def _condense(self, backlog: Backlog, upto: int, summary: str) -> bool:
        unmoved = and_(ThreadRow.id == backlog.conversation, ThreadRow.summary_seq == backlog.covered)
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
        rows = select(TurnRow).join(ThreadRow, ThreadRow.id == TurnRow.thread_id).where(_is(thread))
        order = TurnRow.seq if newest is None else TurnRow.seq.desc()
        rows = rows.order_by(order).limit(newest)
        async with self.database.read() as session:
            return [stored_turn(row) for row in await session.scalars(rows)]

    async def _forget(self, thread: ThreadKey) -> int:
        async with self.database.write() as session:
            thread_id = await session.scalar(select(ThreadRow.id).where(_is(thread)))
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

    async def _recover(self) -> int:
        async with self.database.write() as session:
            lost = await session.scalars(
                update(TurnRow)
                .where(TurnRow.state == TurnState.ASKED.value)
                .values(state=TurnState.FAILED.value)
                .returning(TurnRow.id)
            )
            return len(lost.all())


async def _insert(session: AsyncSession, inbound: Inbound) -> int | None:
    if await _known(session, inbound):
        return None
    thread = await session.scalar(select(ThreadRow).where(_is(inbound.thread)))
    if thread is None:
        thread = new_thread(inbound.thread, created_at=inbound.sent_at)
        session.add(thread)
        await session.flush()
    last = await session.scalar(select(func.max(TurnRow.seq)).where(TurnRow.thread_id == thread.id))
    turn = new_turn(inbound, thread.id, seq=(last or 0) + 1)
    session.add(turn)
    await session.flush()
    return turn.id


async def _known(session: AsyncSession, inbound: Inbound) -> bool:
    found = await session.scalar(
        select(TurnRow.id).where(
            TurnRow.platform == inbound.thread.platform,
            TurnRow.workspace == inbound.thread.workspace,
            TurnRow.channel == inbound.thread.channel,
            TurnRow.message_id == inbound.message_id,
        )
    )
    return found is not None


def _uncovered(row: ThreadRow) -> ColumnElement[bool]:
    """The pairs of a conversation that its summary does not cover."""
    return and_(
        TurnRow.thread_id == row.id,
        TurnRow.seq > row.summary_seq,
        TurnRow.state.in_((TurnState.ANSWERED.value, TurnState.INCOMPLETE.value)),
        TurnRow.answered != "",
    )


def _is(thread: ThreadKey) -> ColumnElement[bool]:
    return and_(
        ThreadRow.platform == thread.platform,
        ThreadRow.workspace == thread.workspace,
        ThreadRow.channel == thread.channel,
        ThreadRow.thread == thread.thread,
    )


def _key(row: ThreadRow) -> ThreadKey:
    return ThreadKey(platform=row.platform, workspace=row.workspace, channel=row.channel, thread=row.thread)
