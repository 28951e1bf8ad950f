"""What the answerer learns from: each answer over passages that hold it, each refusal over passages that do not."""

from __future__ import annotations

import random

import pytest

from core.types import NOT_IN_DOCUMENTS
from training import answering
from training.answering import Page, Posed
from training.answers import overlap
from training.train import pages


@pytest.fixture(scope="module")
def learnt() -> list[Page]:
    split = pages()
    parts = [{page.id for page in part} for part in (split.learnt, split.chosen_by, split.held_out)]
    assert all(parts)
    assert len(set.union(*parts)) == sum(map(len, parts))
    return split.learnt


def together(learnt: list[Page], seed: int) -> list[Posed]:
    rng = random.Random(seed)
    return [one for page in learnt[:20] for group in answering.together(page, learnt, rng) for one in group]


def followed(learnt: list[Page], seed: int) -> list[Posed]:
    rng = random.Random(seed)
    return [
        one for page in learnt[:20] for dialog in page.dialogs for one in answering.followed(page, dialog, learnt, rng)
    ]


@pytest.mark.parametrize("posing", [together, followed])
def test_an_answer_cites_passages_in_the_prompt_and_a_refusal_cites_none(posing, learnt: list[Page]):
    posed = posing(learnt, 1)
    assert posed == posing(learnt, 1)
    assert posed != posing(learnt, 2)
    for one in posed:
        assert all(1 <= number <= len(one.passages) for number in one.cites)
        if one.cites:
            assert all(f"[{number}]" in one.answer for number in one.cites)
        else:
            assert one.answer == NOT_IN_DOCUMENTS
    refusals = sum(not one.cites for one in posed) / len(posed)
    assert 0.1 < refusals < 0.4


def test_no_passage_of_a_question_that_is_refused_holds_its_answer(learnt: list[Page]):
    rng = random.Random(3)
    for page in learnt[:20]:
        for group in answering.together(page, learnt, rng):
            for one in group:
                cites = {t.cites for dialog in page.dialogs for t in dialog if t.standalone == one.question}
                shown = {index for found in one.passages if found.page is page for index in found.indexes}
                assert one.cites or any(not held & shown for held in cites)


def test_citations_stand_before_the_last_full_stop():
    assert answering.cited("Use `a.b`. Then go.", {2, 1}) == "Use `a.b`. Then go [1][2]."
    assert answering.cited("はい。", {3}) == "はい [3]。"
    assert answering.cited("no stop", {1}) == "no stop [1]"
    assert answering.uncited("Then go [1][2].") == "Then go."


def test_the_overlap_of_two_texts_counts_words_without_citations():
    assert overlap("Use the red key [1].", "use the red key") == 1.0
    assert overlap("red key", "blue lock") == 0.0
    assert overlap("red key", "red lock") == pytest.approx(0.5)
