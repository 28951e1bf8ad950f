"""What a channel asks by the names that the platform gives it, and what it notes down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.ports import StoredTurn, ThreadKey, TurnState
from adapters.store.database import Database
from adapters.store.job_rows import is_question, thread_of
from adapters.store.models import FeedbackRow, InboxRow, JobRow, MarkRow, PartRow, ThreadRow, TurnRow
from adapters.store.rows import stored_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A turn, and where it is."""

    thread: ThreadKey
    turn: StoredTurn


class SqlLookups:
    """Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def conversation_of(self, platform: str, message_id: str) -> ThreadKey | None:
        """The conversation in which a message of ours is."""
        return await self.database.run(self._conversation_of(platform, message_id))

    async def turn_of(self, key: str) -> Found | None:
        """The turn that our messages with `Post.key` answer; None if it is forgotten or deleted."""
        return await self.database.run(self._turn_of(key))

    async def key_of(self, turn: int) -> str | None:
        """The `Post.key` of our messages for a turn."""
        return await self.database.run(self._key_of(turn))

    async def turn_around(self, platform: str, ours: str, asked: str) -> Found | None:
        """The turn whose answer our message `ours` shows, or whose question is the message `asked`: the first
        time, if it was asked again."""
        return await self.database.run(self._turn_around(platform, ours, asked))

    async def latest_by(self, channel: ThreadKey, person: str) -> Found | None:
        """The newest turn of a person in a channel, whatever the thread that `channel` names."""
        return await self.database.run(self._latest_by(channel, person))

    async def rate(self, key: str, person: str, *, helpful: bool) -> bool:
        """Stores what a person thinks of an answer, over what they said before; False if it is gone."""
        return await self.database.run(self._rate(key, person, helpful=helpful))

    async def heard_until(self, platform: str) -> datetime | None:
        """Up to when everything on a platform has been heard; None: never yet."""
        return await self.database.run(self._heard_until(platform))

    async def mark(self, platform: str, at: datetime) -> None:
        """Everything on the platform has been heard up to `at`."""
        await self.database.run(self._mark(platform, at))

    async def _conversation_of(self, platform: str, message_id: str) -> ThreadKey | None:
        ours = (
            select(InboxRow)
            .join(JobRow, JobRow.inbox_id == InboxRow.id)
            .join(PartRow, PartRow.job_id == JobRow.id)
            .where(InboxRow.platform == platform, PartRow.message_id == message_id)
        )
        async with self.database.read() as session:
            row = await session.scalar(ours.limit(1))
            return thread_of(row) if row is not None else None

    async def _turn_of(self, key: str) -> Found | None:
        async with self.database.read() as session:
            found = await _by_key(session, key)
            if found is None:
                return None
            inbox, turn = found
            return Found(thread=thread_of(inbox), turn=stored_turn(turn))

    async def _key_of(self, turn: int) -> str | None:
        of = select(PartRow.key).join(JobRow, JobRow.id == PartRow.job_id).where(JobRow.turn_id == turn)
        async with self.database.read() as session:
            return await session.scalar(of.limit(1))

    async def _turn_around(self, platform: str, ours: str, asked: str) -> Found | None:
        rows = (
            _turns()
            .where(InboxRow.platform == platform)
            .where(or_(PartRow.message_id == ours, is_question(asked)))
            .order_by(TurnRow.id)
        )
        async with self.database.read() as session:
            found = (await session.execute(rows.limit(1))).first()
            return Found(thread=thread_of(found[0]), turn=stored_turn(found[1])) if found is not None else None

    async def _latest_by(self, channel: ThreadKey, person: str) -> Found | None:
        theirs = (
            select(TurnRow, ThreadRow)
            .join(ThreadRow, ThreadRow.id == TurnRow.thread_id)
            .where(
                ThreadRow.platform == channel.platform,
                ThreadRow.workspace == channel.workspace,
                ThreadRow.channel == channel.channel,
                TurnRow.author_id == person,
                TurnRow.state != TurnState.DELETED.value,
            )
        )
        async with self.database.read() as session:
            found = (await session.execute(theirs.order_by(TurnRow.id.desc()).limit(1))).first()
            if found is None:
                return None
            turn, row = found
            key = ThreadKey(platform=row.platform, workspace=row.workspace, channel=row.channel, thread=row.thread)
            return Found(thread=key, turn=stored_turn(turn))

    async def _rate(self, key: str, person: str, *, helpful: bool) -> bool:
        async with self.database.write() as session:
            found = await _by_key(session, key)
            if found is None:
                return False
            mine = (FeedbackRow.turn_id == found[1].id, FeedbackRow.person == person)
            row = await session.scalar(select(FeedbackRow).where(*mine))
            if row is None:
                row = FeedbackRow(turn_id=found[1].id, person=person)
                session.add(row)
            row.helpful, row.at = helpful, datetime.now(UTC)
            return True

    async def _heard_until(self, platform: str) -> datetime | None:
        async with self.database.read() as session:
            return await session.scalar(select(MarkRow.at).where(MarkRow.platform == platform))

    async def _mark(self, platform: str, at: datetime) -> None:
        async with self.database.write() as session:
            row = await session.scalar(select(MarkRow).where(MarkRow.platform == platform))
            if row is None:
                row = MarkRow(platform=platform)
                session.add(row)
            row.at = at


def _turns() -> Select[InboxRow, TurnRow]:
    return (
        select(InboxRow, TurnRow)
        .join(JobRow, JobRow.inbox_id == InboxRow.id)
        .join(TurnRow, TurnRow.id == JobRow.turn_id)
        .join(PartRow, PartRow.job_id == JobRow.id)
        .where(TurnRow.state != TurnState.DELETED.value)
    )


async def _by_key(session: AsyncSession, key: str) -> tuple[InboxRow, TurnRow] | None:
    found = (await session.execute(_turns().where(PartRow.key == key).limit(1))).first()
    return (found[0], found[1]) if found is not None else None
