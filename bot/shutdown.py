"""How a process that serves ends: asked once, in order; asked again, or when something hangs, at once.

Ending at once loses nothing: what is not in the database was never promised.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

log = logging.getLogger(__name__)

LONGEST_END: Final = 24.0
"""Seconds from the first signal to the end, whatever hangs. Supervisors kill after 30 (Kubernetes), 90 (systemd) or 10
(Docker: give it more with `--stop-timeout 30`)."""
EXIT_HUNG: Final = 1
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def until_asked_to_stop(work: Coroutine[Any, Any, None], longest_end: float = LONGEST_END) -> None:
    """Does `work` until SIGTERM or SIGINT, then cancels it; what it raises before that is raised.

    From the signal on, the process has `longest_end` seconds to end, also where a thread never does.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    asked = False

    def stop(received: signal.Signals) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + received)
        asked = True
        log.warning("Stopping: running answers get their time, the rest is for the next start")
        _end_anyway(longest_end)
        task.cancel()

    for each in SIGNALS:
        loop.add_signal_handler(each, stop, each)
    with suppress(asyncio.CancelledError):
        await task
    if not asked and (current := asyncio.current_task()) is not None and current.cancelling():
        raise asyncio.CancelledError


def _end_anyway(seconds: float) -> None:
    """A thread cannot be cancelled, and Python waits for each of them, but not for this one."""

    def end() -> None:
        log.error("Something did not end within %g seconds: the process ends without it", seconds)
        os._exit(EXIT_HUNG)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
