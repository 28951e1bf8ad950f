"""What comes into a turn from outside, made safe for prompts: the sanitizer at every boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from core import smalltalk
from core.metrics import SANITIZED
from core.sanitize import assembled, label, prompt
from core.types import NOT_BORNE_OUT, ChatRequest, Passage, Question, Said, Turn

MAX_QUESTION_CHARS: Final = 4_000
"""Of a longer message the model sees this much, and the answer says so."""


def is_history(turn: Turn) -> bool:
    """Whether a later turn may refer to this one: not to one without an answer, and not to small talk."""
    return bool(turn.answer.strip()) and smalltalk.reply_to(turn.question) is None


def clean_question(question: Question) -> tuple[Question, bool]:
    """`question` with all its texts sanitized, and whether the typed words had to be cut."""
    text = _counted("question", prompt, question.text).strip()
    cleaned = replace(
        question,
        text=text[:MAX_QUESTION_CHARS],
        author=label(question.author),
        heard=clean_heard(question.heard),
        history=clean_history(question.history),
        summary=clean_summary(question.summary),
        facts=tuple(_counted("facts", prompt, fact) for fact in question.facts),
    )
    return cleaned, len(text) > MAX_QUESTION_CHARS


def clean_history(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Those of `turns` that are history, with all their texts sanitized."""
    return tuple(
        Turn(
            question=_counted("history", prompt, turn.question),
            # The passages that were shown are part of the conversation; our word before them would be copied.
            answer=_counted("history", prompt, turn.answer.removeprefix(NOT_BORNE_OUT).lstrip()),
            author=label(turn.author),
            heard=clean_heard(turn.heard),
            at=turn.at,
            searched=prompt(turn.searched),
        )
        for turn in turns
        if is_history(turn)
    )


def clean_heard(heard: Sequence[Said]) -> tuple[Said, ...]:
    """`heard` with names and texts sanitized."""
    return tuple(Said(author=label(said.author), text=_counted("history", prompt, said.text)) for said in heard)


def clean_summary(summary: str) -> str:
    """`summary` sanitized: a model wrote it, of what people typed."""
    return _counted("summary", prompt, summary)


def clean_passage(passage: Passage) -> Passage:
    """`passage` with its text, title and heading path sanitized."""
    return replace(
        passage,
        text=_counted("passage", prompt, passage.text),
        title=label(passage.title),
        heading=prompt(" ".join(passage.heading.split())),
    )


def clean_request(request: ChatRequest) -> ChatRequest:
    """The last look at an assembled prompt: joining clean pieces can make a token that none of them held."""
    messages = tuple(
        replace(message, content=_counted("assembled", assembled, message.content)) for message in request.messages
    )
    return replace(request, messages=messages)


def _counted(surface: str, sanitize: Callable[[str], str], text: str) -> str:
    cleaned = sanitize(text)
    if cleaned != text:
        SANITIZED.labels(surface=surface).inc()
    return cleaned
