"""Named points at which a test lets the process die, stop or fail. Nothing happens unless one is armed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

_armed: dict[str, Callable[[], None]] = {}


def fault(point: str) -> None:
    """Passing `point`."""
    if _armed and (action := _armed.get(point)) is not None:
        action()


def arm(point: str, *, nth: int = 1, sent: int = signal.SIGKILL) -> None:
    """Sends the process the signal `sent` when `point` is passed for the `nth` time."""
    passed = 0

    def action() -> None:
        nonlocal passed
        passed += 1
        if passed == nth:
            os.kill(os.getpid(), sent)

    _armed[point] = action


KILL_POINTS: Final = ("K0", "K1", "K2", "K3", "K4", "K8", "K9", "K10", "K11", "K12", "K14", "K15")
"""Those of this process; a server that it talks to knows when to kill it at K5, K6 and K7."""
