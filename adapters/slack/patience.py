"""How long a connection to Slack is waited for."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds."""

    hello: float = 20.0
    """From asking for an address until Slack says hello."""
    ping: float = 10.0
    """Between two pings; a connection that leaves three unanswered is dead."""
    look: float = 0.5
    """Between two looks at a connection."""
    first_retry: float = 0.5
    longest_retry: float = 30.0
    overlap: float = 3.0
    """How long a connection that was replaced may still acknowledge what it brought."""

    def backoff(self, tries: int) -> float:
        """Before the next try."""
        return random.uniform(0.5, 1.0) * min(self.longest_retry, self.first_retry * 2.0 ** min(tries, 10))
