"""The bytes of a reply -> its text, finish and usage, whatever dialect of OpenAI's the server speaks.

Forgiving where the meaning is clear (comments, missing blank lines, content in parts, usage anywhere, plain
JSON although a stream was asked for), strict where it is not, and bounded in everything that it keeps.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from core.errors import ModelCut, ModelGarbage
from core.llm_place import Place
from core.llm_refusal import error_in_stream
from core.sse import SseDecoder
from core.types import Delta, FinishReason, Usage

log = logging.getLogger(__name__)

MAX_TEXT: Final = 200_000
MAX_EMPTY: Final = 10_000
MAX_JSON: Final = 2_000_000
MAX_TOKENS: Final = 2**31
"""No model reads or writes as many: a larger number is nonsense, and neither SQLite nor a metric could hold it."""
_FINISH: Final = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}
_ABORTED: Final = ("abort", "error", "cancelled")
"""Finish reasons of vLLM and SGLang for a reply that they gave up: not complete, whatever the name says."""


class ReplyReader:
    """Reads one reply. `where` is the endpoint's place, for messages; `tell` takes what may only be logged."""

    def __init__(self, where: Place, tell: Callable[[str], None] = lambda text: None) -> None:
        self.finish: FinishReason | None = None
        self.done = False
        """True once `[DONE]` was read: nothing of use follows."""
        self._where = where
        self._tell = tell
        self._sse = SseDecoder()
        self._json: bytearray | None = None
        self._counts: dict[str, int] = {}
        """Tokens that were told by now."""
        self._counted = False
        """Whether there was a usage among them."""
        self._begun = False
        self._events = 0
        self._choices = 0
        self._characters = 0
        self._empty = 0

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yields at each sign of the model at work: a piece of text, or "" for reasoning not shown."""
        if not self._begun:
            chunk = chunk.lstrip(b"\xef\xbb\xbf \t\r\n")
            if not chunk:
                return
            self._begin(chunk[:1])
        if self._json is not None:
            self._json += chunk
            if len(self._json) > MAX_JSON:
                raise ModelGarbage(f"{self._where} sent a reply of over {MAX_JSON} bytes.")
            return
        for data in self._sse.feed(chunk):
            yield from self._event(data)

    def end(self) -> Iterator[str]:
        """Takes in the end of the body; yields like `feed`."""
        if self._json is not None:
            yield from self._event(self._json.decode("utf-8", "replace"))
            self.done = True  # A document that parses is whole, with or without a finish reason.
            return
        for data in self._sse.flush():
            if not _is_whole(data):
                return  # The body ended inside an event: cut, not garbage.
            yield from self._event(data)

    def conclude(self) -> Delta:
        """The last delta of a complete reply; raises `ModelCut` or `ModelGarbage` for any other."""
        if not self._choices and (self._events or self._sse.strange_lines):
            raise ModelGarbage(f"{self._where} does not answer like a chat endpoint: check {self._where.named.url}.")
        if self.finish is None and not self.done:
            raise ModelCut(f"The reply of the model at {self._where} ended before it was complete.")
        return Delta(finish=self.finish or FinishReason.STOP, usage=self.usage)

    def _begin(self, first: bytes) -> None:
        self._begun = True
        if first == b"<":
            raise ModelGarbage(f"{self._where} sent a web page, not a reply: check {self._where.named.url}.")
        if first in (b"{", b"["):
            self._json = bytearray()

    def _event(self, data: str) -> Iterator[str]:
        if self.done or not data.strip():
            return
        self._events += 1
        if data.strip() == "[DONE]":
            self.done = True
            return
        event = self._parse(data)
        if self.finish is None and (error := error_in_stream(event, self._where)):
            self._tell(data)
            raise error
        self._take_usage(event)
        choice = self._choice(event)
        delta = _dict(choice.get("delta") or choice.get("message"))
        text = _text(delta.get("content"))
        at_work = bool(text or delta.get("reasoning_content") or delta.get("reasoning"))
        self._check_bounds(text, at_work)
        if at_work:
            yield text
        # After the text: a reply that was given up must not take its last words with it.
        if reason := choice.get("finish_reason"):
            self._take_finish(str(reason))

    def _parse(self, data: str) -> Mapping[str, Any]:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            if self.finish is not None:
                return {}  # All that matters has come.
            self._tell(data)
            raise ModelGarbage(f"{self._where} sent a reply that is not JSON.") from error
        if not isinstance(event, dict):
            raise ModelGarbage(f"{self._where} does not answer like a chat endpoint: check {self._where.named.url}.")
        return event

    def _choice(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return {}
        self._choices += 1
        return choice

    def _check_bounds(self, text: str, at_work: bool) -> None:
        self._characters += len(text)
        if self._characters > MAX_TEXT:
            raise ModelGarbage(f"The model at {self._where} wrote over {MAX_TEXT} characters.")
        self._empty = 0 if at_work else self._empty + 1
        if self._empty > MAX_EMPTY:
            raise ModelGarbage(f"The model at {self._where} sent {MAX_EMPTY} empty pieces in a row.")

    def _take_finish(self, reason: str) -> None:
        if reason in _ABORTED:
            raise ModelCut(f"The model at {self._where} gave up in the middle of its reply.")
        if reason not in _FINISH:
            log.warning("Unknown finish reason %.40r, taken for a stop.", reason)
        self.finish = _FINISH.get(reason, FinishReason.STOP)

    def _take_usage(self, event: Mapping[str, Any]) -> None:
        usage, timings = _dict(event.get("usage")), _dict(event.get("timings"))
        told = {
            "prompt": usage.get("prompt_tokens"),
            "completion": usage.get("completion_tokens"),
            "cached": _dict(usage.get("prompt_tokens_details")).get("cached_tokens"),
            "cache_n": timings.get("cache_n"),
        }
        # They may come in different events; one that does not tell a number leaves it as it was.
        self._counts |= {name: count for name, value in told.items() if (count := _count(value)) is not None}
        self._counted = self._counted or bool(usage)

    @property
    def usage(self) -> Usage | None:
        """What was told by now; None if it was nothing but what the cache held."""
        if not self._counted:
            return None
        return Usage(
            prompt_tokens=self._counts.get("prompt", 0),
            completion_tokens=self._counts.get("completion", 0),
            cached_tokens=self._counts.get("cached", self._counts.get("cache_n")),
        )


def _text(content: object) -> str:
    """Content is a text, nothing, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def _is_whole(data: str) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return data.strip() == "[DONE]"
    return True


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    """A number of tokens; None for what cannot be one."""
    if not isinstance(value, int) or isinstance(value, bool) or value > MAX_TOKENS:
        return None
    return max(value, 0)
