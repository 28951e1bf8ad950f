"""What Gemma's chat template takes, as a check of requests and as an endpoint that enforces it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from core.prompts import CONTEXT_CLOSE, CONTEXT_OPEN
from core.types import ChatRequest
from tests.servers.replies import Json, Reply

MARKERS = ("<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|im_start|>", "<|im_end|>", "<|channel>")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff\U000e0000-\U000e007f]")

Messages = Sequence[tuple[str, str]]


def messages_of(request: ChatRequest | Mapping[str, object]) -> Messages:
    """Roles and contents, of a request of ours or of the body that was sent."""
    if isinstance(request, ChatRequest):
        return [(message.role, message.content) for message in request.messages]
    sent = request["messages"]
    assert isinstance(sent, list)
    return [(message["role"], message["content"]) for message in sent]


def text_of(request: ChatRequest | Mapping[str, object]) -> str:
    return "\n".join(content for _, content in messages_of(request))


def refusal_of(messages: Messages) -> str:
    """Why Gemma 3's template would not take these messages; empty if it does."""
    roles = [role for role, _ in messages]
    if "system" in roles:
        return "System role not supported"
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        return "Conversation roles must alternate user/assistant/user/assistant/..."
    if any(not content.strip() for _, content in messages):
        return "content must not be empty"
    return ""


def is_gemma_safe(request: ChatRequest | Mapping[str, object]) -> bool:
    return not refusal_of(messages_of(request))


SUMMARY = "They asked which oil the Kestrel pump takes. It takes 0.8 L."


def gemma_endpoint(*answers: str, rewrite: str = "Kestrel filter interval") -> Callable[[Json], Reply]:
    """A default of `OpenAIServer`: the last of `answers` is repeated."""
    left = list(answers)

    def reply(body: Json) -> Reply:
        if why := refusal_of(messages_of(body)):
            return Reply(status=400, body=json.dumps({"error": {"message": why}}))
        if is_rewrite(body):
            return Reply(pieces=(rewrite,))
        if is_summary(body):
            return Reply(pieces=(SUMMARY,))
        return Reply(pieces=(left.pop(0) if len(left) > 1 else left[0],))

    return reply


def is_rewrite(body: Mapping[str, object]) -> bool:
    return "one query for a search engine" in text_of(body)


def is_summary(body: Mapping[str, object]) -> bool:
    return "You keep the notes of a chat" in text_of(body)


def summaries_in(chats: Sequence[Json]) -> list[Json]:
    return [body for body in chats if is_summary(body)]


def rewrites_in(chats: Sequence[Json]) -> list[Json]:
    return [body for body in chats if is_rewrite(body)]


def generations_in(chats: Sequence[Json]) -> list[Json]:
    return [body for body in chats if not is_rewrite(body) and not is_summary(body)]


def context_of(request: ChatRequest | Mapping[str, object]) -> str:
    """What stands between the delimiters of the last message."""
    last = messages_of(request)[-1][1]
    return last.rpartition(f"{CONTEXT_OPEN} ")[2].rpartition(f"{CONTEXT_CLOSE} ")[0]


def laid_open(text: str) -> str:
    """`text` as a tokenizer might see it that folds: no invisible signs, compatibility forms resolved."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


def markers_in(text: str) -> list[str]:
    return [marker for marker in MARKERS if marker in laid_open(text).casefold()]
