"""Counts the calls to the chat model."""

from __future__ import annotations

import asyncio
from types import MappingProxyType, TracebackType
from typing import Final, Self

from core.errors import (
    ContextTooLong,
    ModelCut,
    ModelGarbage,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
)
from core.llm_reply import ReplyReader
from core.metrics import CACHED_SHARE, CACHED_TOKENS, MODEL_CALLS, PROMPT_TOKENS

RESULTS: Final = MappingProxyType(
    {
        ContextTooLong: "too_long",
        ModelRejected: "rejected",
        ModelUnavailable: "unavailable",
        ModelTimeout: "timeout",
        ModelCut: "cut",
        ModelGarbage: "garbage",
        asyncio.CancelledError: "cancelled",
        GeneratorExit: "cancelled",
    }
)
"""Classes of errors -> values of the label, the special before the general. Anything else is "bug"."""


class Tally:
    """One call, counted by how it ends when its context is left."""

    def __init__(self, purpose: str, reply: ReplyReader) -> None:
        self._purpose = purpose
        self._reply = reply
        self._succeeded = False

    def succeeded(self) -> None:
        """The reply is complete, whatever its reader does from here on."""
        self._succeeded = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        result = "ok"
        if not self._succeeded and error is not None:
            result = next((name for kind, name in RESULTS.items() if isinstance(error, kind)), "bug")
        MODEL_CALLS.labels(purpose=self._purpose, result=result).inc()
        if usage := self._reply.usage:
            PROMPT_TOKENS.labels(purpose=self._purpose).inc(usage.prompt_tokens)
            CACHED_TOKENS.labels(purpose=self._purpose).inc(usage.cached_tokens or 0)
            # An endpoint that does not tell must not look like one whose cache is cold.
            if usage.cached_tokens is not None and usage.prompt_tokens:
                share = min(1.0, usage.cached_tokens / usage.prompt_tokens)
                CACHED_SHARE.labels(purpose=self._purpose).observe(share)
