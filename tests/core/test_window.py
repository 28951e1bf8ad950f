"""Which turns stay verbatim, and what goes when the budget is short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.types import Passage, Turn
from core.window import (
    MARGIN,
    MAX_PAIRS,
    MIN_PAIRS,
    SHORTEST_QUOTE,
    Fitted,
    estimate_tokens,
    fit,
    leaving,
    shortened,
)
from tests.fakes import passage


def turns(count: int, words: int = 3) -> tuple[Turn, ...]:
    return tuple(
        Turn(question=f"q{n:02} " + "word " * words, answer=f"a{n:02} " + "word " * words) for n in range(1, count + 1)
    )


def test_the_window_grows_to_eight_pairs_then_drops_to_four_at_once():
    window, sizes = 0, []
    for _ in range(20):
        window += 1
        window -= leaving(window)
        sizes.append(window)
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 4, 5]


def test_a_window_that_the_budget_cuts_drops_before_it_is_full():
    assert [leaving(pairs, tight=True) for pairs in range(9)] == [0, 0, 0, 0, 0, 1, 2, 3, 4]


@given(st.integers(min_value=0, max_value=500), st.booleans())
def test_a_backlog_of_any_length_is_worked_off_in_pieces_that_leave_four_to_eight_pairs(total: int, tight: bool):
    left, pieces = total, []
    while piece := leaving(left, tight=tight):
        pieces.append(piece)
        left -= piece
    assert all(0 < piece <= MAX_PAIRS for piece in pieces)
    assert left == total if not pieces else MIN_PAIRS <= left <= MAX_PAIRS


@given(st.lists(st.tuples(st.text(max_size=3000), st.text(max_size=3000)), max_size=8), st.integers(0, 8192))
def test_what_is_condensed_fits_the_budget_and_no_turn_is_left_out(pairs: list[tuple[str, str]], context: int):
    told = tuple(Turn(question=question, answer=answer, author="Ada") for question, answer in pairs)
    quoted = shortened(told, fixed="rules", context_tokens=context, answer_tokens=256)
    assert len(quoted) == len(told)
    assert all(long.question.startswith(short.question) for long, short in zip(told, quoted, strict=True))
    tokens = estimate_tokens("rules") + sum(estimate_tokens(turn.question + turn.answer) for turn in quoted)
    shortest = all(max(len(turn.question), len(turn.answer)) <= SHORTEST_QUOTE for turn in quoted)
    assert shortest or tokens <= context * (1 - MARGIN) - 256


def fitted(
    *, history: Sequence[Turn] = (), passages: Sequence[Passage] = (), context: int = 4096, answer: int = 512
) -> Fitted:
    return fit(
        fixed="instructions and question",
        history=history,
        passages=passages,
        context_tokens=context,
        answer_tokens=answer,
    )


def test_all_of_it_stays_when_there_is_room():
    result = fitted(history=turns(8), passages=[passage("a", "text"), passage("b", "text")])
    assert (len(result.history), len(result.passages), result.kept.turns_dropped) == (8, 2, 0)


def test_the_oldest_turns_go_first_whole_pairs_at_a_time():
    history = turns(30, words=300)
    result = fitted(history=history, passages=[passage(str(n), "word " * 400) for n in range(2)])
    assert 0 < len(result.history) < 30
    assert result.history == history[-len(result.history) :]
    assert result.kept.turns_dropped == 30 - len(result.history)


def test_the_best_passage_and_the_newest_turn_go_before_other_passages_and_turns():
    history = turns(4, words=200)
    found = [passage("best", "word " * 250), passage("next", "word " * 250)]
    result = fitted(history=history, passages=found, context=1900)
    assert result.passages == (found[0],)
    assert result.history == history[-1:]


def test_a_best_passage_that_alone_is_too_long_is_cut_and_still_there():
    result = fitted(passages=[passage("long", "one line of text\n" * 2000)])
    assert 0 < len(result.passages[0].text) < 17 * 2000


@given(
    st.integers(0, 12),
    st.integers(0, 400),
    st.integers(0, 8),
    st.integers(0, 600),
    st.sampled_from([1024, 2048, 4096, 16384]),
)
def test_the_prompt_never_is_over_the_budget(pairs: int, turn_words: int, hits: int, hit_words: int, context: int):
    found = [passage(str(n), "word " * hit_words) for n in range(hits)]
    result = fitted(history=turns(pairs, turn_words), passages=found, context=context, answer=256)
    text = "".join(t.question + t.answer for t in result.history) + "".join(p.text for p in result.passages)
    assert estimate_tokens("instructions and question" + text) <= context * (1 - MARGIN) - 256
    assert bool(result.passages) == bool(found)


@pytest.mark.parametrize(
    ("text", "true_tokens"),
    [
        # Counted with the Gemma 3 tokenizer.
        ("How do I point Threadwise at my own model?", 11),
        ("SELECT id, name FROM users WHERE created_at > '2024-01-01' ORDER BY id DESC LIMIT 10;", 37),
    ],
)
def test_the_estimate_errs_to_the_high_side(text: str, true_tokens: int):
    assert estimate_tokens(text) >= true_tokens * 0.75
    assert estimate_tokens("北京" * 10) >= 20
    assert estimate_tokens("😀" * 10) >= 20
