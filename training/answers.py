"""`python -m training.answers`: what the embedded model answers on the pages that are held out, bare and trained."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bot import engine
from bot.wiring import EMBEDDED_ANSWER_TOKENS
from core import words
from core.clock import Clock
from core.generate import generate
from core.intake import clean_request
from core.llm import Deadlines, HttpChatModel
from core.outcome import borne_out, finished
from core.output import Hygiene
from core.ports import ChatModel
from core.prompts import BASE, TRAINED, Manners, generate_request
from core.types import Answer, Kept, Passage, Query, QueryStatus, Turn
from training import answering
from training.train import pages

SECONDS: Final = 60.0
"""For one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One question, what should be said, and what was said: by the model, and by the bot after its check."""

    posed: answering.Posed
    said: Answer
    shown: Answer

    @property
    def answerable(self) -> bool:
        return bool(self.posed.cites)

    @property
    def refused(self) -> bool:
        return self.said.says_nothing_found

    @property
    def replaced(self) -> bool:
        """Whether the bot shows passages in place of what the model said."""
        return self.shown.text != self.said.text

    def cites_right(self, answer: Answer) -> bool:
        """Whether a passage that holds the answer is cited by what the model said."""
        kept = answer is self.said or not self.replaced
        return kept and any(int(citation.source) in self.posed.cites for citation in answer.citations)

    def f1(self, answer: Answer) -> float:
        """Of the words, citations left out; 0 for passages in place of an answer."""
        return 0.0 if answer is not self.said and self.replaced else overlap(self.posed.answer, answer.text)


def overlap(wanted: str, said: str) -> float:
    """F1 of the words of two texts without their citations, counting each as often as it occurs."""
    left, right = (Counter(words.words(answering.uncited(text))) for text in (wanted, said))
    common = sum((left & right).values())
    return 2 * common / (sum(left.values()) + sum(right.values())) if common else 0.0


def share(values: Sequence[float | bool]) -> float:
    """The mean; 0 of none."""
    return sum(values) / len(values) if values else 0.0


async def judged(posed: answering.Posed, model: ChatModel, manners: Manners) -> Judged:
    """Asks the model as the bot does."""
    # Each passage is a document of its own here, so that a citation tells which one is meant.
    passages = tuple(
        Passage(id=str(n), text=found.text, title=found.title, source=str(n), heading="", score=1.0)
        for n, found in enumerate(posed.passages, 1)
    )
    request = clean_request(
        generate_request(
            posed.question,
            [Turn(question=question, answer=answer) for question, answer in posed.history],
            "",
            passages,
            manners,
            nonce="0" * 16,
            max_tokens=EMBEDDED_ANSWER_TOKENS,
        )
    )
    hygiene = Hygiene(passages=passages, question=posed.question, trusts_markers=manners.trained, stops=request.stop)
    made = await generate(model, request, hygiene, _unseen)
    query = Query(text=posed.question, status=QueryStatus.SKIPPED)
    said = finished(made, query, hygiene, (), Kept(), Clock())
    return Judged(posed=posed, said=said, shown=borne_out(said, posed.question))


async def _unseen(text: str) -> None:
    """Nobody looks on."""


async def measured(data_dir: Path, limit: int | None, *, choosing: bool) -> dict[str, list[Judged]]:
    """All held-out questions, by the name of who answers; `choosing`: those about the pages for that."""
    split = pages()
    about = split.chosen_by if choosing else split.held_out
    questions = answering.held_out(about, [*split.learnt, *about])[:limit]
    async with AsyncExitStack() as stack:
        started = await engine.start(data_dir, embeddings=False)
        stack.push_async_callback(started.close)
        assert started.chat is not None
        found = {}
        for name, manners, endpoint in (
            ("untrained", BASE, started.chat.without("generate")),
            ("trained", TRAINED, started.chat),
        ):
            model = HttpChatModel(
                endpoint.base_url,
                api_key=endpoint.api_key,
                model=endpoint.model,
                deadlines=Deadlines(wall=SECONDS),
                extra_body=endpoint.fields_for,
            )
            stack.push_async_callback(model.aclose)
            found[name] = [await judged(posed, model, manners) for posed in questions]
        return found


def rows(found: Sequence[Judged]) -> list[tuple[str, float]]:
    """What is counted, and its share."""
    answerable = [one for one in found if one.answerable]
    others = [one for one in found if not one.answerable]
    return [
        (f"right citation, of {len(answerable)} answerable", share([one.cites_right(one.said) for one in answerable])),
        ("  after the check", share([one.cites_right(one.shown) for one in answerable])),
        ("token F1", share([one.f1(one.said) for one in answerable])),
        ("  after the check", share([one.f1(one.shown) for one in answerable])),
        ("refused wrongly", share([one.refused for one in answerable])),
        ("replaced by passages", share([one.replaced for one in answerable])),
        (f"refused rightly, of {len(others)} not answerable", share([one.refused for one in others])),
        ("replaced by passages", share([one.replaced for one in others])),
        ("answered wrongly", share([not one.refused and not one.replaced for one in others])),
    ]


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.answers", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where the embedded model's files are kept")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions")
    parser.add_argument("--choosing", action="store_true", help="the pages by which settings are chosen")
    parser.add_argument("--show", action="store_true", help="print each question and what was said")
    asked = parser.parse_args()
    found = asyncio.run(measured(asked.data_dir, asked.limit, choosing=asked.choosing))
    console = Console()
    if asked.show:
        for one in found["trained"]:
            console.print(
                f"? {one.posed.question}\n  wanted: {one.posed.answer} {sorted(one.posed.cites)}\n  said:   "
                f"{one.said.text} {[c.source for c in one.said.citations]}{' (replaced)' if one.replaced else ''}",
                markup=False,
                highlight=False,
            )
    grid = Table(title="Questions about pages that are held out", title_justify="left")
    grid.add_column("share")
    for name in found:
        grid.add_column(name, justify="right")
    for lines in zip(*map(rows, found.values()), strict=True):
        grid.add_row(lines[0][0], *(f"{value:.3f}" for _name, value in lines))
    console.print(grid)


if __name__ == "__main__":
    main()
