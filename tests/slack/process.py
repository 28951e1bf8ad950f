"""`threadwise run`, with short waits, that kills itself when it passes a point.

    python -m tests.slack.process [--at POINT] [--as-it-is]

Settings come from the environment. As it is: with the waits that people have.
"""

from __future__ import annotations

import argparse
import asyncio

import bot.run
from adapters.fault import arm
from bot import logs
from bot.config import from_environment
from tests.chaos.process import LIMITS, RULES


async def run() -> int:
    settings = from_environment()
    logs.set_up(settings.log_level)
    return await bot.run.run(settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--at")
    parser.add_argument("--as-it-is", action="store_true")
    asked = parser.parse_args()
    if asked.at:
        arm(asked.at)
    if not asked.as_it_is:
        vars(bot.run)["IN_THREADS"] = (LIMITS, RULES)
    raise SystemExit(asyncio.run(run()))
