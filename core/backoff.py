"""When an endpoint that takes no calls is asked again: after a pause, by one call, the probe.

    taking     calls go through
    resting    the endpoint has just refused: nobody calls it for a moment
    probing    the moment is over: one call goes through, and its outcome ends the rest or begins the next

The pauses grow with refusals and shrink with answers: one refusal in ten calls is taken lightly.
"""

from __future__ import annotations

import math
import random
from typing import Final

SHORTEST: Final = 0.5
LONGEST: Final = 10.0
"""Seconds between two probes, at most, where the endpoint does not ask for more."""
LONGEST_ASKED: Final = 60.0
"""Of what an endpoint may ask for: a mistake in its `Retry-After` should not silence us for a day."""
MOST_STRAIN: Final = 5.0
A_TENTH: Final = 0.1
RETRIES_IN_RESERVE: Final = 3.0


class Backoff:
    """Seconds are those of the caller's clock."""

    def __init__(self) -> None:
        self.down_since: float | None = None
        """Since when nothing has been answered; None while calls are taken."""
        self.until = -math.inf
        """End of the rest."""
        self._probing = False
        self._strain = 0.0
        self._retries = RETRIES_IN_RESERVE

    def admits(self, now: float) -> bool:
        """Whether a call may go through."""
        return self.down_since is None or (now >= self.until and not self._probing)

    def begin(self, *, first: bool) -> bool:
        """Takes in that a call goes through, the first of its job or another; whether it is the probe."""
        if first:
            self._retries = min(self._retries + A_TENTH, RETRIES_IN_RESERVE)
        self._probing = self.down_since is not None
        return self._probing

    def answered(self, *, probe: bool) -> bool:
        """The endpoint has begun to answer a call; whether that ended an outage."""
        self._strain = max(0.0, self._strain - A_TENTH)
        if not probe or self.down_since is None:
            return False
        self.down_since, self._probing = None, False
        return True

    def refused(self, now: float, wait: float | None, *, probe: bool) -> bool:
        """The endpoint did not take a call, and asks for a `wait` in seconds; whether that began an outage."""
        if self.down_since is not None and not probe:
            return False  # A call from before the rest: it says nothing new.
        began = self.down_since is None
        self.down_since = now if self.down_since is None else self.down_since
        self._probing = False
        pause = min(SHORTEST * 2**self._strain, LONGEST) * random.uniform(0.5, 1.0)
        self.until = now + (max(SHORTEST / 2, min(wait, LONGEST_ASKED)) if wait is not None else pause)
        self._strain = min(self._strain + 1, MOST_STRAIN)
        return began

    def undecided(self, *, probe: bool) -> None:
        """A call ended without a word from the endpoint: cancelled, or too late."""
        if probe:
            self._probing = False

    def may_retry(self) -> bool:
        """Whether a call that failed may be made again: one for ten jobs, and a few in reserve."""
        if self._retries < 1:
            return False
        self._retries -= 1
        return True
