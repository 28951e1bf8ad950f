"""What a conversation holds for a prompt, inside a transaction."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.ports import Memory, ThreadKey, TurnState
from adapters.store.models import ThreadRow, TurnRow
from adapters.store.rows import remembered


def is_thread(thread: ThreadKey) -> ColumnElement[bool]:
    """The row of a conversation."""
    return and_(
        ThreadRow.platform == thread.platform,
        ThreadRow.workspace == thread.workspace,
        ThreadRow.channel == thread.channel,
        ThreadRow.thread == thread.thread,
    )


def uncovered(row: ThreadRow) -> ColumnElement[bool]:
    """The pairs of a conversation that its summary does not cover."""
    return and_(
        TurnRow.thread_id == row.id,
        TurnRow.seq > row.summary_seq,
        TurnRow.state.in_((TurnState.ANSWERED.value, TurnState.INCOMPLETE.value)),
        TurnRow.answered != "",
    )


async def memory_of(session: AsyncSession, row: ThreadRow, before: int, limit: int) -> Memory:
    """The summary of a conversation and its newest `limit` pairs before place `before`."""
    pairs = select(TurnRow).where(uncovered(row), TurnRow.seq < before)
    newest = pairs.order_by(TurnRow.seq.desc()).limit(max(limit, 0))
    turns = tuple(remembered(turn) for turn in await session.scalars(newest))[::-1]
    return Memory(turns=turns, summary=row.summary)
