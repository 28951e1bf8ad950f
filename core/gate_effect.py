"""What the rewrite gate (`core.gate`) does to labelled conversations, told from one run with the gate off.

A question that it lets through is searched as it was typed, and that ranking is there already.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.evaluation import Outcome, score
from core.gate import is_complete

RESAMPLED: Final = 2_000
"""Times that the items are drawn anew for an interval."""
CALLED: Final = frozenset({"rewritten", "rejected", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`hits` of `of`."""

    hits: int
    of: int

    def __str__(self) -> str:
        return f"{self.hits / self.of:.1%} ({self.hits} of {self.of})" if self.of else "- (none)"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEffect:
    """Recall@5 is that of the fused search."""

    spared: Share
    """Of the calls to the rewriter, those that the gate saves."""
    precision: Share
    """Of the labelled turns with a history that it lets through, those that do not need it."""
    recall: Share
    """Of those that do not need it, those that it lets through."""
    labelled: int
    """Turns with relevant passages for which the rewriter was called."""
    recall_without: float
    recall_with: float
    change: tuple[float, float]
    """In which 95 % of the means of the change lie when the items are drawn anew, with replacement."""
    better: int
    worse: int

    def lines(self) -> list[str]:
        """For people."""
        low, high = self.change
        return [
            f"The rewrite gate would save {self.spared} of the calls; precision {self.precision}, recall {self.recall}",
            f"Searched Recall@5 of {self.labelled} rewritten turns: {self.recall_without:.3f} without it, "
            f"{self.recall_with:.3f} with it (change {self.recall_with - self.recall_without:+.4f}, "
            f"95 % interval {low:+.4f} to {high:+.4f}; {self.better} better, {self.worse} worse)",
        ]


def gate_effect(outcomes: Sequence[Outcome]) -> GateEffect | None:
    """None where no call was made that could be saved."""
    called = [outcome for outcome in outcomes if outcome.status in CALLED]
    if not called:
        return None
    passed = {outcome.item.id for outcome in called if is_complete(outcome.item.question)}
    labels = [outcome.item for outcome in called if outcome.item.needs_history is not None and outcome.item.relevant]
    through = [item for item in labels if item.id in passed]
    free = [item for item in labels if not item.needs_history]
    right = sum(not item.needs_history for item in through)
    scored = [outcome for outcome in called if outcome.item.relevant]
    without = [_recall(outcome, "searched") for outcome in scored]
    with_it = [_recall(outcome, "typed" if outcome.item.id in passed else "searched") for outcome in scored]
    changes = [after - before for before, after in zip(without, with_it, strict=True)]
    return GateEffect(
        spared=Share(hits=len(passed), of=len(called)),
        precision=Share(hits=right, of=len(through)),
        recall=Share(hits=right, of=len(free)),
        labelled=len(scored),
        recall_without=statistics.fmean(without) if without else 0.0,
        recall_with=statistics.fmean(with_it) if with_it else 0.0,
        change=_interval(changes) if changes else (0.0, 0.0),
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
    )


def _recall(outcome: Outcome, column: str) -> float:
    return score(outcome.rankings[column], outcome.item.relevant).recall_5


def _interval(values: Sequence[float]) -> tuple[float, float]:
    rng = random.Random(1)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(RESAMPLED))
    return means[round(0.025 * RESAMPLED)], means[round(0.975 * RESAMPLED) - 1]
