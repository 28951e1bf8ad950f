"""Stage 4: passages become a streamed answer with citations."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from core.errors import ModelError
from core.output import Hygiene, repeats
from core.ports import ChatModel
from core.types import ChatRequest, Citation, FinishReason, Usage

MAX_ANSWER_CHARS: Final = 20_000
"""Reading stops here, whatever `max_tokens` was."""
RENDER_ALL_BELOW: Final = 4_000
"""Characters up to which each piece is cleaned and shown; a longer text is every 5 % of growth."""

Show = Callable[[str], Awaitable[None]]
"""Takes the text in and returns at once: while it waits for a platform, its model call keeps its slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What came of the generation."""

    text: str
    """Clean, as it may be shown; empty if the model said nothing that may be."""
    citations: tuple[Citation, ...]
    finish: FinishReason | None
    """None when the stream broke off; `error` then says why."""
    usage: Usage = field(default_factory=Usage)
    first_token_seconds: float | None = None
    error: ModelError | None = None


async def generate(model: ChatModel, request: ChatRequest, hygiene: Hygiene, show: Show) -> Generated:
    """Streams the reply to `request` through `hygiene` into `show`, which gets the whole text each time.

    Raises `ModelError` when it failed before anything could be shown; a later failure is a value, with
    the text so far.
    """
    started = time.monotonic()
    raw, shown = "", ""
    first: float | None = None
    finish: FinishReason | None = None
    usage = Usage()
    failed: ModelError | None = None
    next_length = 0
    try:
        async with aclosing(model.stream(request)) as stream:
            async for delta in stream:
                usage, finish = delta.usage or usage, delta.finish or finish
                if not delta.text:
                    continue
                first = first if first is not None else time.monotonic() - started
                raw += delta.text
                if len(raw) > MAX_ANSWER_CHARS or (surplus := repeats(raw)):
                    raw = raw[:MAX_ANSWER_CHARS] if len(raw) > MAX_ANSWER_CHARS else raw[:-surplus]
                    finish = FinishReason.LENGTH
                    break
                if len(raw) >= next_length:
                    next_length = 0 if len(raw) < RENDER_ALL_BELOW else len(raw) + len(raw) // 20
                    if (text := hygiene.visible(raw, final=False)) != shown:
                        shown = text
                        await show(shown)
    except ModelError as error:
        if not hygiene.visible(raw, final=True):
            raise
        finish, failed = None, error
    text, citations = hygiene.settle(raw, whole=failed is None)
    return Generated(
        text=text, citations=citations, finish=finish, usage=usage, first_token_seconds=first, error=failed
    )
