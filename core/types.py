"""The values that flow through a turn. All frozen, none of them can act; no I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

PUBLIC_SCOPE: Final = "public"
NOT_BORNE_OUT: Final = "The model gave no answer that the documents bear out. These passages fit your question best:"
"""Before passages that are shown in the place of an answer."""
NOT_IN_DOCUMENTS: Final = "I could not find this in the documents."
"""What is said, by the model and by us, when no passage answers."""

CARRIED_OVER: Final = "carried_over"
"""Reason of a `Degradation`: a follow-up found nothing, and has the passages of the question before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody said in a conversation that was no question to the bot (raw, not sanitized)."""

    author: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One pair of a conversation, as it was typed and answered (raw, not sanitized)."""

    question: str
    answer: str
    author: str = ""
    at: datetime | None = None
    heard: tuple[Said, ...] = ()
    """What was said between the turn before and this one, oldest first."""
    searched: str = ""
    """What was searched for it; empty if nothing was, or if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked now, and what the conversation holds already."""

    text: str
    """The asker's own words, as typed."""
    author: str = ""
    history: tuple[Turn, ...] = ()
    """The pairs that the summary does not cover, oldest first."""
    heard: tuple[Said, ...] = ()
    """What was said since the last pair and is no question to the bot, oldest first."""
    summary: str = ""
    """Running summary of the turns before the history; empty if none."""
    summarized: int = 0
    """Pairs that the summary covers."""
    facts: tuple[str, ...] = ()
    """What the asker said about themselves in earlier conversations, as far as this one's readers may see it."""
    exact: bool = False
    """Whether the typed words are to be searched as they are."""
    scope: frozenset[str] = frozenset({PUBLIC_SCOPE})
    """Names of the document scopes that the audience of the reply may see."""


class QueryStatus(StrEnum):
    """What became of the rewrite. Also the label of `rag_rewriter_requests_total`."""

    SKIPPED = "skipped"
    """First message, or nothing to search for: no model call."""
    REWRITTEN = "rewritten"
    REJECTED = "rejected"
    """The model's reply was not a usable query; the typed words are searched."""
    FAILED = "error"
    """The call failed or took too long; the typed words are searched."""
    SHED = "shed"
    """Left out under load; the typed words are searched."""
    COMPLETE = "complete"
    """The question is complete as it was typed: the rewrite gate saved the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The text handed to the retriever."""

    text: str
    """Empty when nothing is searched (a greeting, thanks)."""
    status: QueryStatus
    reason: str = ""
    """One short phrase for the operator and `/rewrite`, e.g. "several lines"."""
    beside_typed: bool = False
    """The rewrite left out something of the typed words, so they count as much as it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a document, as it was indexed."""

    id: str
    text: str
    title: str
    """Title of the document."""
    source: str
    """Path or URL of the document: what a citation links to."""
    heading: str
    """Heading path inside the document, "A > B"; empty at its top."""
    scope: str = PUBLIC_SCOPE
    score: float = 0.0
    """Set by whoever ranks: cosine similarity, BM25 or fused weight; higher is better."""


def titled(title: str, heading: str) -> str:
    """Title and heading path as one line; a heading that only repeats the title is left out."""
    return " > ".join(part for part in (title, heading if heading != title else "") if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """What one query found, by both kinds of search, best first."""

    dense: tuple[Passage, ...] = ()
    """Scores are cosine similarities, -1 to 1."""
    keyword: tuple[Passage, ...] = ()
    """Scores are BM25, above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """Passages for the prompt. "Nothing found" and "could not look" are different values."""

    passages: tuple[Passage, ...] = ()
    failed: bool = False
    """True when the documents could not be searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """A stage that fell back, and why, in one short phrase without user text."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the endpoint counted them; `cached_tokens` is the share of the prompt it had already."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a model request. `role` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One call to the chat model."""

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    purpose: str = "generate"
    """"generate", "rewrite", "summarize" or "remember": a metrics label, and the choice of slot and deadlines."""


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    """Cut at `max_tokens`."""
    FILTERED = "content_filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a streamed reply. The last one has `finish` set; a stream without it was cut."""

    text: str = ""
    finish: FinishReason | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A source the answer points to: `[number]` in its text."""

    number: int
    title: str
    source: str
    heading: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What of the conversation reached the generator's prompt."""

    turns: int = 0
    turns_dropped: int = 0
    turns_summarized: int = 0
    passages: int = 0
    passages_dropped: int = 0
    facts: int = 0
    """Of what the asker said about themselves elsewhere."""
    counted: bool = False
    """Whether the tokens here are the model's own count of each text; else they are our estimate."""
    turn_tokens: int = 0
    summary_tokens: int = 0
    passage_tokens: int = 0
    prompt_tokens: int = 0
    """Of all together."""
    budget: int = 0
    """Tokens the prompt may have: context less room for the answer and a margin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a turn."""

    text: str
    """What may be shown: cleaned, with `[n]` markers that all have a citation."""
    query: Query
    passages: tuple[Passage, ...] = ()
    citations: tuple[Citation, ...] = ()
    degraded: tuple[Degradation, ...] = ()
    usage: Usage = field(default_factory=Usage)
    timings: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Seconds by stage: rewrite, retrieve, generate, first_token, total."""
    kept: Kept = field(default_factory=Kept)
    unread: tuple[str, ...] = ()
    """Names of files that came with the question and were not read."""
    complete: bool = True
    """False when the text was cut off or is a stand-in."""
    stand_in: bool = False
    """True when no answer could be made, and the text says so in our own words; such a turn is no history."""

    @property
    def says_nothing_found(self) -> bool:
        """Whether the text says that the documents do not tell."""
        return self.text.startswith(NOT_IN_DOCUMENTS)
