"""The bot over planted documents and a real model, and the rates of what came of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bot.wiring import Bench
from core.intake import clean_question
from core.types import Answer, Query, Question, Turn

Pair = tuple[str, str]
"""A question and its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often a case went as it should."""

    case: str
    hits: int
    of: int
    goal: int | None
    """None for what is only reported."""
    misses: Sequence[str]

    def __str__(self) -> str:
        goal = "" if self.goal is None else f" (goal {self.goal})"
        return f"{self.case}: {self.hits} of {self.of}{goal}"


@dataclass(slots=True)
class Rates:
    """Collects the rates of a run. Goals bind only a real model: the embedded one is far too small for them."""

    binding: bool
    found: list[Rate] = field(default_factory=list)

    def report(self, case: str, outcomes: Iterable[tuple[bool, str]], *, goal: int | None = None) -> None:
        """Keeps how many `outcomes` are hits; each has a text that shows a miss. Fails under a binding goal."""
        kept = list(outcomes)
        misses = [shown for hit, shown in kept if not hit]
        rate = Rate(case=case, hits=len(kept) - len(misses), of=len(kept), goal=goal, misses=misses)
        self.found.append(rate)
        if self.binding and goal is not None:
            assert rate.hits >= goal, f"{rate}\n" + "\n".join(misses)


class Bot:
    """Asks the pipeline, with the conversation so far as it is given."""

    def __init__(self, bench: Bench) -> None:
        self._pipeline = bench.pipeline

    async def query(self, question: str, *history: Pair) -> Query:
        """What the rewriter makes of `question`."""
        asked, _ = clean_question(_question(question, history))
        query, _mark = await self._pipeline.rewrite(asked)
        return query

    async def answer(self, question: str, *history: Pair) -> Answer:
        return await self._pipeline.answer(_question(question, history), _nowhere)


def _question(text: str, history: Sequence[Pair]) -> Question:
    return Question(text=text, history=tuple(Turn(question=asked, answer=said) for asked, said in history))


async def _nowhere(text: str) -> None:
    """Shows nothing."""


def write_documents(folder: Path, documents: dict[str, str]) -> Path:
    """A folder with a Markdown file for each name."""
    folder.mkdir()
    for name, text in documents.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def words(text: str) -> list[str]:
    """The words of `text`, case folded."""
    return re.findall(r"\w+", text.casefold())


def names_any(text: str, nouns: Collection[str]) -> bool:
    """Whether a word of `text` is one of `nouns`, or begins with it ("valve", "valves")."""
    return any(word.startswith(noun) for word in words(text) for noun in nouns)


def repeats(text: str, other: str, *, run: int) -> bool:
    """Whether `text` holds `run` words of `other` in a row."""
    found = words(text)
    runs = {tuple(found[start : start + run]) for start in range(len(found) - run + 1)}
    source = words(other)
    return any(tuple(source[start : start + run]) in runs for start in range(len(source) - run + 1))


_REFUSAL = re.compile(
    r"could not find|couldn't find|can(?:no|')t (?:find|answer|say)|no (?:information|mention)|"
    r"not (?:mentioned|found|stated|(?:in|part of) the (?:documents|passages|context))|"
    r"do(?:es)?(?: not|n't) (?:say|mention|tell|hold|contain|provide|specify|state|include)",
    re.IGNORECASE,
)


def refuses(answer: Answer) -> bool:
    """Whether an answer says that the documents do not tell."""
    return not stood_in(answer) and bool(_REFUSAL.search(answer.text))


def stood_in(answer: Answer) -> bool:
    """Whether the bot put a text of its own, passages perhaps, in the place of what the model said."""
    return answer.stand_in or any(mark.reason == "not_borne_out" for mark in answer.degraded)
