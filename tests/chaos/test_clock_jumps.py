"""F22: the wall clock is set while the process runs, and between two of them; nobody's question knows of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import judge, outcomes
from tests.chaos.clock import READ_AGAIN, clock
from tests.chaos.stage import Stage, answer_to, asked_in, stage

MANY = 4
"""Questions in two threads, so that some wait for their turn."""


pytestmark = pytest.mark.chaos
JUMPS = [
    ("+1h", timedelta(hours=1)),
    ("-1h", timedelta(hours=-1)),
    ("+1d", timedelta(days=1)),
    ("-1d", timedelta(days=-1)),
    ("-1m", timedelta(minutes=-1)),
]


def slowly(body: dict[str, Any]) -> Any:
    return answer_to(body, pause=0.05)


async def asked(on: Stage, first: int) -> None:
    """Questions that are all taken, and not all answered."""
    for number in range(first, first + MANY):
        on.board.say(f"t{number % 2}", f"question {number}", author=f"person {number % 3}")
    await on.until(lambda: all(event.acknowledged_at is not None for event in on.board.events))
    await on.until(lambda: any(shown.phase == "growing" for shown in on.board.shown.values()))


def taken_at(on: Stage) -> list[datetime]:
    with closing(sqlite3.connect(on.database)) as connection:
        rows = connection.execute("SELECT received_at FROM inbox ORDER BY message_id").fetchall()
    return [datetime.fromisoformat(at).replace(tzinfo=UTC) for (at,) in rows]


def in_order(on: Stage) -> bool:
    """Whether each thread remembers its questions as they were asked."""
    with closing(sqlite3.connect(on.database)) as connection:
        turns = connection.execute("SELECT thread_id, message_id FROM turns ORDER BY thread_id, seq").fetchall()
    return turns == sorted(turns)


@pytest.mark.parametrize(("by", "duration"), JUMPS)
async def test_a_clock_that_is_set_while_the_process_runs_changes_nothing(
    tmp_path: Path, documents: Path, by: str, duration: timedelta
):
    wall = clock(tmp_path)
    async with stage(tmp_path / "data", documents) as on:
        on.settings, on.model.default = wall.environment, slowly
        await on.start()
        await asked(on, 0)
        wall.set(by)
        await asyncio.sleep(READ_AGAIN)
        await asked(on, MANY)
        await on.until_all_ended()
        await on.stop()
        assert judge(on.board, on.database) == []
        assert outcomes(on.database) == {"answered": 2 * MANY}
        assert in_order(on)
        calls = Counter(filter(None, map(asked_in, on.model.chats)))
        assert set(calls.values()) == {1}, "no question is worked on twice"
        at = taken_at(on)
        assert abs(at[-1] - at[0] - duration) < abs(duration) / 2, "the clock was not set"


async def set_between_two(on: Stage, wall: Any, by: str, without: list[str]) -> None:
    on.settings, on.model.default = wall.environment, slowly
    await on.start(without=without)
    await asked(on, 0)
    await on.kill()
    wall.set(by)
    await on.start(without=without)
    await asked(on, MANY)
    await on.until_all_ended()
    await on.stop()


@pytest.mark.parametrize(("by", "duration"), JUMPS)
async def test_a_clock_that_is_set_between_two_processes_changes_nothing(
    tmp_path: Path, documents: Path, by: str, duration: timedelta
):
    wall = clock(tmp_path)
    async with stage(tmp_path / "data", documents) as on:
        await set_between_two(on, wall, by, without=[])
        assert judge(on.board, on.database) == []
        assert outcomes(on.database) == {"answered": 2 * MANY}
        assert in_order(on)
        at = taken_at(on)
        assert abs(at[-1] - at[0] - duration) < abs(duration) / 2, "the clock was not set"


async def test_by_the_wall_clock_questions_would_expire_at_once(tmp_path: Path, documents: Path):
    """The proof that the test above needs the clock of the boot."""
    wall = clock(tmp_path)
    async with stage(tmp_path / "data", documents) as on:
        await set_between_two(on, wall, "+1h", without=["ticks"])
        assert outcomes(on.database)["expired"] > 0
