"""The prompts that the embedded model's adapters were trained on: the format is part of the adapter.

A change here needs a new training (`make train`). A prompt is made of pieces that each end with a line, so that the
tokens of a prompt are the tokens of its pieces, and a conversation that goes on keeps its prefix. Whatever is quoted
is put on one line: nothing in a message or a document can begin a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.types import Passage, Turn, titled

QUESTION_CHARS: Final = 600
"""Of a message."""
ANSWER_CHARS: Final = 240
"""Of an earlier answer: what was talked about stands at its start."""
PASSAGE_CHARS: Final = 1000

REWRITE_HEAD: Final = "Search query:"
ANSWER_HEAD: Final = "Bot:"
ANSWER_TURNS: Final = 3
"""Earlier turns that the answerer sees; it reads them anew for each question."""


def rewrite_prompt(question: str, history: Sequence[Turn]) -> str:
    """A conversation to be continued with a search query for its last message."""
    lines = [line for turn in history for line in (said(turn.question), *answered(turn.answer))]
    return "".join([*lines, said(question), REWRITE_HEAD])


def answer_prompt(question: str, history: Sequence[Turn], passages: Sequence[Passage]) -> str:
    """Numbered passages and a conversation, to be continued with an answer that cites them."""
    numbered = [passage_line(n, titled(p.title, p.heading), p.text) for n, p in enumerate(passages, 1)]
    lines = [line for turn in history[-ANSWER_TURNS:] for line in (said(turn.question), *answered(turn.answer))]
    return "".join([*numbered, *lines, said(question), ANSWER_HEAD])


def said(question: str) -> str:
    """The line of a message."""
    return f"User: {cut(question, QUESTION_CHARS)}\n"


def answered(answer: str) -> list[str]:
    """The line of an earlier answer; no line where there was none."""
    return [f"Bot: {cut(answer, ANSWER_CHARS)}\n"] if answer.strip() else []


def passage_line(number: int, title: str, text: str) -> str:
    """The line of a passage."""
    return f"[{number}] {cut(title, 120)}: {cut(text, PASSAGE_CHARS)}\n"


def cut(text: str, limit: int) -> str:
    """`text` on one line, cut at a word boundary to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0]
