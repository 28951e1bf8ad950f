"""Stage 3: queries become passages. Dense and keyword hits of both wordings, fused and thresholded.

Weighted reciprocal rank fusion: a passage scores weight / (60 + rank) in each list it is in. The
weights are a property of the rewriter: a weak one needs the typed words beside it, a strong one is
better alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from core import words
from core.types import Hits, Passage

CANDIDATES: Final = 24
"""Hits of each kind asked for, a query."""
RANK_OFFSET: Final = 60
"""The usual constant of reciprocal rank fusion: flattens the difference between first ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each list counts in the fusion."""

    typed: float = 1.0
    """The asker's own words, where there is a rewrite beside them."""
    rewritten: float = 1.0
    dense: float = 1.0
    keyword: float = 1.0

    def even(self) -> Weights:
        """The same, with the typed words counting as much as the rewrite."""
        most = max(self.typed, self.rewritten)
        return replace(self, typed=most, rewritten=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """When a passage has nothing to do with the query. Cosine similarities depend on the embedder."""

    similarity: float = 0.2
    """A query whose best passage is below this found nothing, unless a code in it was found literally."""


def fuse(
    typed: Hits | None,
    rewritten: Hits | None,
    *,
    queries: Sequence[str],
    limit: int,
    weights: Weights,
    threshold: Threshold,
) -> tuple[Passage, ...]:
    """The best `limit` passages of one or two searches, best first, `score` set to the fused weight.

    `queries` are the texts searched for; codes in them (`HV-12`, `--force`) count where found literally.
    """
    both = typed is not None and rewritten is not None
    lists: list[tuple[float, Sequence[Passage]]] = []
    for hits, weight in ((typed, weights.typed if both else 1.0), (rewritten, weights.rewritten)):
        if hits is not None:
            relevant = _relevant(hits, queries, threshold)
            lists.append((weight * weights.dense, relevant.dense))
            lists.append((weight * weights.keyword, relevant.keyword))
    return tuple(_fused(lists)[:limit])


def _fused(lists: Iterable[tuple[float, Sequence[Passage]]]) -> list[Passage]:
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for weight, ranked in lists:
        for rank, passage in enumerate(ranked, 1):
            if weight > 0:
                scores[passage.id] = scores.get(passage.id, 0.0) + weight / (RANK_OFFSET + rank)
                passages.setdefault(passage.id, passage)
    # Equal scores are common with few hits; the id keeps the order the same from run to run.
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    return [replace(passages[id_], score=scores[id_]) for id_ in order]


def _relevant(hits: Hits, queries: Sequence[str], threshold: Threshold) -> Hits:
    """`hits` without what has nothing to do with the query.

    Keyword search alone (the dense one failed) has no measure of its own, so all of it stays.
    """
    if not hits.dense or hits.dense[0].score >= threshold.similarity:
        return hits
    codes = [code.casefold() for query in queries for code in words.identifiers(query)]
    found = tuple(p for p in hits.keyword if any(code in p.text.casefold() for code in codes if len(code) > 1))
    return Hits(keyword=found)
