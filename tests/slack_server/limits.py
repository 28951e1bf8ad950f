"""The limits of Slack's messages and methods, as its documentation and its users' reports tell them."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict, deque
from typing import Any, Final

from tests.slack_server.faults import ApiError, Json

POST_CHARS: Final = 40_000
UPDATE_BYTES: Final = 4_000
"""`chat.update` refuses a longer text, which `chat.postMessage` takes."""
SECTION_CHARS: Final = 3_000
HEADER_CHARS: Final = 150
CONTEXT_ELEMENTS: Final = 10
BLOCKS: Final = 50
MARKDOWN_CHARS: Final = 12_000
"""In all `markdown` blocks of one message together."""
ALL_BLOCKS_CHARS: Final = 13_200
STREAM_CALL_CHARS: Final = 12_000
"""Of the text of one call."""
STREAM_BYTES: Final = 10_600
"""Of one streamed message with the titles of its tasks: not documented, and refused above that when it was measured."""
TASK_CHARS: Final = 256
"""Of the title of a task card."""
METADATA_BYTES: Final = 8_000
SHORTCUT_CHARS: Final = 75
"""Of the text of a button."""
MODAL_BLOCKS: Final = 100

PER_MINUTE: Final = {
    "auth.test": 600,
    "apps.connections.open": 20,
    "chat.update": 50,
    "chat.delete": 50,
    "chat.postEphemeral": 100,
    "chat.startStream": 20,
    "chat.appendStream": 100,
    "chat.stopStream": 20,
    "conversations.replies": 50,
    "conversations.history": 50,
    "conversations.info": 50,
    "users.info": 100,
    "users.conversations": 50,
    "bots.info": 50,
    "reactions.add": 50,
    "views.open": 100,
    "views.publish": 100,
    "assistant.threads.setStatus": 600,
    "assistant.threads.setTitle": 50,
    "assistant.threads.setSuggestedPrompts": 50,
    "files.info": 100,
}
POSTS_AT_ONCE: Final = 10
"""`chat.postMessage` takes one a second in a channel, and short bursts."""

PING: Final = re.compile(r"<(?:!channel|!here|!everyone|!subteam\^|@[UW])")


class Pace:
    """A bucket for each method, that of `chat.postMessage` for each channel."""

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[str, str], deque[float]] = defaultdict(deque)

    def wait(self, method: str, channel: str) -> int:
        """Seconds after which this call is allowed; 0 if it is now."""
        if method == "chat.postMessage":
            key, most, window = (method, channel), POSTS_AT_ONCE, float(POSTS_AT_ONCE)
        elif method in PER_MINUTE:
            key, most, window = (method, ""), PER_MINUTE[method], 60.0
        else:
            return 0
        calls, now = self._calls[key], time.monotonic()
        while calls and calls[0] <= now - window:
            calls.popleft()
        if len(calls) >= most:
            return max(1, round(calls[0] + window - now))
        calls.append(now)
        return 0


def check_message(args: Json, *, update: bool) -> None:
    """Raises `ApiError` for what Slack would refuse in a message."""
    text, blocks = args.get("text") or "", listed(args.get("blocks"))
    if not text.strip() and not blocks and not args.get("markdown_text"):
        raise ApiError("no_text")
    if len(text) > POST_CHARS or (update and len(text.encode()) > UPDATE_BYTES):
        raise ApiError("msg_too_long")
    if len(args.get("markdown_text") or "") > MARKDOWN_CHARS:
        raise ApiError("msg_too_long")
    check_blocks(blocks)
    metadata = args.get("metadata")
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    if metadata is not None:
        payload = metadata.get("event_payload")
        if not metadata.get("event_type") or not isinstance(payload, dict):
            raise ApiError("invalid_metadata_format")
        if len(json.dumps(metadata)) > METADATA_BYTES:
            raise ApiError("metadata_too_large")


def listed(blocks: Any) -> list[Json]:
    """Blocks as they came: a list, or its JSON."""
    return (json.loads(blocks) if isinstance(blocks, str) else blocks) or []


def check_blocks(blocks: list[Json], most: int = BLOCKS) -> None:
    """Raises `ApiError` for blocks that are too many, too long or malformed."""
    if len(blocks) > most:
        raise ApiError("invalid_blocks")
    markdown = total = 0
    for block in blocks:
        markdown += _checked(block)
        total += sum(map(len, texts_of([block])))
    if markdown > MARKDOWN_CHARS:
        raise ApiError("invalid_blocks")
    if total > ALL_BLOCKS_CHARS:
        raise ApiError("msg_blocks_too_long")


def _checked(block: Json) -> int:
    """How many characters of markdown it holds."""
    kind = block.get("type")
    if kind == "section":
        text = block.get("text") or {}
        if not 0 < len(text.get("text") or "") <= SECTION_CHARS or text.get("type") not in ("mrkdwn", "plain_text"):
            raise ApiError("invalid_blocks")
    elif kind == "context":
        elements = block.get("elements") or []
        if not 0 < len(elements) <= CONTEXT_ELEMENTS:
            raise ApiError("invalid_blocks")
        if any(not 0 < len(element.get("text") or "") <= SECTION_CHARS for element in elements):
            raise ApiError("invalid_blocks")
    elif kind == "header":
        if not 0 < len((block.get("text") or {}).get("text") or "") <= HEADER_CHARS:
            raise ApiError("invalid_blocks")
    elif kind == "markdown":
        return len(block["text"])
    elif kind in ("actions", "context_actions"):
        _check_elements(block.get("elements") or [])
    elif kind not in ("divider", "rich_text", "input"):
        raise ApiError("invalid_blocks")
    return 0


def _check_elements(elements: list[Json]) -> None:
    if not elements:
        raise ApiError("invalid_blocks")
    for element in elements:
        buttons = [element]
        if element.get("type") == "feedback_buttons":
            buttons = [element.get("positive_button") or {}, element.get("negative_button") or {}]
        elif element.get("type") != "button":
            raise ApiError("invalid_blocks")
        for button in buttons:
            text = (button.get("text") or {}).get("text") or ""
            if not element.get("action_id") or not 0 < len(text) <= SHORTCUT_CHARS:
                raise ApiError("invalid_blocks")


def texts_of(blocks: list[Json]) -> list[str]:
    """All texts of blocks, in order."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("text"), str):
                found.append(value["text"])
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(blocks)
    return found
