from __future__ import annotations

from dataclasses import replace

from core.retrieve import Threshold, Weights, fuse
from core.types import Hits
from tests.fakes import passage

A, B, C, D = (passage(name, f"text {name}") for name in "abcd")


def ids(
    *,
    typed: Hits | None = None,
    rewritten: Hits | None = None,
    limit: int = 5,
    weights: Weights | None = None,
    queries: tuple[str, ...] = ("q",),
) -> list[str]:
    found = fuse(typed, rewritten, queries=queries, limit=limit, weights=weights or Weights(), threshold=Threshold())
    return [p.id for p in found]


def test_a_passage_that_both_kinds_of_search_found_comes_first():
    assert ids(typed=Hits(dense=(A, B), keyword=(B, C)))[0] == "b"


def test_what_both_wordings_found_comes_before_what_one_found():
    assert ids(typed=Hits(dense=(A, C)), rewritten=Hits(dense=(B, C)))[0] == "c"


def test_a_weight_of_zero_takes_the_typed_words_out_but_not_where_they_are_all_there_is():
    alone = Weights(typed=0.0)
    assert ids(typed=Hits(dense=(A,)), rewritten=Hits(dense=(B,)), weights=alone) == ["b"]
    assert ids(typed=Hits(dense=(A,)), weights=alone) == ["a"]


def test_even_weights_let_the_typed_words_count_as_much_as_the_rewrite():
    assert Weights(typed=0.0, rewritten=1.3).even() == Weights(typed=1.3, rewritten=1.3)


def test_each_passage_is_there_once_and_no_more_than_the_limit():
    assert ids(typed=Hits(dense=(A, B, C), keyword=(C, B, A)), rewritten=Hits(dense=(A, B)), limit=2) == ["a", "b"]


def test_the_same_hits_give_the_same_order_every_time():
    assert ids(typed=Hits(dense=(A,), keyword=(B,))) == ids(typed=Hits(dense=(A,), keyword=(B,))) == ["a", "b"]


def test_a_query_without_a_similar_passage_found_nothing():
    far = Hits(dense=(replace(A, score=0.05),), keyword=(B,))
    assert ids(typed=far) == []


def test_unless_a_code_in_it_stands_literally_in_a_passage():
    kit = replace(D, text="Seal kit HV-12, gap 1 mm.")
    assert ids(typed=Hits(dense=(replace(A, score=0.05),), keyword=(B, kit)), queries=("HV-12?",)) == ["d"]


def test_keyword_hits_count_alone_when_the_dense_search_gave_nothing():
    assert ids(typed=Hits(keyword=(A, B))) == ["a", "b"]


def test_nothing_found_is_an_empty_result():
    assert ids(typed=Hits()) == []
    assert ids() == []
