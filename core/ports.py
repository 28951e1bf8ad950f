"""What the pipeline needs from the outside, one to two methods each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from core.types import ChatRequest, Delta, Hits


class ChatModel(Protocol):
    """A chat model behind an endpoint."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Yields pieces until one has `finish` set.

        Raises `ModelError` (or a subclass) on any failure. Closing the generator aborts the call.
        """
        ...


class Tokenizer(Protocol):
    """Counts tokens as the chat model does."""

    async def count(self, texts: Sequence[str]) -> list[int] | None:
        """Tokens of each text, in order, without marks at its start or end; None where the endpoint does not tell.

        The texts are sanitized. Raises `ModelError` when it should tell and did not.
        """
        ...


class Embedder(Protocol):
    """Turns texts into vectors of one width."""

    @property
    def model(self) -> str:
        """Name kept with the index, so that a change of model is noticed."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit vector a text, in order; texts over the model's limit are cut, never refused.

        Raises `EmbedderError`.
        """
        ...


class Retriever(Protocol):
    """Finds passages."""

    async def search(self, text: str, scope: frozenset[str], limit: int) -> Hits:
        """At most `limit` passages of each kind, all within `scope`; empty hits if nothing is found.

        Raises `RetrievalError` when it could not look.
        """
        ...
