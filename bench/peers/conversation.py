"""What is said: twelve questions, the query and the answer that the model is made to give, and the passages found.

The passages of a question are the sections of the guide that share most with it, rare words before frequent ones. The
answer is what the first of them says. Both are the same in every process, and need no model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench.prefix import QUESTIONS
from bench.run import DOCS
from core import words
from core.index.chunker import chunk
from core.index.readers import parse, read_bytes
from core.types import Passage

PASSAGES: Final = 5
"""As many as Threadwise takes if nothing is set."""
ANSWER_CHARS: Final = 600
"""Some 140 tokens: a few sentences."""
QUERIES: Final = (
    "Which files can be read?",
    "How do I update the index after the files have changed?",
    "What happens with files that could not be read?",
    "How do I point Threadwise at my own model?",
    "How do I point Threadwise at my own model with Ollama?",
    "Does Ollama need a key?",
    "Where are conversations stored?",
    "How do I remove one of the conversations?",
    "How do I back everything up, conversations and index?",
    "What does /rewrite show?",
    "Where do I see the sources of an answer?",
    "How many passages are put into a prompt?",
)
NOTES: Final = (
    "The asker wanted to know which files can be read, how the index is updated after changes and what happens to "
    "files that could not be read. The asker then pointed Threadwise at an own model with Ollama and asked about the "
    "key."
)
"""The summary that the model is made to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn."""

    question: str
    """As it is typed."""
    query: str
    """As the model rewrites it."""
    answer: str
    passages: tuple[Passage, ...]


@cache
def conversation() -> tuple[Exchange, ...]:
    """All turns, in order."""
    sections = _sections()
    found = [_nearest(query, sections) for query in QUERIES]
    return tuple(
        Exchange(question=question, query=query, answer=_answer(passages[0]), passages=passages)
        for question, query, passages in zip(QUESTIONS, QUERIES, found, strict=True)
    )


def _sections() -> list[Passage]:
    """All of the guide but the page that holds what is measured here."""
    documents = [
        parse(read_bytes(path), source=path.name) for path in sorted(DOCS.glob("*.md")) if path.stem != "benchmarks"
    ]
    return [
        Passage(
            id=f"{document.source}#{piece.ordinal}",
            text=piece.text,
            title=document.title,
            source=document.source,
            heading=piece.heading,
            score=0.9,
        )
        for document in documents
        for piece in chunk(document)
    ]


def _nearest(query: str, sections: Sequence[Passage]) -> tuple[Passage, ...]:
    stems = [words.stems(f"{section.heading} {section.text}") for section in sections]
    in_sections = Counter(stem for found in stems for stem in found)

    def likeness(number: int) -> float:
        shared = words.stems(query) & stems[number]
        return sum(math.log(len(sections) / in_sections[stem]) for stem in shared)

    best = sorted(range(len(sections)), key=lambda number: (-likeness(number), number))[:PASSAGES]
    return tuple(sections[number] for number in best)


def _answer(passage: Passage) -> str:
    """Plain words and a citation: nothing that any of the three would show or remember in another form."""
    plain = " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*#|<>\[\]]", r"\1", passage.text).split())
    if len(plain) > ANSWER_CHARS:
        plain = plain[:ANSWER_CHARS].rsplit(" ", 1)[0]
    return f"{plain.rstrip('.:,; ')} [1]."
