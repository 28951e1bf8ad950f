"""K0 to K12, K15: the process dies at a named moment, and the next one makes good on every promise."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from adapters.fault import KILL_POINTS
from adapters.notices import FAILED
from tests.chaos.checker import judge, outcomes
from tests.chaos.stage import Stage, answer_to, stage
from tests.servers.openai import CHAT, EMBEDDINGS
from tests.servers.replies import Reply

PARTS = 3
"""Messages of an answer of the scripted model."""
HERE = tuple(point for point in KILL_POINTS if point not in ("K14", "K15"))
QUICK = ("K3", "K8", "K10", "K12")
"""Those that every test run goes through; the others are `make chaos`."""


def point(name: str) -> Any:
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.chaos)


async def dies_then_lives(on: Stage, at: str, without: list[str] | None = None) -> str:
    """A question at which the process dies, and the next process; the id of the question."""
    await on.start(at=at)
    id_ = on.board.say("t1", "question 1")
    assert await on.ended() == -signal.SIGKILL, f"{at} was not passed"
    await on.start(without=without or [])
    return id_


@pytest.mark.parametrize("at", [point(name) for name in HERE])
async def test_a_process_that_dies_at_a_point_costs_nothing(tmp_path: Path, documents: Path, at: str):
    async with stage(tmp_path / "data", documents) as on:
        id_ = await dies_then_lives(on, at)
        await on.until_all_ended()
        calls = len([request for request in on.model.requests if request.path == CHAT])
        await on.stop()
        assert judge(on.board, on.database) == []
        assert outcomes(on.database) == {"answered": 1}
        assert on.board.calls["create"] == PARTS, "one message for each part"
        assert "".join(shown.body for shown in on.board.under(id_)).startswith("<question 1>")
        if at in ("K10", "K11", "K12"):
            assert calls == 1, "the answer was there"
        if at in ("K0", "K1"):
            assert on.board.events[0].deliveries >= 2


async def test_a_point_that_is_not_armed_kills_nothing(tmp_path: Path, documents: Path):
    """The proof that the test above needs its fault."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start(at="K99")
        on.board.say("t1", "question 1")
        await on.until_all_ended()
        assert on.process is not None
        assert on.process.returncode is None
        await on.stop()
        assert on.board.events[0].deliveries == 1


@pytest.mark.chaos
@pytest.mark.parametrize(("path", "nth"), [(CHAT, 2), (EMBEDDINGS, 2), (CHAT, 3)], ids=["K5", "K6", "K7"])
async def test_a_process_that_dies_in_a_call_costs_nothing(tmp_path: Path, documents: Path, path: str, nth: int):
    """In the rewrite, in the search and before the first token of the second question."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        on.board.say("t1", "question 1")
        await on.until_all_ended()
        killed = asyncio.Event()
        seen = [request.path for request in on.model.requests].count(path)
        first = {CHAT: 1, EMBEDDINGS: seen}[path]

        def reply(body: dict[str, Any]) -> Reply:
            if [request.path for request in on.model.requests].count(CHAT) == nth and not killed.is_set():
                assert on.process is not None
                on.process.kill()
                killed.set()
            return answer_to(body)

        if path == CHAT:
            on.model.default = reply
        on.board.say("t1", "question 2")
        if path == EMBEDDINGS:
            await on.until(lambda: [request.path for request in on.model.requests].count(path) > first)
            await on.kill()
        assert await on.ended() == -signal.SIGKILL
        await on.start()
        await on.until_all_ended()
        await on.stop()
        assert judge(on.board, on.database) == []
        assert outcomes(on.database) == {"answered": 2}


async def test_a_question_that_kills_every_process_is_given_up_with_a_notice_and_the_others_live(
    tmp_path: Path, documents: Path
):
    """K15."""
    async with stage(tmp_path / "data", documents) as on:
        poison = on.board.say("t1", "question of poison")

        def reply(body: dict[str, Any]) -> Reply:
            if "poison" in str(body):
                assert on.process is not None
                on.process.kill()
            return answer_to(body)

        on.model.default = reply
        for _ in range(3):
            await on.start()
            assert await on.ended() == -signal.SIGKILL
        await on.start()
        other = on.board.say("t2", "question 2")
        await on.until_all_ended()
        await on.stop()
        assert judge(on.board, on.database) == []
        assert [shown.body for shown in on.board.under(poison)] == [FAILED]
        assert on.board.under(other)[0].body.startswith("<question 2>")


async def dies_of_poison(on: Stage, without: list[str]) -> list[str]:
    """Three processes die of one question while others are under way; the ids of those."""
    poison = on.board.say("t0", "question of poison", author="mallory")
    others = [on.board.say(f"t{number}", f"question {number}", author=f"person {number}") for number in (1, 2, 3)]

    def reply(body: dict[str, Any]) -> Reply:
        if "poison" in str(body):
            assert on.process is not None
            asyncio.get_running_loop().call_later(0.7, on.process.kill)
        return answer_to(body, pause=0.5)

    on.model.default = reply
    for death in (1, 2, 3):
        await on.start(without=without)
        assert await on.ended() == -signal.SIGKILL
        if death == 2:
            with closing(sqlite3.connect(on.database)) as connection:
                assert connection.execute("SELECT attempts FROM jobs").fetchall() == [(2,)] * 4, (
                    "not all were under way"
                )
    await on.start(without=without)
    await on.until_all_ended()
    await on.stop()
    assert judge(on.board, on.database) == []
    assert [shown.body for shown in on.board.under(poison)] == [FAILED]
    return others


@pytest.mark.chaos
async def test_questions_that_are_under_way_whenever_another_one_kills_the_process_are_answered(
    tmp_path: Path, documents: Path
):
    """K15: they were as often under way at a death as the one that is to blame."""
    async with stage(tmp_path / "data", documents) as on:
        others = await dies_of_poison(on, without=[])
        for number, id_ in enumerate(others, 1):
            assert on.board.under(id_)[0].body.startswith(f"<question {number}>")


@pytest.mark.chaos
async def test_if_all_were_tried_together_again_all_would_be_given_up(tmp_path: Path, documents: Path):
    """The proof that the test above needs the turns of suspects."""
    async with stage(tmp_path / "data", documents) as on:
        others = await dies_of_poison(on, without=["suspects"])
        assert [[shown.body for shown in on.board.under(id_)] for id_ in others] == [[FAILED]] * 3


async def test_without_a_look_for_what_was_created_there_are_two_messages(tmp_path: Path, documents: Path):
    """The proof that the checker sees a second message: K3 without the mechanism."""
    async with stage(tmp_path / "data", documents) as on:
        await dies_then_lives(on, "K3", without=["find"])
        await on.until_all_ended()
        await on.stop()
        assert [problem for problem in judge(on.board, on.database) if "has the parts [0, 0, 1, 2]" in problem]


@pytest.mark.chaos
async def test_without_taking_over_a_question_has_no_ending(tmp_path: Path, documents: Path):
    """The proof that the checker sees a question that is lost."""
    async with stage(tmp_path / "data", documents) as on:
        await dies_then_lives(on, "K8", without=["take-over"])
        await asyncio.sleep(3)
        await on.stop()
        problems = judge(on.board, on.database)
        assert [problem for problem in problems if "still shows" in problem]
        assert [problem for problem in problems if "is running" in problem]
