"""Every error that Threadwise raises on purpose.

ThreadwiseError             one line for people: what happened and what to do
├── ConfigError             the settings are wrong; lists all mistakes
├── DataDirError            the data directory cannot be used: locked, read-only, full, damaged, too new
├── IngestError             nothing could be ingested
├── EngineError             the embedded model could not be started
├── RetrievalError          the documents could not be searched
│   ├── IndexOutdated       the index was built with another embedding model
│   └── EmbedderError       the embedding endpoint failed
└── ModelError              the chat model failed
    ├── ModelUnavailable    refused, unreachable, overloaded or loading: asking later may work
    ├── ModelTimeout        a deadline passed: connect, first token, gap or wall
    ├── ModelRejected       the request was refused: asking again is no use
    │   └── ContextTooLong  the prompt is over the endpoint's context
    │       └── PromptCut   the endpoint cut the prompt without a word
    ├── ModelCut            the stream ended without a finish
    └── ModelGarbage        the reply is not what an OpenAI-style endpoint says

The docstring of each class is its message where none is given.
"""

from __future__ import annotations


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


class RetrievalError(ThreadwiseError):
    """The documents could not be searched."""


class IndexOutdated(RetrievalError):
    """The index was built with another embedding model: run `threadwise ingest` again."""


class EmbedderError(RetrievalError):
    """The embedding endpoint failed."""


class ModelError(ThreadwiseError):
    """The model failed."""


class ModelUnavailable(ModelError):
    """The model is not reachable."""

    retry_after: float | None = None
    """Seconds after which the endpoint wants to be asked again, if it said so."""


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
