"""Many questions, many kills, lost replies and refusals: each question has exactly one ending."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.chaos.checker import judge, outcomes
from tests.chaos.stage import SLOTS, stage


@pytest.mark.parametrize(
    ("questions", "threads", "kills"),
    [(40, 10, 5), pytest.param(1000, 200, 100, marks=pytest.mark.chaos)],
)
async def test_kills_at_random_moments_lose_nothing_and_say_nothing_twice(
    tmp_path: Path, documents: Path, questions: int, threads: int, kills: int, capsys: pytest.CaptureFixture[str]
):
    chance = random.Random(questions)
    async with stage(tmp_path / "data", documents, seed=questions) as on:
        on.board.lost_replies = on.board.busy = 0.02
        began = time.monotonic()
        left = questions
        for kill in range(kills):
            await on.start()
            for _ in range(left // (kills - kill)):
                left -= 1
                on.board.say(f"t{left % threads}", f"question {left}", author=f"person {left % 37}")
                await asyncio.sleep(chance.uniform(0, 0.02))
            served = len(on.board.shown)
            await on.until(lambda served=served: len(on.board.shown) > served or on.is_done())  # type: ignore[misc]
            await asyncio.sleep(chance.uniform(0, 1.0))
            await on.kill()
        killed = time.monotonic() - began
        await on.start()
        await on.until_all_ended(seconds=600)
        took = await on.stop()
        assert judge(on.board, on.database) == []
        assert on.starts == kills + 1
        assert on.board.injected["lost"] > 0
        assert on.board.injected["busy"] > 0
        assert on.model.max_in_flight <= SLOTS
        with capsys.disabled():
            print(  # noqa: T201 - figures for whoever runs it
                f"\n{questions} questions, {threads} threads, {kills} kills in {killed:.0f} s; "
                f"{dict(outcomes(on.database))}, {on.board.calls['create']} messages created, "
                f"{dict(on.board.injected)}, ended in {took:.1f} s"
            )
