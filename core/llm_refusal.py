"""What an endpoint says instead of a reply -> an error of ours, by status code and wording.

Servers word the same refusal differently; the wordings here are those of OpenAI, vLLM, SGLang, llama.cpp,
llama-cpp-python, Ollama and text-generation-inference. A message names the place, what happened and
the setting to look at; never the body of the response, which may quote the prompt or the key.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.errors import ContextTooLong, ModelError, ModelRejected, ModelUnavailable
from core.llm_place import Place

_CONTEXT: Final = re.compile(r"context[ _-]?(?:length|size|window)|max(?:imum)?[ _]model[ _]len|max_new_tokens|prompt")
_OVER: Final = re.compile(r"exceed|too long|too large|too many|longer than|larger than|maximum|must be <=")
_UNKNOWN_MODEL: Final = re.compile(r"model_not_found|model\b.{0,200}(?:not found|not exist|unknown)", re.DOTALL)
_LOADING: Final = re.compile(r"loading model|model (?:is )?(?:still |currently )?loading")
_TEMPLATE: Final = re.compile(r"roles must alternate|system role not supported|jinja|chat[ _]template")
_WORDS: Final = 400
"""Characters of a message that are read: some servers quote the prompt behind them."""
_WORDS_FOR_STATUS: Final = (
    (re.compile(r"rate.?limit|overload|unavailable|too many requests|queue"), 503),
    (re.compile(r"authentication|invalid_api_key|permission"), 401),
    (re.compile(r"invalid_request|bad_?request|invalidparam"), 400),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An HTTP response that is no reply."""

    status: int
    text: str
    """Its body, cut."""
    retry_after: float | None = None

    def names(self, parameter: str) -> bool:
        """True when the server complains about this parameter of the request."""
        return self.status in (400, 422) and parameter in self.text

    def error(self, where: Place) -> ModelError:
        """The error that says it."""
        return error_for(self.status, self.text, where, self.retry_after)


def unavailable(message: str, *, not_taken: bool = False, retry_after: float | None = None) -> ModelUnavailable:
    """A `ModelUnavailable` that knows whether the endpoint began with the call, and when to ask again."""
    error = ModelUnavailable(message)
    error.not_taken, error.retry_after = not_taken, retry_after
    return error


def retry_after(error: BaseException) -> float | None:
    """Seconds after which the endpoint wants to be asked again, if it said so."""
    seconds = getattr(error, "retry_after", None)
    return float(seconds) if seconds is not None else None


def error_for(status: int, text: str, where: Place, wait: float | None = None) -> ModelError:
    """The error for a status code and the words that came with it."""
    words = _words(text)
    if status == 413 or (status in (400, 422, 500) and _is_too_long(words)):
        return ContextTooLong(f"The prompt is longer than the context of the model at {where}.")
    if _LOADING.search(words):
        return unavailable(f"The model at {where} is still loading.", not_taken=True, retry_after=wait)
    if status in (401, 403):
        return ModelRejected(f"{where} refused the key (HTTP {status}): check {where.named.key}.")
    if status in (400, 404) and _UNKNOWN_MODEL.search(words):
        return ModelRejected(f"{where} does not serve this model (HTTP {status}): check {where.named.model}.")
    if status in (404, 405) or 300 <= status < 400:
        return ModelRejected(
            f"{where} has no chat endpoint here (HTTP {status}): check {where.named.url}, which usually ends in /v1."
        )
    if _TEMPLATE.search(words):
        return ModelRejected(
            f"The chat template of the model at {where} refused the messages (HTTP {status}): check the model profile."
        )
    if status == 429 or status >= 500 or status in (408, 425):
        message = f"The model at {where} is not available (HTTP {status})."
        return unavailable(message, not_taken=status in (425, 429, 503), retry_after=wait)
    return ModelRejected(f"{where} refused the request (HTTP {status}).")


def error_in_stream(event: Mapping[str, Any], where: Place) -> ModelError | None:
    """The error that an event of the stream, or a JSON reply, holds; `None` if it holds none."""
    error = event.get("error")
    if not error and event.get("object") != "error":
        return None
    code = error.get("code") if isinstance(error, dict) else event.get("code")
    text = json.dumps(dict(event))
    return error_for(_status_of(code, _words(text)), text, where)


def parse_retry_after(value: str | None) -> float | None:
    """Seconds, from either form of the header; `None` when there is none that makes sense."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _words(text: str) -> str:
    """Message, type and code of an error body, in lower case and cut."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return text[:_WORDS].lower()
    parts = []
    for holder in (body, body.get("error") if isinstance(body, dict) else None):
        if isinstance(holder, dict):
            parts += [holder.get(key) for key in ("code", "type", "message", "error", "detail")]
    return " ".join(part[:_WORDS] for part in parts if isinstance(part, str)).lower()


def _is_too_long(words: str) -> bool:
    return bool(_CONTEXT.search(words) and _OVER.search(words))


def _status_of(code: object, words: str) -> int:
    """The HTTP status that an error inside a stream stands for."""
    digits = str(code)
    if digits.isdigit() and 400 <= int(digits) < 600:
        return int(digits)
    if _is_too_long(words):
        return 400
    return next((status for pattern, status in _WORDS_FOR_STATUS if pattern.search(words)), 500)
