"""The machine and the model fail under a running process: F8, F9, F17, F18, F25, F27, and SIGTERM in mid-answer."""

from __future__ import annotations

import asyncio
import resource
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import judge, outcomes
from tests.chaos.stage import Stage, answer_to, stage
from tests.servers.openai import CHAT
from tests.servers.replies import Reply


async def judged(on: Stage, **ended: int) -> None:
    """Ends the process and judges it; how many questions ended how."""
    await on.until_all_ended()
    await on.stop()
    assert judge(on.board, on.database) == []
    assert outcomes(on.database) == ended


async def served(on: Stage) -> None:
    """A first question and its answer: the process is up."""
    on.board.say("t0", "question 0")
    await on.until_all_ended()


async def test_a_process_that_is_asked_to_end_in_the_middle_of_an_answer_ends_in_time_and_the_next_one_answers(
    tmp_path: Path, documents: Path
):
    """The answer takes longer than the grace."""
    async with stage(tmp_path / "data", documents) as on:
        on.model.default = lambda body: answer_to(body, pause=1.0)
        await on.start()
        on.board.say("t1", "question 1")
        await on.until(lambda: any(shown.phase == "growing" for shown in on.board.shown.values()))
        on.board.say("t1", "question 2")
        await on.until(lambda: on.board.events[-1].acknowledged_at is not None)
        assert await on.stop() < 25
        with closing(sqlite3.connect(on.database)) as connection:
            assert connection.execute("SELECT state, attempts, lease_owner FROM jobs").fetchall() == [
                ("queued", 0, ""),
                ("queued", 0, ""),
            ]
        on.model.default = answer_to
        await on.start()
        await judged(on, answered=2)
        assert on.model.disconnects >= 1, "the call was ended, not left to run"


@pytest.mark.chaos
async def test_everything_that_a_killed_process_left_ends_once(tmp_path: Path, documents: Path):
    """F8: fifty questions, queued, running and being delivered."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        await served(on)
        for n in range(50):
            on.board.say(f"t{n % 20}", f"question {n + 1}", author=f"person {n % 7}")
        await on.until(lambda: len(on.board.shown) > 20)
        await on.kill()
        await on.start()
        await judged(on, answered=51)


@pytest.mark.chaos
async def test_questions_wait_for_a_model_that_is_down_and_are_answered_when_it_is_back(
    tmp_path: Path, documents: Path
):
    """F9: without a restart, and nobody is told of an error."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        await served(on)
        await on.model.stop()
        ids = [on.board.say(f"t{n}", f"question {n}") for n in range(1, 6)]
        await on.until(lambda: all(on.board.under(id_) for id_ in ids))
        await asyncio.sleep(3)
        assert not [shown for id_ in ids for shown in on.board.under(id_) if shown.phase == "final"]
        await on.model.start()
        await judged(on, answered=6)
        assert "<question 3>" in "".join(shown.body for shown in on.board.under(ids[2]))


@pytest.mark.chaos
async def test_a_database_that_is_locked_for_long_loses_nothing(tmp_path: Path, documents: Path):
    """F18: what cannot be stored is not acknowledged, comes again, and is answered once."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        await served(on)
        with closing(sqlite3.connect(on.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            on.board.say("t1", "question 1")
            await asyncio.sleep(7)  # longer than a writer waits
            assert on.board.events[-1].acknowledged_at is None
            assert on.board.events[-1].deliveries > 1
            other.execute("ROLLBACK")
        await judged(on, answered=2)


@pytest.mark.chaos
async def test_a_process_without_file_descriptors_goes_on_when_there_are_some(tmp_path: Path, documents: Path):
    """F25."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        await served(on)
        assert on.process is not None
        before = resource.prlimit(on.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(on.process.pid, resource.RLIMIT_NOFILE, (10, before[1]))
        for n in range(20):
            on.board.say(f"t{n}", f"question {n + 1}")
        await asyncio.sleep(2)
        resource.prlimit(on.process.pid, resource.RLIMIT_NOFILE, before)
        assert "All connection attempts failed" in on.log.read_text(), "the fault did not land"
        await on.until_all_ended()
        await on.stop()
        assert judge(on.board, on.database) == []
        assert sum(outcomes(on.database).values()) == 21


@pytest.mark.chaos
async def test_a_second_process_on_the_same_data_refuses_to_start(tmp_path: Path, documents: Path):
    """F17."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        await served(on)
        first = on.process
        await on.start()
        assert await on.ended() != 0
        assert "another Threadwise is using" in on.log.read_text()
        on.process = first
        on.board.say("t1", "question 1")
        await judged(on, answered=2)


@pytest.mark.chaos
async def test_a_process_that_dies_in_a_migration_leaves_the_old_version_and_the_next_one_goes_on(
    tmp_path: Path, documents: Path
):
    """K14, F27: a database of the version before, with a question that nobody has answered."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        await served(on)
        await on.stop()
        with closing(sqlite3.connect(on.database, isolation_level=None)) as connection:
            connection.executescript(BACK_TO_0001)
            connection.execute("UPDATE turns SET state = 'asked', answered = ''")
        await on.start(at="K14")
        assert await on.ended() == -signal.SIGKILL
        with closing(sqlite3.connect(on.database)) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
        on.board.events[0].acknowledged_at = None  # it comes again, and is known
        await on.start()
        on.board.say("t0", "question 1")
        await on.until(lambda: all(event.acknowledged_at is not None for event in on.board.events))
        await on.until_all_ended()
        await on.stop()
        assert outcomes(on.database) == {"answered": 1}
        with closing(sqlite3.connect(on.database)) as connection:
            states = connection.execute("SELECT typed, state FROM turns ORDER BY seq").fetchall()
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert states == [("question 0", "failed"), ("question 1", "answered")]


BACK_TO_0001 = """
DROP TABLE installations;
DROP TABLE facts;
DROP TABLE marks;
DROP TABLE feedback;
DROP TABLE outbox;
DROP TABLE jobs;
DROP TABLE inbox;
ALTER TABLE threads DROP COLUMN revision;
ALTER TABLE threads DROP COLUMN begins_after;
ALTER TABLE turns DROP COLUMN edited_at;
ALTER TABLE turns DROP COLUMN exact;
ALTER TABLE turns DROP COLUMN heard;
ALTER TABLE turns DROP COLUMN unread;
ALTER TABLE turns DROP COLUMN readers;
UPDATE alembic_version SET version_num = '0001';
"""


@pytest.mark.chaos
@pytest.mark.parametrize("end", ["reset", "cut", "close"])
async def test_a_stream_that_is_cut_never_looks_whole(tmp_path: Path, documents: Path, end: str):
    """F13: once it is asked again; cut each time, the answer is marked and stored as what it is."""
    async with stage(tmp_path / "data", documents) as on:
        cut = Reply(pieces=("<question 1> is answered in the ", "guide, by ste"), end=end)  # type: ignore[arg-type]

        def reply(body: dict[str, Any]) -> Reply:
            return cut if "question 1" in str(body["messages"][-1]["content"]) else answer_to(body)

        on.model.default = reply
        await on.start()
        began = time.monotonic()
        on.board.say("t1", "question 1")
        await on.until_all_ended()
        assert time.monotonic() - began < 30
        await on.stop()
        assert judge(on.board, on.database) == []
        with closing(sqlite3.connect(on.database)) as connection:
            ((state,),) = connection.execute("SELECT state FROM turns").fetchall()
        assert state != "answered"
        calls = len([request for request in on.model.requests if request.path == CHAT])
        assert calls <= 3
