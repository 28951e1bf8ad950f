"""How much of what was said beside the questions the bot is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from adapters.ports import Aside

MOST_CHARS: Final = 3_000
LONGEST: Final = 600
"""Characters of one message."""


def within(asides: Sequence[Aside]) -> tuple[Aside, ...]:
    """The first, and of the others the newest that there is room for."""
    if not asides:
        return ()
    left = MOST_CHARS - len(asides[0].text)
    kept: list[Aside] = []
    for aside in reversed(asides[1:]):
        left -= len(aside.text)
        if left < 0:
            break
        kept.append(aside)
    return (asides[0], *reversed(kept))
