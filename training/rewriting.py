"""Conversations with good search queries -> what the rewriter learns from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from core import words
from core.trained_prompts import ANSWER_CHARS, QUESTION_CHARS, REWRITE_HEAD, STOP, answered, cut, said
from core.types import NOT_IN_DOCUMENTS
from core.window import MAX_PAIRS
from training.packing import Packed

Tokens = Callable[[str], list[int]]

SPLICED: Final = 0.3
"""Share of conversations that follow some turns of another one: earlier subjects must be left behind."""
UNANSWERED: Final = 0.1
"""Share of conversations that lose the answers."""
NOT_FOUND: Final = 0.1
"""Share of conversations in which one question found nothing."""
TALKATIVE: Final = 0.15
"""Share of conversations with long answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One turn; `answer` may be empty."""

    question: str
    rewrite: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation of the training data."""

    id: str
    language: str
    turns: tuple[Said, ...]


def load(files: Iterable[Path]) -> list[Conversation]:
    """The conversations in JSON lines, in order; those about a page go by the id of the page."""
    return [
        Conversation(id=row["id"], language=row["lang"], turns=tuple(map(_said, turns)))
        for file in files
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        for turns in row.get("dialogs") or [row["turns"]]
    ]


def _said(turn: dict[str, str]) -> Said:
    return Said(question=turn["user"], rewrite=turn["rewrite"], answer=turn.get("answer") or "")


def packed(conversation: Conversation, tokens: Tokens, before: Sequence[Said] = ()) -> Packed:
    """One sequence: the messages, and a branch for each query. `before` is only read."""
    sequence = Packed()
    for turn in before:
        sequence.extend(_tokens_of([said(turn.question), *answered(turn.answer)], tokens))
    head = tokens(REWRITE_HEAD)
    for turn in conversation.turns:
        sequence.extend(tokens(said(turn.question)))
        with_query = tokens(f"{REWRITE_HEAD} {cut(turn.rewrite, QUESTION_CHARS)}{STOP}")
        assert with_query[: len(head)] == head
        sequence.branch(head, with_query[len(head) :])
        sequence.extend(_tokens_of(answered(turn.answer), tokens))
    return sequence


def _tokens_of(lines: Iterable[str], tokens: Tokens) -> list[int]:
    return [token for line in lines for token in tokens(line)]


def epoch(conversations: Sequence[Conversation], tokens: Tokens, rng: random.Random) -> list[Packed]:
    """Each conversation once, varied at random: spliced, with answers missing, not found or long."""
    by_language: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        by_language.setdefault(conversation.language, []).append(conversation)
    made = []
    for original in conversations:
        others = [other for other in by_language[original.language] if other is not original] or [original]
        varied = _varied(original, others, rng)
        before: tuple[Said, ...] = ()
        room = MAX_PAIRS + 1 - len(varied.turns)
        if rng.random() < SPLICED and room > 0:
            turns = rng.choice(others).turns
            start = rng.randrange(len(turns))
            before = turns[start : start + rng.randint(1, min(3, room))]
        made.append(packed(varied, tokens, before))
    return made


def _varied(conversation: Conversation, others: Sequence[Conversation], rng: random.Random) -> Conversation:
    turns = list(conversation.turns)
    spare = [n for n in range(len(turns) - 1) if not _needed(turns, n)]
    if rng.random() < UNANSWERED:
        turns = [replace(turn, answer="") if n in spare else turn for n, turn in enumerate(turns)]
    elif rng.random() < NOT_FOUND and spare:
        n = rng.choice(spare)
        turns[n] = replace(turns[n], answer=NOT_IN_DOCUMENTS)
    elif rng.random() < TALKATIVE:
        turns = [replace(turn, answer=_longer(turn.answer, others, rng)) for turn in turns]
    return replace(conversation, turns=tuple(turns))


def _needed(turns: Sequence[Said], n: int) -> bool:
    """Whether a later query holds a word that only the answer of turn `n` brought up."""
    asked = words.stems(" ".join(turn.question for turn in turns))
    told = words.stems(turns[n].answer) - asked
    return any(told & words.stems(turn.rewrite) for turn in turns[n + 1 :])


def _longer(answer: str, others: Sequence[Conversation], rng: random.Random) -> str:
    while answer and len(answer) < ANSWER_CHARS:
        more = rng.choice(rng.choice(others).turns).answer
        answer = f"{answer} {more}" if more else answer + " " * ANSWER_CHARS
    return answer.strip()
