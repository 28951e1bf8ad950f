"""The bot on a `Board`: the real wiring, store, index, queue and HTTP clients, with a channel of the tests.

    python -m tests.chaos.process BOARD_URL [--at POINT] [--without MECHANISM ...]

Settings come from the environment. With a point, the process kills itself when it passes it. Without a mechanism, it
lacks one that the promises rest on, for the proof that the checks see it.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import time
from collections.abc import Sequence
from typing import Any, Final

from adapters.fault import arm
from adapters.ports import Post
from adapters.rules import Rules
from adapters.store import ticks
from adapters.suspects import Suspects
from bot import logs
from bot.config import from_environment
from bot.liveness import watched
from bot.shutdown import until_asked_to_stop
from bot.wiring import App, open_app
from core.gpu import QueueLimits
from tests.chaos.channel import BoardChannel

RULES: Final = Rules(
    heartbeat=1.0,
    position_every=0.5,
    resumes_per_second=200,
    placeholder=1.0,
    settling=0.2,
    first_retry=0.05,
    longest_retry=0.5,
    free_bytes=0,
    grace=2.0,
)
LIMITS: Final = QueueLimits(total=5000, per_asker=5000, per_place=5000, running_per_asker=8, outage_seconds=20)


class BlindChannel(BoardChannel):
    """Finds nothing of its own."""

    async def find(self, post: Post) -> Sequence[str]:
        return []


async def _nothing(*_: object, **__: object) -> list[object]:
    return []


async def _take_away(app: App, mechanism: str) -> None:
    if mechanism == "take-over":
        app.store.jobs.take_over = _nothing  # type: ignore[method-assign, assignment]
    if mechanism == "suspects":
        Suspects.may_begin = lambda *_: True  # type: ignore[method-assign]
    if mechanism == "ticks":
        ticks.now, ticks.boot = time.time, functools.cache(lambda: "")
    if mechanism == "sync":
        async with app.store.database.writer.connect() as connection:
            # Past SQLAlchemy, which begins a transaction, in which this cannot be changed.
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await driver.execute("PRAGMA synchronous = OFF")


async def run(board: str, without: Sequence[str]) -> None:
    settings = from_environment()
    logs.set_up(settings.log_level)
    async with open_app(settings, lambda _: None, waits=(LIMITS, RULES)) as app:
        channel = BlindChannel(board) if "find" in without else BoardChannel(board)
        for mechanism in without:
            await _take_away(app, mechanism)
        app.dispatcher.attach(channel)
        with watched():
            await app.dispatcher.start()
            await until_asked_to_stop(channel.take(app.dispatcher))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("board")
    parser.add_argument("--at")
    parser.add_argument("--without", action="append", default=[])
    asked = parser.parse_args()
    if asked.at:
        arm(asked.at)
    asyncio.run(run(asked.board, asked.without))
