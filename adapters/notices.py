"""What the dispatcher itself says: while a question waits, and where no answer comes."""

from __future__ import annotations

from typing import Final

from core.types import Answer, Degradation, Query, QueryStatus

WORKING: Final = "Looking into the documents ..."
AGAIN: Final = "Answering again ..."
FAILED: Final = "This could not be answered: something went wrong each time it was tried. Please ask again later."
STOPPED: Final = "stopped"
"""Reason of the mark on an answer that its asker stopped."""
EXACT: Final = 10
"""Places up to which the line is counted exactly."""
DISK: Final = "I cannot take questions just now: the disk of the machine that I run on is nearly full."


def position(ahead: int, wait_seconds: float | None) -> str:
    """Where a question stands in the line."""
    if ahead <= 0:
        return WORKING
    if ahead > EXACT:
        # Far behind, every word would change all the time, and each change costs a request to the platform.
        return f"Queued, more than {ahead // EXACT * EXACT} ahead"
    about = "" if wait_seconds is None else f", about {_rounded(wait_seconds)}"
    return f"Queued, {ahead} ahead{about}"


def notice(text: str) -> Answer:
    """A sentence of ours as an answer."""
    query = Query(text="", status=QueryStatus.FAILED, reason="not answered")
    return Answer(text=text, query=query, complete=False, stand_in=True)


def stopped(shown: str) -> Answer:
    """What was shown of an answer when its asker stopped it."""
    query = Query(text="", status=QueryStatus.FAILED, reason=STOPPED)
    mark = Degradation(stage="generate", reason=STOPPED)
    return Answer(text=shown, query=query, degraded=(mark,), complete=False, stand_in=not shown)


def _rounded(seconds: float) -> str:
    if seconds < 90:
        return f"{max(5, round(seconds / 5) * 5)} s"
    return f"{round(seconds / 60)} min"
