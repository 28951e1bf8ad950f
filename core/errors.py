"""Every error that Threadwise raises on purpose.

ThreadwiseError             one line for people: what happened and what to do
├── ConfigError             the settings are wrong; lists all mistakes
├── DataDirError            the data directory cannot be used: locked, read-only, full, damaged, too new
├── IngestError             nothing could be ingested
├── EngineError             the embedded model could not be started
├── QueueFull               a question too many: it is refused at once
├── QuestionExpired         a question waited too long for its turn
├── RetrievalError          the documents could not be searched
│   ├── IndexOutdated       the index was built with another embedding model
│   └── EmbedderError       the embedding endpoint failed
├── ChannelError            a chat platform did not do what it was asked; it may have, though
│   ├── ChannelBusy         asked to wait; nothing was done
│   └── ChannelGone         the message or its place is gone, or we may not write there: final
├── LeaseLost               somebody else has the job now
└── ModelError              the chat model failed
    ├── ModelUnavailable    refused, unreachable, overloaded or loading: asking later may work
    ├── ModelTimeout        a deadline passed: connect, first token, gap or wall
    ├── ModelRejected       the request was refused: asking again is no use
    │   └── ContextTooLong  the prompt is over the endpoint's context
    │       └── PromptCut   the endpoint cut the prompt without a word
    ├── ModelCut            the stream ended without a finish
    ├── ModelGarbage        the reply is not what an OpenAI-style endpoint says
    ├── NoSlot              a call that has a fallback was left out, since others wait for the model
    └── Preempted           background work gave way to a question

The docstring of each class is its message where none is given.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final


class ThreadwiseError(Exception):
    """Something went wrong."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(ThreadwiseError):
    """The settings are wrong."""


class DataDirError(ThreadwiseError):
    """The data directory cannot be used."""


class IngestError(ThreadwiseError):
    """Nothing could be ingested."""


class EngineError(ThreadwiseError):
    """The embedded model could not be started."""


class QueueFull(ThreadwiseError):
    """A question too many."""

    SENTENCES: Final = MappingProxyType(
        {
            "total": "Too many questions are waiting already. Please ask again in a few minutes.",
            "asker": "Your earlier questions are still waiting. Please ask again when they are answered.",
            "place": "Too many questions from here are waiting already. Please ask again in a few minutes.",
        }
    )

    def __init__(self, reason: str) -> None:
        super().__init__(self.SENTENCES[reason])
        self.reason = reason
        """Whose limit it was: "total", "asker" or "place"; a metrics label."""


class QuestionExpired(ThreadwiseError):
    """This question waited too long for its turn. Please ask again if you still want to know."""


class RetrievalError(ThreadwiseError):
    """The documents could not be searched."""


class IndexOutdated(RetrievalError):
    """The index was built with another embedding model: run `threadwise ingest` again."""


class EmbedderError(RetrievalError):
    """The embedding endpoint failed."""


class ChannelError(ThreadwiseError):
    """The chat platform could not be reached, or its reply was lost."""

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the platform wants to be asked again, if it said so."""


class ChannelBusy(ChannelError):
    """The chat platform asked to wait."""


class ChannelGone(ChannelError):
    """The message or its place on the chat platform is gone."""


class LeaseLost(ThreadwiseError):
    """Somebody else has the job now."""


class ModelError(ThreadwiseError):
    """The model failed."""


class ModelUnavailable(ModelError):
    """The model is not reachable."""

    retry_after: float | None = None
    """Seconds after which the endpoint wants to be asked again, if it said so."""
    not_taken: bool = False
    """Whether the endpoint never began with the call, so that it says nothing about the call."""


class ModelTimeout(ModelError):
    """The model took too long."""


class ModelRejected(ModelError):
    """The model's endpoint refused the request."""


class ContextTooLong(ModelRejected):
    """The prompt is longer than the model's context."""


class PromptCut(ContextTooLong):
    """The endpoint cut the front of the prompt without an error: set LLM_CONTEXT_TOKENS to its real context."""


class ModelCut(ModelError):
    """The model's reply was cut off."""


class ModelGarbage(ModelError):
    """The endpoint does not answer like an OpenAI-style chat endpoint."""


class NoSlot(ModelError):
    """The model is needed for other calls."""


class Preempted(ModelError):
    """The model was needed for a question."""
