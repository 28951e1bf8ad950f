"""When a message is a question to the bot, the same on every platform.

A mention, a reply to the bot and a private message always are. In a conversation that is the bot's own a message
needs none of these, unless it is plainly meant for somebody else, or people have taken over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_SOLVED: Final = re.compile(
    r"\W*(?:(?:this|it) is |it's |that )?(?:solved|resolved|fixed|works now|never ?mind)"
    r"(?:[\s,!.]*(?:now|thanks|thank you|thx|cheers))*\W*",
    re.IGNORECASE,
)
_SOLVED_LABEL: Final = re.compile(r"\b(?:solved|resolved|answered|closed)\b|✅", re.IGNORECASE)
_LONGEST_WORD: Final = 60


class FollowUps(StrEnum):
    """Who may ask on in a conversation of the bot's own without a mention."""

    ALWAYS = "always"
    ASKER = "asker"
    """The person whose question opened it."""
    MENTION = "mention"
    """Nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """What a platform knows of whom a message is meant for."""

    to_us: bool
    """It mentions the bot, replies to it, or is private."""
    to_others: bool
    """It mentions or replies to somebody else."""
    ours: bool
    """The conversation is the bot's own."""
    by_asker: bool
    """Its author's question opened the conversation."""
    quiet: bool
    """Staff has taken over, or it was solved: see `quietens`."""


def is_question(message: Addressee, follow_ups: FollowUps) -> bool:
    """Whether the bot answers."""
    if message.to_us:
        return True
    if not message.ours or message.quiet or message.to_others or follow_ups is FollowUps.MENTION:
        return False
    return follow_ups is FollowUps.ALWAYS or message.by_asker


def says_solved(text: str) -> bool:
    """Whether a message says no more than that the matter is settled."""
    return len(text) <= _LONGEST_WORD and "?" not in text and _SOLVED.fullmatch(text) is not None


def labelled_solved(*labels: str) -> bool:
    """Whether one of a thread's title and tags says that it is settled."""
    return any(_SOLVED_LABEL.search(label) for label in labels)


def title_of(text: str, limit: int) -> str:
    """A name for a conversation, after its first question: one line, at most `limit` characters."""
    line = " ".join(text.split())
    if len(line) > limit:
        line = line[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,.;:") + "…"
    return line
