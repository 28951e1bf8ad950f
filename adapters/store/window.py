"""What a conversation holds for a prompt, inside a transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import ColumnElement, and_, func, select
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
    return and_(_pairs(row), TurnRow.seq > max(row.summary_seq, row.begins_after))


def _pairs(row: ThreadRow) -> ColumnElement[bool]:
    return and_(
        TurnRow.thread_id == row.id,
        TurnRow.state.in_((TurnState.ANSWERED.value, TurnState.INCOMPLETE.value)),
        TurnRow.answered != "",
    )


async def memory_of(session: AsyncSession, row: ThreadRow, before: int, limit: int, names: Mapping[str, str]) -> Memory:
    """The summary of a conversation and its newest `limit` pairs before place `before`."""
    pairs = select(TurnRow).where(uncovered(row), TurnRow.seq < before)
    newest = pairs.order_by(TurnRow.seq.desc()).limit(max(limit, 0))
    turns = tuple(remembered(turn, names) for turn in await session.scalars(newest))[::-1]
    return Memory(turns=turns, summary=row.summary, summarized=await _summarized(session, row))


async def _summarized(session: AsyncSession, row: ThreadRow) -> int:
    if not row.summary:
        return 0
    covered = and_(_pairs(row), TurnRow.seq > row.begins_after, TurnRow.seq <= row.summary_seq)
    return await session.scalar(select(func.count()).select_from(TurnRow).where(covered)) or 0


async def names_in(session: AsyncSession, thread_id: int) -> dict[str, str]:
    """What each person of a conversation is called in it, by id: who came later under the same name gets a number."""
    rows = (
        select(TurnRow.author_id, func.max(TurnRow.author))
        .where(TurnRow.thread_id == thread_id)
        .group_by(TurnRow.author_id)
        .order_by(func.min(TurnRow.id))
    )
    names: dict[str, str] = {}
    bearers: Counter[str] = Counter()
    for author_id, name in await session.execute(rows):
        same = name.strip().casefold()
        bearers[same] += 1
        names[author_id] = name if bearers[same] == 1 else f"{name.strip()} ({bearers[same]})"
    return names
