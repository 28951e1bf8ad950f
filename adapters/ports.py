"""What the dispatcher needs from the outside, and the values that cross it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from core.seat import JobLine
from core.types import PUBLIC_SCOPE, Answer, Citation, Degradation, Kept, QueryStatus, Question, Turn

AGAIN: Final = "-"
"""A question that is asked again is named "when-question", with the platform's id of the request as the moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadKey:
    """Names one conversation. All text: a Slack `ts` is a name, not a number."""

    platform: str
    workspace: str
    channel: str
    thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A message in a thread that was not put to the bot."""

    message_id: str
    author: str
    """Display name: untrusted text."""
    text: str
    by_person: bool = True
    """Whether a person wrote it; known where it was heard only."""


class Readers(StrEnum):
    """Who reads a conversation. What people say of themselves is told nowhere where others would read it."""

    ALONE = "alone"
    """Nobody but the asker."""
    CHANNEL = "channel"
    """Everybody who reads its channel."""
    THREAD = "thread"
    """Fewer than those: the thread is private."""
    UNKNOWN = ""
    """Not known, or the words are not the asker's own: nothing is remembered of them, and nothing told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody, as a workspace of a platform knows them."""

    platform: str
    workspace: str | None
    """None: in all of the platform's workspaces, where an id is the same person in each of them."""
    id: str

    def is_in(self, workspace: str) -> bool:
        """Whether it is one of theirs."""
        return self.workspace in (None, workspace)


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
    heard: tuple[Aside, ...] = ()
    """What was said in the thread since the last question, or before the first one, oldest first."""
    unread: tuple[str, ...] = ()
    """Names of files that came with it and were not read."""
    exact: bool = False
    """Whether the words are to be searched as they are, without a rewrite."""
    readers: Readers = Readers.UNKNOWN
    order: str = ""
    """Sorts, as text, like the messages of the thread (see `platform_order`); empty: in the order of arrival."""


class TurnState(StrEnum):
    ASKED = "asked"
    """Stored, not answered yet."""
    ANSWERED = "answered"
    INCOMPLETE = "incomplete"
    """The answer was cut off or stopped: what was shown of it is history, since people ask on from there."""
    FAILED = "failed"
    """No answer, or a stand-in for one."""
    DELETED = "deleted"
    """The asker has deleted the question: nothing of it is left."""


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
    prompt_tokens: int | None
    """As the endpoint counted them; None if there was no answer."""
    cached_tokens: int | None
    """Of them, what the endpoint had computed before; None if it does not tell."""
    state: TurnState
    readers: Readers
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
    summarized: int = 0
    """Pairs that the summary covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What no summary of a conversation covers yet, and the summary that a new one would replace."""

    conversation: int
    """The store's own id of the conversation: a forgotten thread that goes on is another one."""
    summary: str
    revision: int
    """How often something was taken out of the conversation or changed in it."""
    covered: int
    """The watermark: the summary holds the turns up to this `seq`, and none after it."""
    turns: Sequence[tuple[int, Turn]]
    """All pairs after the watermark with their `seq`, oldest first."""


class SummaryStore(Protocol):
    """The running summaries of conversations."""

    async def backlog(self, thread: ThreadKey) -> Backlog | None:
        """What the summary of the thread does not cover; None if there is no such thread."""
        ...

    async def condense(self, backlog: Backlog, upto: int, summary: str) -> bool:
        """Puts `summary` in the place of the backlog's and its watermark at `upto`, in one transaction.

        False, and nothing is changed, if the watermark has moved since, or something was deleted or edited.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A sentence that a person said of themselves, word for word."""

    text: str
    model: str = ""
    """The embedding model that made `vector`."""
    vector: bytes = b""
    """A float32 unit vector; empty if there is none."""


class FactStore(Protocol):
    """What people said of themselves, of each in each workspace apart."""

    async def statement(self, turn: int) -> str | None:
        """The asker's own words of an answered question; None if nothing of it is to be remembered."""
        ...

    async def add(self, turn: int, statement: str, facts: Sequence[Fact]) -> int:
        """Stores facts of the turn's asker; how many. None of them if `statement` is not to be remembered any more."""
        ...

    async def told(self, turn: int) -> list[Fact]:
        """Newest first, those of the turn's asker that everybody who reads its answer may know."""
        ...


class Threads(Protocol):
    """Looking at conversations and forgetting them, for a channel's commands."""

    async def threads(self, platform: str, limit: int) -> list[ThreadInfo]:
        """Newest first."""
        ...

    async def turns(self, thread: ThreadKey) -> list[StoredTurn]:
        """Oldest first."""
        ...

    async def abandon(self, platform: str) -> list[str]:
        """Ends what a killed process left unanswered on a platform that does not go on; the questions."""
        ...


Show = Callable[[str], Awaitable[None]]
"""Given the whole text so far, each time it has grown; what it was given before is a part of it."""


class Seat(JobLine, Protocol):
    """The place of one question in the line for the model."""

    @property
    def ahead(self) -> int:
        """Questions that are served before this one."""
        ...

    @property
    def wait_seconds(self) -> float | None:
        """About how long that takes; None if nobody knows yet."""
        ...

    async def near(self) -> None:
        """Returns when it is time to get ready. Raises `QuestionExpired`."""
        ...

    def leave(self) -> None:
        """Gives the place back; may be called again."""
        ...


class Gpu(Protocol):
    """The line for the model."""

    def enter(self, asker: str, place: str, *, enforce: bool = True, ttl: float | None = None) -> Seat:
        """A place at the end of the line. Raises `QueueFull`, unless the question was accepted before: then `ttl`
        is what is left of the seconds that it may wait."""
        ...


AnswerTurn = Callable[[Question, Show, JobLine], Awaitable[Answer]]
"""The function from a question to its answer that the dispatcher is given."""

Scope = Callable[[ThreadKey], frozenset[str]]
"""The documents that everybody who reads a conversation may see, by the names of their scopes."""


def public(thread: ThreadKey) -> frozenset[str]:
    """A `Scope`: nothing but what everybody may see."""
    return frozenset({PUBLIC_SCOPE})


Summarize = Callable[[str, Sequence[Turn]], Awaitable[str | None]]
"""From the earlier summary and the turns that leave the window to the new summary; None if it could not be made."""


Remember = Callable[[str], Awaitable[tuple[str, ...]]]
"""From a message to those of its sentences that are facts about its author; none if they could not be picked."""


class Phase(StrEnum):
    """What a message of ours shows."""

    WAITING = "waiting"
    """A word about what is going on."""
    GROWING = "growing"
    """The answer so far: plain text of any length of which the channel shows what fits, or a body of `InParts`."""
    FINAL = "final"
    """One of the bodies that the channel made of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One message of ours, as it is to look now."""

    thread: ThreadKey
    reply_to: str
    """Id of the question: the message refers to it, so that it can be found again."""
    key: str
    """16 hexadecimal digits that name the question; with `part`, the same at every try (a nonce, metadata)."""
    part: int
    """From 0. An answer that is too long for one message has several."""
    body: str
    phase: Phase
    asker: str = ""
    """Id of the person who asked."""


class Channel(Protocol):
    """Messages on one platform. Each call is one request; whoever calls repeats it.

    Raises `ChannelBusy` when told to wait, `ChannelGone` when no try will ever help, and `ChannelError` for
    everything else: lost connections, timeouts, errors of the server. After that one the call may have worked.
    """

    platform: str

    @property
    def pace(self) -> float:
        """Seconds between two edits of one message."""
        ...

    def bodies(self, answer: Answer) -> Sequence[str]:
        """The messages that show `answer` with its remarks and sources, at least one."""
        ...

    async def open(self, post: Post) -> str:
        """Creates the message; its id."""
        ...

    async def find(self, post: Post) -> Sequence[str]:
        """The ids of all our messages that refer to `post.reply_to` (any part), oldest first."""
        ...

    async def edit(self, message_id: str, post: Post) -> None: ...

    async def remove(self, message_id: str, post: Post) -> None:
        """Deletes the message; no error if it is gone."""
        ...


@runtime_checkable
class InParts(Protocol):
    """A channel that shows a growing answer in as many messages as it takes."""

    def growing(self, text: str) -> Sequence[str]:
        """The messages that show the answer so far, at least one; all but the last as they will stay."""
        ...


def opener_of(turns: Sequence[StoredTurn]) -> str:
    """The id of the person whose conversation it is; empty if nothing of it is left."""
    # Of a question that was deleted nobody is known any more.
    return next((turn.author_id for turn in turns if turn.author_id), "")


def again(when: str, message_id: str) -> str:
    """The name of a question that is asked again, from the id of its message or from the name of another time."""
    return f"{when}{AGAIN}{message_id.rpartition(AGAIN)[2]}"


def is_again(name: str, message_id: str) -> bool:
    """Whether a question's `name` says that it was asked again after the message."""
    return name.partition(AGAIN)[1:] == (AGAIN, message_id)


def platform_order(message_id: str) -> str:
    """An `Inbound.order` for ids that are numbers: Discord's snowflakes, Slack's `ts`. As text, "9" is after "10"."""
    return ".".join(number.rjust(20, "0") for number in message_id.split("."))
