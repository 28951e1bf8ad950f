"""What is left out under load, least missed first; each level holds what the levels below it hold.

    NO_REWRITE   follow-ups are searched as typed
    SHORTER      half the passages, short answers
    LAST_TURNS   only the last two turns of a conversation

After that new questions are refused. A level is reached at once, and left only when the load is well under
it and has been for a while, so that it does not flicker.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ShedLevel(IntEnum):
    NONE = 0
    NO_REWRITE = 1
    SHORTER = 2
    LAST_TURNS = 3


SHARES: Final = ((ShedLevel.LAST_TURNS, 0.9), (ShedLevel.SHORTER, 0.6), (ShedLevel.NO_REWRITE, 0.3))
"""From which share of a full queue on each level holds."""
LONG_WAIT: Final = 20.0
"""Seconds: whoever would wait longer finds the rewrite left out, however short the queue."""
HYSTERESIS: Final = 0.1
CALM_SECONDS: Final = 10.0
"""How long the load has to be low before a level is left; an empty queue leaves it at once."""


class Shedding:
    """The level, from the load each time it changes."""

    def __init__(self) -> None:
        self.level = ShedLevel.NONE
        self._calm_since: float | None = None

    @property
    def next_look(self) -> float | None:
        """When the level may fall although nothing happens; None if it will not."""
        return None if self._calm_since is None else self._calm_since + CALM_SECONDS

    def update(self, share: float, wait: float, now: float) -> ShedLevel:
        """The level under this load: `share` of a full queue, `wait` in seconds for who comes now."""
        if (reached := _level(share, wait)) > self.level:
            self.level = reached
        left = _level(share + HYSTERESIS, wait / (1 - HYSTERESIS))
        if left >= self.level:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        if left < self.level and (share == 0 or (self._calm_since or now) + CALM_SECONDS <= now):
            self.level = left
            self._calm_since = None
        return self.level


def _level(share: float, wait: float) -> ShedLevel:
    at_least = ShedLevel.NO_REWRITE if wait > LONG_WAIT else ShedLevel.NONE
    return next((level for level, from_ in SHARES if share >= from_), at_least)
