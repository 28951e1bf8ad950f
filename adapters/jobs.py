"""What becomes of a question: the values that the dispatcher and its store pass each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from adapters.ports import Memory, ThreadKey, is_again
from core.types import Said


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DELIVERING = "delivering"
    """The final text is stored; from here on no model is asked."""
    REMOVING = "removing"
    """The question is gone, and our messages are to go too."""
    DONE = "done"
    UNDELIVERABLE = "undeliverable"
    """The place where the answer belongs is gone."""
    CANCELLED = "cancelled"


OPEN: Final = (JobState.QUEUED, JobState.RUNNING, JobState.DELIVERING, JobState.REMOVING)


class Ending(StrEnum):
    """How a job ended, or is about to."""

    ANSWERED = "answered"
    STOPPED = "stopped"
    """By the asker."""
    FAILED = "failed"
    """Given up after too many attempts."""
    EXPIRED = "expired"
    """It waited too long."""
    REFUSED = "refused"
    """Not accepted: the queue or the disk was full."""
    INTERRUPTED = "interrupted"
    """The process ended, and the channel does not go on where it was."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message of ours."""

    number: int
    message_id: str | None = None
    """None: not created yet, or created without our knowing."""
    body: str | None = None
    """What it shows in the end, once that is known."""
    delivered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A question that is to end in exactly one visible answer or notice."""

    id: int
    fence: int
    """Grows each time the job changes hands: with an older one nothing can be written."""
    thread: ThreadKey
    message_id: str
    key: str
    asker: str
    turn: int | None
    """None: there is nothing to answer (a refusal)."""
    state: JobState
    attempts: int
    age: float
    """Seconds since it was admitted, also across restarts."""
    parts: tuple[Part, ...]

    def asks(self, thread: ThreadKey, message_id: str) -> bool:
        """Whether its question is the message, or that asked again; whatever thread the message is said to be in."""
        channel = (thread.platform, thread.workspace, thread.channel)
        if (self.thread.platform, self.thread.workspace, self.thread.channel) != channel:
            return False
        return self.message_id == message_id or is_again(self.message_id, message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an attempt needs."""

    text: str
    author: str
    exact: bool
    heard: tuple[Said, ...]
    unread: tuple[str, ...]
    memory: Memory
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A message that was stored. The channel may acknowledge it."""

    job: int | None
    """None: refused without a word, since its asker was told a moment ago."""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A question that is gone, and with it each time that it was asked again."""

    remembered: frozenset[ThreadKey]
    """Where it had an answer: later prompts may have held both."""


class Edited(StrEnum):
    """What became of an edit."""

    UNKNOWN = "unknown"
    """No question of ours."""
    UNCHANGED = "unchanged"
    """The text is the same: only a preview or the like was added."""
    REPLACED = "replaced"
    """The question waits: it is answered as edited."""
    STORED = "stored"
    """The answer is under way or there: the channel may offer to answer again."""
