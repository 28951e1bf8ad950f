"""An answer -> Slack messages: a section of mrkdwn each, the last one with remarks, sources and buttons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from adapters.markdown.mrkdwn import escaped, mrkdwn
from adapters.markdown.splitting import LEAST, split
from adapters.present import remarks
from core.outcome import NOTHING_ASKED
from core.types import Answer, Citation, titled

Json = dict[str, Any]

SECTION_CHARS: Final = 3_000
TEXT_BYTES: Final = 3_900
"""`chat.update` refuses texts of more than 4,000, counted after escaping, and every message may have to be updated."""
PART_CHARS: Final = 2_800
"""Of Markdown; what becomes too long as mrkdwn is split again."""
GROWING_MARK: Final = "…"
NOTHING: Final = "(nothing)"
"""In place of what cannot be seen: Slack takes no blank message."""
BLOCK: Final = "threadwise"
"""Begins the names of the blocks by which our messages are told."""
FEEDBACK: Final = "threadwise_feedback"
STOP: Final = "threadwise_stop"
TRY_AGAIN: Final = "threadwise_again"
EXACT: Final = "threadwise_exact"
QUERY: Final = "threadwise_query"
BUTTONS: Final = (FEEDBACK, STOP, TRY_AGAIN, EXACT, QUERY)
"""Their `action_id`s."""
HELPFUL: Final = "helpful"
NOT_HELPFUL: Final = "not_helpful"


def bodies(answer: Answer) -> list[str]:
    """The messages that show `answer`, as JSON with `text` and `blocks`; within Slack's limits."""
    parts = list(_parts(answer.text)) or [NOTHING]
    notes = [f"_{escaped(line)}_" for line in remarks(answer)]
    notes += _fitting([_source(citation) for citation in answer.citations])
    blocks = [[section(part)] for part in parts]
    if notes:
        blocks[-1].append({"type": "context", "elements": [_text("\n".join(notes))]})
    if not answer.stand_in:
        blocks[-1].append(_feedback())
    if answer.text != NOTHING_ASKED:
        blocks[-1].append(buttons(("Show query", QUERY), ("Try again", TRY_AGAIN)))
    texts = [*parts[:-1], _as_text(parts[-1], notes)]
    return [_body(text, its) for text, its in zip(texts, blocks, strict=True)]


def growing(text: str) -> str:
    """What the first message shows of an answer that is being written."""
    part = next(_parts(text[: 2 * PART_CHARS]), GROWING_MARK)
    return _body(part, [section(part), {"type": "context", "elements": [_text(GROWING_MARK)]}, stop_button()])


def waiting(text: str) -> str:
    """A word about what is going on."""
    return _body(escaped(text), [section(f"_{escaped(text)}_"), stop_button()])


def buttons(*named: tuple[str, str], value: str = "") -> Json:
    """A block of buttons, each a text and its `action_id`."""
    elements = [
        {"type": "button", "text": {"type": "plain_text", "text": text}, "action_id": action}
        | ({"value": value} if value else {})
        for text, action in named
    ]
    return {"type": "actions", "elements": elements}


def stop_button() -> Json:
    """Under an answer that is being made."""
    return buttons(("Stop", STOP))


def _parts(text: str) -> Iterator[str]:
    for part in split(text, PART_CHARS):
        yield from filter(str.strip, _fitted(part, PART_CHARS))


def _fitted(part: str, limit: int) -> Iterator[str]:
    shown = mrkdwn(part)
    if (len(shown) <= SECTION_CHARS and len(shown.encode()) <= TEXT_BYTES) or limit == LEAST:
        yield shown
        return
    limit = max(LEAST, limit // 2)
    for piece in split(part, limit):
        yield from _fitted(piece, limit)


def _as_text(part: str, notes: Sequence[str]) -> str:
    whole = "\n".join([part, *notes])
    return whole if len(whole.encode()) <= TEXT_BYTES else part


def _source(citation: Citation) -> str:
    title, source = titled(citation.title, citation.heading), citation.source
    number = f"[{citation.number}]"
    if source.startswith(("http://", "https://")):
        return f"{number} {mrkdwn(f'<{source}|{_label(title)}>')}"
    return f"{number} {escaped(title)} ({escaped(source)})"


def _label(title: str) -> str:
    return " ".join(title.replace("<", "‹").replace(">", "›").replace("|", "¦").split())


def _fitting(lines: Sequence[str]) -> list[str]:
    """As many of `lines` as a context block takes beside the remarks."""
    kept: list[str] = []
    for line in lines:
        if sum(map(len, kept)) + len(kept) + len(line) > SECTION_CHARS // 2:
            break
        kept.append(line)
    return kept


def _feedback() -> Json:
    def button(text: str, value: str) -> Json:
        return {"text": {"type": "plain_text", "text": text}, "value": value, "accessibility_label": text}

    buttons = {"positive_button": button("Helpful", HELPFUL), "negative_button": button("Not helpful", NOT_HELPFUL)}
    element = {"type": "feedback_buttons", "action_id": FEEDBACK, **buttons}
    return {"type": "context_actions", "elements": [element]}


def section(text: str) -> Json:
    """A block of mrkdwn."""
    # Without `expand` Slack folds a longer text away.
    return {"type": "section", "expand": True, "text": _text(text)}


def _text(text: str) -> Json:
    return {"type": "mrkdwn", "text": text}


def _body(text: str, blocks: list[Json]) -> str:
    return json.dumps({"text": text, "blocks": blocks}, ensure_ascii=False)
