"""A dispatcher on a real SQLite file, with a scripted function for the answers and a wall for the messages."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.dispatcher import Dispatcher
from adapters.jobs import Admitted
from adapters.ports import Inbound, Phase, Post, Show, StoredTurn, ThreadKey, platform_order
from adapters.rules import Rules
from adapters.store import SqlConversationStore
from adapters.store.files import prepare
from adapters.summaries import Summaries
from core.seat import JobLine
from core.types import Answer, Query, QueryStatus, Question, Turn
from tests.dialogues.conftest import QUICK
from tests.open_line import OpenLine
from tests.wall import Wall

Answering = Callable[[Question, Show], Awaitable[str]]
"""What a test says to a question."""


async def echo(question: Question, show: Show) -> str:
    """The default: the question itself, after it was seen to grow."""
    await show(question.text[: len(question.text) // 2])
    return f"re {question.text}"


async def _no_summary(earlier: str, turns: Sequence[Turn]) -> None:
    return None


class Desk:
    """One process: a dispatcher, what it was asked to answer, and what is on its wall."""

    def __init__(
        self, store: SqlConversationStore, wall: Wall, rules: Rules, summaries: Summaries | None = None
    ) -> None:
        self.store, self.wall, self.line = store, wall, OpenLine()
        self.summaries = summaries or Summaries(store, _no_summary)
        self.answering: Answering = echo
        self.questions: list[Question] = []
        self.at_once = self.most_at_once = 0
        self.dispatcher = Dispatcher(store, self._answer, self.line, 20, self.summaries, rules=rules)
        self.dispatcher.attach(wall)

    async def _answer(self, question: Question, show: Show, seat: JobLine) -> Answer:
        self.questions.append(question)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            text = await self.answering(question, show)
        finally:
            self.at_once -= 1
        return Answer(text=text, query=Query(text=question.text, status=QueryStatus.SKIPPED))

    @property
    def asked(self) -> list[str]:
        """The questions that somebody worked on, one for each attempt."""
        return [question.text for question in self.questions]

    async def admits(self, message: Inbound) -> int:
        """The job of a message that is taken."""
        admitted = await self.dispatcher.admit(message)
        assert isinstance(admitted, Admitted)
        assert admitted.job is not None
        return admitted.job

    async def ends(self, *jobs: int) -> None:
        """Returns when all of them have ended."""
        async with asyncio.timeout(10):
            await asyncio.gather(*(self.dispatcher.ended(job) for job in jobs))

    async def hears(self, message: Inbound) -> str:
        """The only answer to a message."""
        await self.ends(await self.admits(message))
        return self.wall.final(message.message_id)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Waits for what tells nobody of itself."""
        async with asyncio.timeout(10):
            while not is_so():  # noqa: ASYNC110 - nothing to wait for but time
                await asyncio.sleep(0.005)

    async def turn(self, message: Inbound) -> StoredTurn:
        """What the store has of a message."""
        turns = await self.store.turns(message.thread)
        (found,) = (turn for turn in turns if turn.message_id == message.message_id)
        return found

    async def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that the database answers."""
        async with self.store.database.read() as session:
            connection = await session.connection()
            return [tuple(row) for row in await connection.exec_driver_sql(statement)]

    async def states(self) -> dict[str, str]:
        """The states of all jobs, by message."""
        rows = await self.sql("SELECT message_id, state FROM jobs JOIN inbox ON inbox.id = inbox_id ORDER BY jobs.id")
        return dict(rows)


def message(id_: str, text: str = "", thread: str = "t1", author: str = "ada", platform: str = "terminal") -> Inbound:
    """A message whose id is its place in the thread."""
    return Inbound(
        message_id=id_,
        thread=ThreadKey(platform=platform, workspace="w1", channel="c1", thread=thread),
        author_id=author,
        author=author.title(),
        text=text or f"question {id_}",
        sent_at=datetime.now(UTC),
        order=platform_order(id_) if id_.isdecimal() else "",
    )


def seen(wall: Wall, id_: str) -> list[tuple[str, Phase]]:
    """What is to be seen under a message now."""
    return [(post.body, post.phase) for post in wall.replies(id_)]


def opened(wall: Wall) -> list[Post]:
    """The messages of ours that were ever created."""
    return [post for call, post in wall.calls if call == "open"]


MakeDesk = Callable[..., Awaitable[Desk]]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copying it is quicker than migrating each time."""
    return prepare(tmp_path_factory.mktemp("template") / "conversations.db", 5.0)


@pytest.fixture
async def make_desk(tmp_path: Path, empty_database: Path) -> AsyncIterator[MakeDesk]:
    """Opens a process on the database of this test; several see the same wall if they are given it."""
    desks: list[Desk] = []
    shutil.copy(empty_database, tmp_path)

    async def make(
        wall: Wall | None = None, *, lease: float = 30.0, busy: float = 5.0, summaries: Any = None, **rules: Any
    ) -> Desk:
        path = tmp_path / "conversations.db"
        store = await SqlConversationStore.open(path, lease_seconds=lease, busy_timeout=busy)
        condenser = Summaries(store, summaries) if summaries else None
        desks.append(Desk(store, wall or Wall(), replace(QUICK, **rules), condenser))
        return desks[-1]

    yield make
    for desk in desks:
        await desk.dispatcher.close(0)
        await desk.store.close()


@pytest.fixture
async def desk(make_desk: MakeDesk) -> Desk:
    desk = await make_desk()
    await desk.dispatcher.start()
    return desk
