"""The only place where a failing stage becomes a fallback.

A stage that may vanish is run through `fail_open`: an error or a passed deadline is caught, logged,
counted, and comes back as the fallback together with a `Degradation`. Cancellation is never caught, nor is
the end of the question's time: both end the turn, not the stage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from core.errors import Preempted, QuestionExpired, ThreadwiseError
from core.metrics import STAGE_FALLBACKS
from core.types import Degradation

T = TypeVar("T")
log = logging.getLogger(__name__)


def reason_of(error: BaseException) -> str:
    """A short, bounded phrase without user text: the class of an error of ours, "timeout", or "bug"."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ThreadwiseError):
        return type(error).__name__
    return "bug"


def record(stage: str, error: BaseException) -> Degradation:
    """Logs and counts the failure of `stage`, and says so as a value."""
    reason = reason_of(error)
    STAGE_FALLBACKS.labels(stage=stage, reason=reason).inc()
    if isinstance(error, Preempted):
        log.info("%s fell back: %s", stage, error)  # Nothing is wrong.
    elif isinstance(error, (ThreadwiseError, TimeoutError)):
        log.warning("%s fell back: %s (%s)", stage, reason, error)
    else:
        # A bug in a stage is still no reason to leave the asker without an answer, but it must be seen.
        log.error("%s fell back on an unexpected error", stage, exc_info=error)
    return Degradation(stage=stage, reason=reason)


async def fail_open(
    stage: str, work: Callable[[], Awaitable[T]], *, fallback: T, seconds: float
) -> tuple[T, Degradation | None]:
    """The result of `work`, or `fallback` with a mark if it raises or takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await work(), None
    except QuestionExpired:
        raise
    except Exception as error:  # noqa: BLE001 - whatever happens in a stage, the turn goes on
        return fallback, record(stage, error)
