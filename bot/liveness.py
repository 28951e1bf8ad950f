"""Whether the event loop is alive: how late it is, and where it stands when something blocks it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from core import metrics

log = logging.getLogger(__name__)

EVERY: Final = 0.25
BLOCKED: Final = 1.0
"""Seconds without a turn of the loop after which somebody should know."""


@contextmanager
def watched(blocked: float = BLOCKED) -> Iterator[None]:
    """Measures the lag of the running loop, and logs what its thread does when it has stood still for `blocked`."""
    watch = _Watch(asyncio.get_running_loop(), blocked)
    thread = threading.Thread(target=watch.look, name="liveness", daemon=True)
    thread.start()
    watch.beat()
    try:
        yield
    finally:
        watch.over.set()


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop, blocked: float) -> None:
        self._loop, self._blocked = loop, blocked
        self._thread = threading.get_ident()
        self._last = time.monotonic()
        self.over = threading.Event()

    def beat(self) -> None:
        """Runs in the loop."""
        now = time.monotonic()
        metrics.LOOP_LAG.set(max(0.0, now - self._last - EVERY))
        self._last = now
        if not self.over.is_set():
            self._loop.call_later(EVERY, self.beat)

    def look(self) -> None:
        """Runs in a thread of its own."""
        told = 0.0
        while not self.over.wait(EVERY):
            last = self._last
            if time.monotonic() - last - EVERY > self._blocked and last != told:
                told = last
                metrics.LOOP_BLOCKED.inc()
                frame = sys._current_frames().get(self._thread)
                stack = "".join(traceback.format_stack(frame)) if frame else ""
                log.error("The event loop has not moved for %.1f s; it is at:\n%s", time.monotonic() - last, stack)
