"""Measuring follow-ups on labelled conversations: the items, the numbers, the table. No I/O but the file's text.

An item is a line of JSON: `id`, `turns` (the history: `role`, `text`), `question`, `relevant` (ids of the
passages that answer it; empty if none does), `kind`, `gold_rewrite` (a good query, may be null).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import IngestError
from core.types import Turn

DEPTH: Final = 10
"""Ranks that are looked at."""
COLUMNS: Final = ("typed", "rewrite", "searched", "gold")
"""The typed words, the rewrite alone, the two as the bot fuses them, the gold rewrite."""
FOLLOW_UPS: Final = frozenset({"followup", "clarification"})
NO_ANSWER: Final = "(no answer)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One turn to evaluate."""

    id: str
    history: tuple[Turn, ...]
    question: str
    relevant: frozenset[str]
    kind: str
    gold: str
    """Empty where there is none."""
    needs_history: bool | None
    """Whether the question cannot be understood without what was said before; None where nobody labelled it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Means over the items of a group; each 0 to 1."""

    recall_1: float
    recall_5: float
    recall_10: float
    ndcg_5: float


class Fields:
    """The object in a line of JSON, its fields checked as they are read. Raises `IngestError` naming the line."""

    def __init__(self, where: str, value: object) -> None:
        self.where = where
        """The beginning of each error: what is wrong where."""
        if not isinstance(value, dict):
            raise self.wrong("it is no JSON object")
        self._values: dict[str, Any] = value

    @classmethod
    def of_lines(cls, text: str, kind: str) -> Iterator[Fields]:
        """The object in each line that is not empty; `kind` is what a line should hold."""
        # Not splitlines(): JSON may hold U+2028 and others that Python takes for line ends, too.
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                where = f"line {number} is no {kind}"
                try:
                    value = json.loads(line)
                except json.JSONDecodeError as error:
                    raise IngestError(f"{where}: {error.msg} at column {error.colno}") from None
                except ValueError as error:  # a number of more digits than Python reads
                    raise IngestError(f"{where}: {error}") from None
                except RecursionError:
                    raise IngestError(f"{where}: its JSON is nested too deeply") from None
                yield cls(where, value)

    def wrong(self, reason: str) -> IngestError:
        return IngestError(f"{self.where}: {reason}")

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self._value(name)
        if not isinstance(value, str):
            raise self.wrong(f'"{name}" is no text')
        return value

    def optional(self, name: str) -> str:
        """A text that may be missing or null: then empty."""
        return "" if self._values.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool | None:
        """None if it is missing or null."""
        return None if self._values.get(name) is None else bool(self._values[name])

    def id(self, name: str) -> str:
        """A text or a whole number."""
        return self._id(name, self._value(name))

    def ids(self, name: str) -> list[str]:
        return [self._id(name, value) for value in self._list(name)]

    def objects(self, name: str) -> list[Fields]:
        return [Fields(f'{self.where}: in "{name}"', value) for value in self._list(name)]

    def _value(self, name: str) -> object:
        if name not in self._values:
            raise self.wrong(f"it has no '{name}'")
        return self._values[name]

    def _list(self, name: str) -> list[Any]:
        value = self._value(name)
        if not isinstance(value, list):
            raise self.wrong(f'"{name}" is no list')
        return value

    def _id(self, name: str, value: object) -> str:
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise self.wrong(f'"{name}" is neither a text nor a whole number')
        return str(value)


def items(text: str) -> list[Item]:
    """The items in the lines of a file. Raises `IngestError` naming the line that is none."""
    found = [_item(fields) for fields in Fields.of_lines(text, "evaluation item")]
    if not found:
        raise IngestError("the file holds no evaluation item")
    return found


def _item(fields: Fields) -> Item:
    return Item(
        id=fields.id("id"),
        history=pairs([(turn.text("role"), turn.text("text")) for turn in fields.objects("turns")]),
        question=fields.text("question"),
        relevant=frozenset(fields.ids("relevant")),
        kind=fields.optional("kind") or "unlabelled",
        gold=fields.optional("gold_rewrite"),
        needs_history=fields.flag("needs_history"),
    )


def pairs(turns: Sequence[tuple[str, str]]) -> tuple[Turn, ...]:
    """Messages as pairs; messages of the user in a row are one question, one without an answer says so."""
    made: list[Turn] = []
    asked: list[str] = []
    for role, text in turns:
        if role == "user":
            asked.append(text)
        elif asked:
            made.append(Turn(question="\n".join(asked), answer=text.strip() or NO_ANSWER))
            asked = []
    if asked:
        made.append(Turn(question="\n".join(asked), answer=NO_ANSWER))
    return tuple(made)


def score(ranked: Sequence[str], relevant: frozenset[str]) -> Scores:
    """Of one ranking of distinct ids, best first, against at least one relevant id (binary gains)."""
    gains = [id_ in relevant for id_ in ranked[:DEPTH]]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(5, len(relevant))))
    return Scores(
        recall_1=sum(gains[:1]) / len(relevant),
        recall_5=sum(gains[:5]) / len(relevant),
        recall_10=sum(gains) / len(relevant),
        ndcg_5=sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains[:5])) / ideal,
    )


def mean(scores: Sequence[Scores]) -> Scores:
    """The mean of at least one."""
    count = len(scores)
    return Scores(
        recall_1=sum(s.recall_1 for s in scores) / count,
        recall_5=sum(s.recall_5 for s in scores) / count,
        recall_10=sum(s.recall_10 for s in scores) / count,
        ndcg_5=sum(s.ndcg_5 for s in scores) / count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found for one item, by column; columns without a ranking are absent."""

    item: Item
    rankings: Mapping[str, Sequence[str]]
    query: str
    status: str
    reason: str
    seconds: float
    """Of the rewrite; 0 where there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: a group of items and its scores by column."""

    group: str
    count: int
    scores: Mapping[str, Scores]


def table(outcomes: Iterable[Outcome]) -> list[Row]:
    """Scores by kind of turn, then of the follow-ups together, those that need history, and all."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        for name in groups_of(outcome.item):
            groups.setdefault(name, []).append(outcome)
    last = ("follow-ups, all", "follow-ups that need history", "all with labels")
    order = [name for name in sorted(groups) if name not in last] + [name for name in last if name in groups]
    return [_row(name, groups[name]) for name in order]


def groups_of(item: Item) -> list[str]:
    """The groups that an item counts in; none without labels."""
    if not item.relevant:
        return []
    names = [item.kind, "all with labels"]
    if item.kind in FOLLOW_UPS:
        names += ["follow-ups, all", *(["follow-ups that need history"] if item.needs_history else [])]
    return names


def _row(name: str, members: Sequence[Outcome]) -> Row:
    scores = {}
    for column in COLUMNS:
        # The gold column is compared with the others only where every item of the group has one.
        found = [score(o.rankings[column], o.item.relevant) for o in members if column in o.rankings]
        if len(found) == len(members):
            scores[column] = mean(found)
    return Row(group=name, count=len(members), scores=scores)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` are; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))] if ordered else 0.0
