"""The prompts that the embedded model's adapters were trained on: the format is part of the adapter.

A change here needs a new training (`make train`). A prompt is made of pieces that each end with a line, so that the
tokens of a prompt are the tokens of its pieces, and a conversation that goes on keeps its prefix. Whatever is quoted
is put on one line: nothing in a message or a document can begin a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from core.types import Passage, Turn, titled

QUESTION_CHARS: Final = 600
"""Of a message."""
ANSWER_CHARS: Final = 240
"""Of an earlier answer: what was talked about stands at its start."""
TITLE_CHARS: Final = 120
PASSAGE_CHARS: Final = 1200
ANSWER_TURNS: Final = 3
"""Earlier turns that the answerer sees at most: 2 and 3 by turns, so that a prompt begins like the one before."""

REWRITE_HEAD: Final = "Search query:"
ANSWER_OPENING: Final = "Answers with sources:\n"
"""Begins the prompt of an answer, so that it shares no prefix with that of a rewrite: what is cached of a prompt was
computed with the adapter of its task."""
CONTEXT_OPEN: Final = "<<<CONTEXT>>>\n"
CONTEXT_CLOSE: Final = "<<<END CONTEXT>>>\n"
ANSWER_HEAD: Final = "Answer:"
STOP: Final = "\n"
"""Ends whatever an adapter says."""

_CITATION: Final = re.compile(r" ?\[\d{1,3}\]")


def rewrite_prompt(question: str, history: Sequence[Turn]) -> str:
    """A conversation to be continued with a search query for its last message."""
    return "".join([*_told(history), said(question), REWRITE_HEAD])


def answer_prompt(question: str, history: Sequence[Turn], passages: Sequence[Passage]) -> str:
    """A conversation, numbered passages and a question, to be continued with an answer that cites them."""
    found = [(titled(passage.title, passage.heading), passage.text) for passage in passages]
    recent = history[max(0, len(history) // 2 * 2 - 2) :]
    return "".join([ANSWER_OPENING, *_told(recent), *context(found), asked(question), ANSWER_HEAD])


def _told(history: Sequence[Turn]) -> list[str]:
    return [line for turn in history for line in (said(turn.question), *answered(turn.answer))]


def said(question: str) -> str:
    """The line of a message."""
    return f"User: {cut(question, QUESTION_CHARS)}\n"


def answered(answer: str) -> list[str]:
    """The line of an earlier answer, its citations gone; no line where there was none."""
    told = _CITATION.sub("", answer)
    return [f"Bot: {cut(told, ANSWER_CHARS)}\n"] if told.strip() else []


def context(passages: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of passages, given as title and text, numbered from 1 between lines that no passage can be."""
    lines = [
        f"[{n}] {cut(title, TITLE_CHARS)}: {cut(text, PASSAGE_CHARS)}\n" for n, (title, text) in enumerate(passages, 1)
    ]
    return [CONTEXT_OPEN, *lines, CONTEXT_CLOSE]


def asked(question: str) -> str:
    """The line of the question to be answered."""
    return f"Question: {cut(question, QUESTION_CHARS)}\n"


def cut(text: str, limit: int) -> str:
    """`text` on one line, cut at a word boundary to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0]
