"""When texts are counted, which of them, and what is done when they cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from prometheus_client import REGISTRY

from core.counting import ROUNDS, Counts
from core.errors import ModelUnavailable
from core.types import Passage, Turn
from core.window import Fitted, budget_of, estimate_tokens, fit, texts_of
from tests.fakes import passage

CONTEXT, ANSWER = 2000, 200
BUDGET = budget_of(CONTEXT, ANSWER)
NUMBERS = "4711 0815 " * 30
"""300 characters: 100 tokens by the estimate, and one each for a tokenizer that takes digits one by one."""


class Letters:
    """Takes each character for a token; raises while `error` is set, and may count nothing."""

    def __init__(self, *, tells: bool = True) -> None:
        self.tells, self.asked = tells, list[list[str]]()
        self.error: Exception | None = None

    async def count(self, texts: Sequence[str]) -> list[int] | None:
        self.asked.append(list(texts))
        if self.error:
            raise self.error
        return [len(text) for text in texts] if self.tells else None


def turns(number: int, text: str = NUMBERS) -> tuple[Turn, ...]:
    return tuple(Turn(question=f"{n}?", answer=f"{n} {text}") for n in range(number))


async def fitted(counts: Counts, history: Sequence[Turn] = (), passages: Sequence[Passage] = ()) -> tuple[Fitted, bool]:
    return await counts.settled(
        lambda count: fit(
            fixed="rules",
            history=history,
            passages=passages,
            context_tokens=CONTEXT,
            answer_tokens=ANSWER,
            count=count,
        ),
        ["rules", *texts_of(history, passages)],
        BUDGET,
    )


def fallbacks() -> float:
    labels = {"stage": "tokenize", "reason": "ModelUnavailable"}
    return REGISTRY.get_sample_value("rag_stage_fallbacks_total", labels) or 0.0


async def test_a_prompt_that_is_far_from_full_is_not_counted():
    tokenizer = Letters()
    result, counted = await fitted(Counts(tokenizer), turns(3))
    assert (tokenizer.asked, counted, result.kept.turns) == ([], False, 3)


async def test_what_the_estimate_takes_to_fit_is_left_out_if_it_does_not():
    history = turns(12)
    by_estimate = fit(fixed="rules", history=history, passages=(), context_tokens=CONTEXT, answer_tokens=ANSWER)
    assert sum(len(turn.answer) for turn in by_estimate.history) > CONTEXT
    tokenizer = Letters()
    result, counted = await fitted(Counts(tokenizer), history)
    assert counted
    assert len(tokenizer.asked) == 1
    assert 0 < sum(len(turn.question + turn.answer) for turn in result.history) <= BUDGET


async def test_what_the_estimate_leaves_out_stays_if_it_fits():
    history = turns(8, "word " * 150)

    class Words(Letters):
        async def count(self, texts: Sequence[str]) -> list[int] | None:
            return [len(text.split()) for text in texts]

    by_estimate = fit(fixed="rules", history=history, passages=(), context_tokens=CONTEXT, answer_tokens=ANSWER)
    result, counted = await fitted(Counts(Words()), history)
    assert counted
    assert len(result.history) == 8 > len(by_estimate.history)


async def test_only_the_new_texts_of_a_turn_are_counted_and_by_one_request():
    tokenizer = Letters()
    counts = Counts(tokenizer)
    await fitted(counts, turns(12), [passage("a", NUMBERS)])
    await fitted(counts, turns(13), [passage("a", NUMBERS), passage("b", "new " + NUMBERS)])
    assert [len(asked) for asked in tokenizer.asked] == [27, 4]
    await fitted(counts, turns(13), [passage("a", NUMBERS)])
    assert len(tokenizer.asked) == 2


async def test_a_best_passage_is_cut_to_what_really_fits():
    tokenizer = Letters()
    long = passage("long", "\n".join(f"{n:03} {NUMBERS}" for n in range(12)))
    result, counted = await fitted(Counts(tokenizer), (), [long])
    assert counted
    assert len(tokenizer.asked) <= ROUNDS
    assert 0 < len(result.passages[0].text) <= BUDGET
    assert len(result.passages[0].text) > BUDGET / 2


async def test_what_is_not_told_is_estimated():
    result, counted = await fitted(Counts(Letters(tells=False)), turns(12))
    assert not counted
    by_estimate = fit(fixed="rules", history=turns(12), passages=(), context_tokens=CONTEXT, answer_tokens=ANSWER)
    assert result == by_estimate


async def test_a_failure_is_logged_and_counted_and_the_estimate_taken(caplog: pytest.LogCaptureFixture):
    tokenizer = Letters()
    tokenizer.error = ModelUnavailable("down")
    before = fallbacks()
    counts = Counts(tokenizer)
    result, counted = await fitted(counts, turns(12))
    assert (counted, fallbacks() - before) == (False, 1)
    assert "tokenize fell back" in caplog.text
    assert result.kept.prompt_tokens <= BUDGET
    tokenizer.error = None
    assert (await fitted(counts, turns(12)))[1]


async def test_counts_are_bounded():
    tokenizer = Letters()
    counts = Counts(tokenizer, remembered=30)
    await fitted(counts, turns(12))
    await fitted(counts, turns(12, "other " + NUMBERS))
    await fitted(counts, turns(12))
    assert len(tokenizer.asked) == 3
    assert estimate_tokens(NUMBERS) < len(NUMBERS)
