"""What people may see and remove of what is remembered of them: the same words on every platform, for them alone."""

from __future__ import annotations

import re
from typing import Final, Protocol

from adapters.ports import Person

ME: Final = "me"
LARGEST: Final = 999_999_999
"""Number of a fact that is looked up."""
OFF: Final = "Nothing new is remembered: MEMORY_ENABLED is not set, or the model cannot do it."
NOTHING: Final = "Nothing is remembered of you yet."
NO_SUCH: Final = "Nothing of this number is remembered of you: /memory shows the numbers."

_WHICH: Final = re.compile(r"me(?:\s+#?(?P<number>[0-9]{1,9}))?", re.IGNORECASE | re.ASCII)


class Rememberer(Protocol):
    """Knows what is remembered of people: the dispatcher."""

    @property
    def remembers(self) -> bool: ...

    async def facts_about(self, person: Person) -> dict[int, str]: ...

    async def forget_about(self, person: Person, number: int | None = None) -> tuple[str, ...]: ...


async def memory_lines(desk: Rememberer, person: Person) -> list[str]:
    """What is remembered of a person, newest first, each with its number. There may be facts from when it was on."""
    facts = await desk.facts_about(person)
    off = [] if desk.remembers else [OFF]
    return [*off, *(f"#{number} {text}" for number, text in facts.items())] or [NOTHING]


async def forget_as_told(desk: Rememberer, person: Person, words: str) -> str | None:
    """Does what stands after `/forget`, if it is about the person ("me", "me 12"); what they are told. None if not."""
    found = _WHICH.fullmatch(words.strip())
    if found is None:
        return None
    return await forget_me(desk, person, int(found["number"]) if found["number"] else None)


async def forget_me(desk: Rememberer, person: Person, number: int | None = None) -> str:
    """Removes one fact about a person by its number, or all of them; what they are told."""
    gone = await desk.forget_about(person, number)
    if not gone and not desk.remembers:
        return OFF
    if number is None:
        return f"Removed {len(gone)} fact{'s' if len(gone) != 1 else ''} about you for good. Your threads stay."
    return f"Removed for good: {gone[0]}" if gone else NO_SUCH
