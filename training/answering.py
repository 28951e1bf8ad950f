"""Documentation pages with dialogs about them -> what the answerer learns from.

A question is posed over passages that would have been found: those that hold its answer stand among their neighbours
on the page, which are easily taken for them, and passages of other pages, in any order. Where the answer is not among
them, what is to be said is that it was not found.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.trained_prompts import ANSWER_HEAD, ANSWER_OPENING, ANSWER_TURNS, STOP, answered, asked, context, said
from core.types import NOT_IN_DOCUMENTS, titled
from training.packing import Packed
from training.rewriting import Tokens

OWN: Final = 3
"""Passages of the page in a prompt."""
FOREIGN: Final = 0.5
"""Share of the prompts with a passage of another page beside them."""
MERGED: Final = 0.25
"""Share of the passages that are found in one piece with the next, so that some are long."""
REFUSED: Final = 0.3
"""Refusals for each answer over the same passages, where the data has questions for them."""
WITHHELD: Final = 0.15
"""Share of the questions as they were typed whose passages are withheld."""
FOLLOWED: Final = 0.4
"""Share of the follow-ups that are posed as they were typed, after what was said before."""

_CITATION: Final = re.compile(r" ?\[\d{1,3}\]")
_LAST_SIGN: Final = re.compile(r"[.!?。！？]*\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One turn about a page."""

    question: str
    standalone: str
    """The question as it would be asked without the turns before."""
    answer: str
    cites: frozenset[int]
    """Indexes of the page's passages; none where the page does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the training data: its passages as heading and text, and dialogs about it."""

    id: str
    title: str
    passages: tuple[tuple[str, str], ...]
    dialogs: tuple[tuple[Told, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A passage in a prompt: one or two of a page, in one piece."""

    page: Page
    indexes: tuple[int, ...]

    @property
    def title(self) -> str:
        """Title and heading, as the bot writes them."""
        return titled(self.page.title, self.page.passages[self.indexes[0]][0])

    @property
    def text(self) -> str:
        """What it says; a second heading stands before its text."""
        first, *rest = [self.page.passages[index] for index in self.indexes]
        return " ".join([first[1], *(f"{heading}: {text}" for heading, text in rest)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """One question as the model is asked it, and what it should say."""

    passages: tuple[Found, ...]
    history: tuple[tuple[str, str], ...]
    """Questions and answers before it."""
    question: str
    answer: str
    """With its citations."""
    cites: frozenset[int]
    """Numbers, from 1, of the passages that hold the answer; empty for a refusal."""


def load(files: Iterable[Path]) -> list[Page]:
    """The pages in JSON lines, in order. Small talk is left out: the bot answers it by itself."""
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [
        Page(
            id=row["id"],
            title=row["title"],
            passages=tuple((passage["heading"], passage["text"]) for passage in row["passages"]),
            dialogs=tuple(
                tuple(
                    Told(question=t["user"], standalone=t["rewrite"], answer=t["answer"], cites=frozenset(t["cites"]))
                    for t in dialog
                    if t["kind"] != "chitchat"
                )
                for dialog in row["dialogs"]
            ),
        )
        for row in rows
    ]


def followed(page: Page, dialog: Sequence[Told], pages: Sequence[Page], rng: random.Random) -> Iterator[Posed]:
    """The questions of a dialog as they were typed, each after those before it and over passages of its own."""
    history: list[tuple[str, str]] = []
    for turn in dialog:
        own = [index for index in range(len(page.passages)) if index not in turn.cites]
        rng.shuffle(own)
        withheld = turn.cites if rng.random() < WITHHELD else frozenset[int]()
        chosen = [*(turn.cites - withheld), *own][: max(OWN, len(turn.cites))]
        shown = _beside(chosen, page, pages, rng, withheld)
        yield _posed(turn, turn.question, shown, page, history[-ANSWER_TURNS:])
        history.append((turn.question, turn.answer if turn.cites else NOT_IN_DOCUMENTS))


def together(page: Page, pages: Sequence[Page], rng: random.Random) -> Iterator[list[Posed]]:
    """The questions of all dialogs, standing alone, in groups over the same passages."""
    turns = [turn for dialog in page.dialogs for turn in dialog]
    order = list(range(len(page.passages)))
    rng.shuffle(order)
    for start in range(0, len(order), OWN):
        own = order[start : start + OWN]
        own += rng.sample([index for index in order if index not in own], min(OWN - len(own), len(order) - len(own)))
        shown = _beside(own, page, pages, rng)
        held = {index for found in shown if found.page is page for index in found.indexes}
        answers = [turn for turn in turns if turn.cites and turn.cites <= held]
        refusals = [turn for turn in turns if not turn.cites & held]
        refusals = rng.sample(refusals, min(len(refusals), max(1, round(REFUSED * len(answers)))))
        yield [_posed(turn, turn.standalone, shown, page, ()) for turn in (*answers, *refusals)]


def _beside(
    own: Sequence[int],
    page: Page,
    pages: Sequence[Page],
    rng: random.Random,
    withheld: frozenset[int] = frozenset(),
) -> list[Found]:
    """Passages of the page in any order, some of them in one piece with the next, perhaps one of another page."""
    taken = {*own, *withheld}
    shown = []
    for index in own:
        after = index + 1
        merged = rng.random() < MERGED and after < len(page.passages) and after not in taken
        taken.add(after if merged else index)
        shown.append(Found(page=page, indexes=(index, after) if merged else (index,)))
    if rng.random() < FOREIGN:
        other = rng.choice([other for other in pages if other is not page])
        shown.append(Found(page=other, indexes=(rng.randrange(len(other.passages)),)))
    rng.shuffle(shown)
    return shown


def _posed(turn: Told, question: str, shown: Sequence[Found], page: Page, history: Sequence[tuple[str, str]]) -> Posed:
    numbers = frozenset(
        number for number, found in enumerate(shown, 1) if found.page is page and turn.cites & set(found.indexes)
    )
    return Posed(
        passages=tuple(shown),
        history=tuple(history),
        question=question,
        answer=cited(turn.answer, numbers) if numbers else NOT_IN_DOCUMENTS,
        cites=numbers,
    )


def cited(answer: str, numbers: Iterable[int]) -> str:
    """`answer` with its citations before the last full stop."""
    marks = " " + "".join(f"[{number}]" for number in sorted(numbers))
    return _LAST_SIGN.sub(lambda end: marks + end.group().strip(), answer, count=1)


def packed(posed: Sequence[Posed], tokens: Tokens) -> Packed:
    """One sequence: the messages and passages, which all of `posed` share, and a branch for each question."""
    sequence = Packed()
    sequence.extend(tokens(ANSWER_OPENING))
    for question, answer in posed[0].history:
        for line in (said(question), *answered(answer)):
            sequence.extend(tokens(line))
    for line in context([(found.title, found.text) for found in posed[0].passages]):
        sequence.extend(tokens(line))
    for one in posed:
        head = [*tokens(asked(one.question)), *tokens(ANSWER_HEAD)]
        with_answer = tokens(f"{ANSWER_HEAD} {one.answer}{STOP}")
        assert with_answer[: len(tokens(ANSWER_HEAD))] == tokens(ANSWER_HEAD)
        sequence.branch(head, with_answer[len(tokens(ANSWER_HEAD)) :])
    return sequence


def epoch(pages: Sequence[Page], tokens: Tokens, rng: random.Random) -> list[Packed]:
    """Each question about once standing alone, and some as they were typed."""
    made = []
    for page in pages:
        made += [packed(group, tokens) for group in together(page, pages, rng) if group]
        for dialog in page.dialogs:
            for n, posed in enumerate(followed(page, dialog, pages, rng)):
                if n and rng.random() < FOLLOWED:
                    made.append(packed([posed], tokens))
    return made


def held_out(pages: Sequence[Page], among: Sequence[Page]) -> list[Posed]:
    """All questions about `pages` as they were typed, the same in every run; other passages are from `among`."""
    rng = random.Random(0)
    return [posed for page in pages for dialog in page.dialogs for posed in followed(page, dialog, among, rng)]


def uncited(answer: str) -> str:
    """`answer` without its citations."""
    return _CITATION.sub("", answer)
