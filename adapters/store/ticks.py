"""A clock that nobody sets: how long ago something was, also across a restart of the process.

Wall clocks jump. The clock of the machine's boot does not, and all processes of one boot read the same; only
across a reboot, or where there is no such clock, the wall clock has to do.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path


def now() -> float:
    """Seconds since the machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@cache
def boot() -> str:
    """Names the running of the machine; empty where nobody tells."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def age(boot_then: str, ticks_then: float, wall_then: datetime, wall_now: datetime) -> float:
    """Seconds since then, never negative."""
    if boot_then and boot_then == boot():
        return max(0.0, now() - ticks_then)
    return max(0.0, (wall_now - wall_then).total_seconds())
