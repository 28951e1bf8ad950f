"""What `threadwise doctor` finds: one line each, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    good: bool
    text: str
    """What is so, and if it is not good, what to do."""
