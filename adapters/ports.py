"""What the dispatcher needs from the outside, and the values that cross it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from core.types import Answer, Citation, Degradation, Kept, QueryStatus, Question, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadKey:
    """Names one conversation. All text: a Slack `ts` is a name, not a number."""

    platform: str
    workspace: str
    channel: str
    thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """A message that is addressed to the bot, its own mention stripped."""

    message_id: str
    """Unique within its channel, as the platform names it."""
    thread: ThreadKey
    author_id: str
    author: str
    """Display name: untrusted text."""
    text: str
    sent_at: datetime


class TurnState(StrEnum):
    ASKED = "asked"
    """Stored, not answered yet."""
    ANSWERED = "answered"
    INCOMPLETE = "incomplete"
    """The answer was cut off or stopped: what was shown of it is history, since people ask on from there."""
    FAILED = "failed"
    """No answer, or a stand-in for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn:
    """One row of a conversation. Typed, searched, answered, cited and degraded are separate."""

    id: int
    seq: int
    """Position in the thread, from 1."""
    message_id: str
    author_id: str
    author: str
    typed: str
    searched: str
    query_status: QueryStatus | None
    query_reason: str
    answered: str
    citations: tuple[Citation, ...]
    degraded: tuple[Degradation, ...]
    kept: Kept
    state: TurnState
    asked_at: datetime
    answered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """One line of a list of conversations."""

    key: ThreadKey
    title: str
    """The first question, as typed."""
    turns: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a conversation holds for the next turn."""

    turns: Sequence[Turn] = ()
    """The newest pairs that the summary does not cover, oldest first."""
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What no summary of a conversation covers yet, and the summary that a new one would replace."""

    conversation: int
    """The store's own id of the conversation: a forgotten thread that goes on is another one."""
    summary: str
    covered: int
    """The watermark: the summary holds the turns up to this `seq`, and none after it."""
    turns: Sequence[tuple[int, Turn]]
    """All pairs after the watermark with their `seq`, oldest first."""


class ConversationStore(Protocol):
    """The memory of conversations."""

    async def ask(self, inbound: Inbound) -> int | None:
        """Stores the question, in the order of calls; its turn id, or None if the message is known."""
        ...

    async def finish(self, turn_id: int, answer: Answer, state: TurnState) -> None:
        """Stores what was searched, answered, cited and degraded, in one transaction."""
        ...

    async def history(self, thread: ThreadKey, before: int, limit: int) -> Memory:
        """What the thread holds before turn id `before`: its summary and the newest `limit` pairs after that."""
        ...


class SummaryStore(Protocol):
    """The running summaries of conversations."""

    async def backlog(self, thread: ThreadKey) -> Backlog | None:
        """What the summary of the thread does not cover; None if there is no such thread."""
        ...

    async def condense(self, backlog: Backlog, upto: int, summary: str) -> bool:
        """Puts `summary` in the place of the backlog's and its watermark at `upto`, in one transaction.

        False, and nothing is changed, if the watermark has moved or the conversation was forgotten since.
        """
        ...


class Threads(Protocol):
    """Looking at conversations and forgetting them, for a channel's commands."""

    async def threads(self, platform: str, limit: int) -> list[ThreadInfo]:
        """Newest first."""
        ...

    async def turns(self, thread: ThreadKey) -> list[StoredTurn]:
        """Oldest first."""
        ...

    async def forget(self, thread: ThreadKey) -> int:
        """Removes the conversation for good; how many turns it had."""
        ...


Show = Callable[[str], Awaitable[None]]
"""Given the whole text so far, each time it has grown; what it was given before is a part of it."""

AnswerTurn = Callable[[Question, Show], Awaitable[Answer]]
"""The function from a question to its answer that the dispatcher is given."""


Summarize = Callable[[str, Sequence[Turn]], Awaitable[str | None]]
"""From the earlier summary and the turns that leave the window to the new summary; None if it could not be made."""


class Reply(Protocol):
    """One reply in a thread: shown while it grows, then settled."""

    async def show(self, text: str) -> None: ...

    async def finish(self, answer: Answer) -> None: ...
