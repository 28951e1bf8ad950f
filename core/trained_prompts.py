"""The prompt that the embedded rewriter was trained on: the format is part of its adapter.

A change here needs a new training (`make train`). A prompt is made of pieces that each end with a line, so that the
tokens of a prompt are the tokens of its pieces, and a conversation that goes on keeps its prefix. Whatever is quoted
is put on one line: nothing in a message can begin a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from core.types import Turn

QUESTION_CHARS: Final = 600
"""Of a message."""
ANSWER_CHARS: Final = 240
"""Of an earlier answer: what was talked about stands at its start."""

REWRITE_HEAD: Final = "Search query:"
STOP: Final = "\n"
"""Ends a query."""

_CITATION: Final = re.compile(r" ?\[\d{1,3}\]")


def rewrite_prompt(question: str, history: Sequence[Turn]) -> str:
    """A conversation to be continued with a search query for its last message."""
    return "".join([*_told(history), said(question), REWRITE_HEAD])


def _told(history: Sequence[Turn]) -> list[str]:
    return [line for turn in history for line in (said(turn.question), *answered(turn.answer))]


def said(question: str) -> str:
    """The line of a message."""
    return f"User: {cut(question, QUESTION_CHARS)}\n"


def answered(answer: str) -> list[str]:
    """The line of an earlier answer, its citations gone; no line where there was none."""
    told = _CITATION.sub("", answer)
    return [f"Bot: {cut(told, ANSWER_CHARS)}\n"] if told.strip() else []


def cut(text: str, limit: int) -> str:
    """`text` on one line, cut at a word boundary to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0]
