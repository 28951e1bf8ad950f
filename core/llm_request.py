"""A `ChatRequest` -> the body of POST /chat/completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from core.types import ChatRequest

STOPS: Final = 4
"""OpenAI's limit. The output filter deals with the other stop strings."""


def request_body(request: ChatRequest, model: str, extra: Mapping[str, Any], *, stream_options: bool) -> dict[str, Any]:
    """The fields of the request; `extra` adds some and overrides none."""
    body: dict[str, Any] = {
        **extra,
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "n": 1,
        "stream": True,
    }
    if request.stop:
        body["stop"] = list(request.stop[:STOPS])
    if request.temperature == 0:
        body["seed"] = 0  # Servers differ in whether temperature 0 alone gives the same text twice.
    if stream_options:
        body["stream_options"] = {"include_usage": True}
    return body


def encoded(body: Mapping[str, Any]) -> bytes:
    """The body as JSON. Half a surrogate pair, which some chat clients send, becomes a question mark."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
