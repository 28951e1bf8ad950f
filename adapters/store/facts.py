"""What people said of themselves: scoped to person and workspace, told only where those who read it could read it.

Every method is one transaction. All that decides whose facts a prompt may hold is in `_told`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, select, true, update

from adapters.ports import Fact, Person, Readers, TurnState
from adapters.store.database import Database
from adapters.store.faults import backups_of
from adapters.store.models import FactRow, TurnRow

MOST_FACTS: Final = 50
"""Of a person in a workspace; the oldest go first."""
_ANSWERED: Final = (TurnState.ANSWERED.value, TurnState.INCOMPLETE.value)


class SqlFacts:
    """The facts about all people."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def statement(self, turn: int) -> str | None:
        """The asker's own words of an answered question; None if nothing of it is to be remembered."""
        return await self.database.run(self._statement(turn))

    async def add(self, turn: int, statement: str, facts: Sequence[Fact]) -> int:
        """Stores facts of the turn's asker; how many. None of them if the turn was deleted, or says something else
        than `statement` now, or its asker wants to be forgotten."""
        return await self.database.run(self._add(turn, statement, facts))

    async def told(self, turn: int) -> list[Fact]:
        """Newest first, those of the turn's asker that everybody who reads its answer may know."""
        return await self.database.run(self._told(turn))

    async def of(self, person: Person) -> dict[int, str]:
        """All facts about a person, newest first, for their eyes alone; by numbers that stay while the facts do."""
        return await self.database.run(self._of(person))

    async def forget(self, person: Person, number: int | None = None) -> tuple[str, ...]:
        """Removes all facts about a person, or one of them, also from the bytes on the disk; what they were.

        It does not come back from what they have said up to now.
        """
        return await self.database.run(self._forget(person, number))

    async def _statement(self, turn: int) -> str | None:
        answered = and_(_may_be_remembered(turn), TurnRow.state.in_(_ANSWERED))
        async with self.database.read() as session:
            return await session.scalar(select(TurnRow.typed).where(answered))

    async def _add(self, turn: int, statement: str, facts: Sequence[Fact]) -> int:
        async with self.database.write() as session:
            row = await session.scalar(select(TurnRow).where(_may_be_remembered(turn), TurnRow.typed == statement))
            if row is None:
                return 0
            circle, about = _circle_of(row), _about(_asker_of(row))
            for fact in reversed(facts):  # The first one of a message is to be the newest.
                said_before = and_(about, FactRow.circle == circle, FactRow.text == fact.text)
                await session.execute(delete(FactRow).where(said_before))
                session.add(
                    FactRow(
                        turn_id=row.id,
                        platform=row.platform,
                        workspace=row.workspace,
                        person=row.author_id,
                        circle=circle,
                        text=fact.text,
                        model=fact.model,
                        vector=fact.vector,
                        at=datetime.now(UTC),
                    )
                )
                await session.flush()
            newest = select(FactRow.id).where(about).order_by(FactRow.id.desc()).limit(MOST_FACTS)
            await session.execute(delete(FactRow).where(about, FactRow.id.not_in(newest)))
            return len(facts)

    async def _told(self, turn: int) -> list[Fact]:
        async with self.database.read() as session:
            row = await session.scalar(select(TurnRow).where(_may_be_remembered(turn)))
            if row is None:
                return []
            about = select(FactRow).where(_about(_asker_of(row))).order_by(FactRow.id.desc())
            if row.readers != Readers.ALONE:
                about = about.where(FactRow.circle.in_((_circle_of(row), _circle(Readers.CHANNEL, row))))
            return [Fact(text=fact.text, model=fact.model, vector=fact.vector) for fact in await session.scalars(about)]

    async def _of(self, person: Person) -> dict[int, str]:
        async with self.database.read() as session:
            facts = await session.scalars(select(FactRow).where(_about(person)).order_by(FactRow.id))
            # Said to several circles it is one fact, with the number of the last time.
            last = {fact.text: fact.id for fact in facts}
            return dict(sorted(((number, text) for text, number in last.items()), reverse=True))

    async def _forget(self, person: Person, number: int | None) -> tuple[str, ...]:
        async with self.database.write() as session:
            which, said = _about(person), _said_by(person)
            if number is not None:
                text = await session.scalar(select(FactRow.text).where(which, FactRow.id == number))
                if text is None:
                    return ()
                which, said = and_(which, FactRow.text == text), and_(said, _says(text))
            gone = (await session.scalars(delete(FactRow).where(which).returning(FactRow.text))).all()
            # What is being picked out of a message at this moment must not come after this.
            await session.execute(update(TurnRow).where(said).values(readers=Readers.UNKNOWN.value))
            if gone:
                for backup in await asyncio.to_thread(backups_of, self.database.path):
                    backup.unlink(missing_ok=True)
        await self.database.empty_log()
        return tuple(dict.fromkeys(gone))


def _may_be_remembered(turn: int) -> ColumnElement[bool]:
    return and_(TurnRow.id == turn, TurnRow.readers != Readers.UNKNOWN.value, TurnRow.author_id != "")


def _about(person: Person) -> ColumnElement[bool]:
    here = true() if person.workspace is None else FactRow.workspace == person.workspace
    return and_(FactRow.platform == person.platform, here, FactRow.person == person.id)


def _said_by(person: Person) -> ColumnElement[bool]:
    here = true() if person.workspace is None else TurnRow.workspace == person.workspace
    return and_(TurnRow.platform == person.platform, here, TurnRow.author_id == person.id)


def _says(fact: str) -> ColumnElement[bool]:
    """Whether the words of a fact are in a message, with whatever blanks; in doubt they are."""
    plain = fact.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return TurnRow.typed.like(f"%{'%'.join(plain.split())}%", escape="\\")


def _asker_of(row: TurnRow) -> Person:
    return Person(platform=row.platform, workspace=row.workspace, id=row.author_id)


def _circle_of(row: TurnRow) -> str:
    return _circle(Readers(row.readers), row)


def _circle(readers: Readers, row: TurnRow) -> str:
    """Names those who read a conversation, within its workspace."""
    if readers is Readers.CHANNEL:
        return f"{readers}:{row.channel}"
    return f"{readers}:{row.thread_id}" if readers is Readers.THREAD else readers.value
