"""F24: something blocks the event loop, and the operator is told where."""

from __future__ import annotations

import asyncio
import time

import pytest

from bot.liveness import watched
from core import metrics


def blocked() -> float:
    return float(metrics.LOOP_BLOCKED._value.get())


def a_call_that_blocks() -> None:
    time.sleep(1.2)


async def test_a_loop_that_stands_still_is_told_with_the_line_at_which_it_does(caplog: pytest.LogCaptureFixture):
    before = blocked()
    with watched(blocked=0.3):
        await asyncio.sleep(0.3)
        a_call_that_blocks()
        await asyncio.sleep(0.05)
        assert metrics.LOOP_LAG._value.get() > 0.5
    assert blocked() == before + 1, "once, however long it stands"
    assert "a_call_that_blocks" in caplog.text


async def test_a_loop_that_moves_is_left_in_peace(caplog: pytest.LogCaptureFixture):
    before = blocked()
    with watched(blocked=2.0):
        await asyncio.sleep(0.7)
    assert blocked() == before
    assert caplog.text == ""
