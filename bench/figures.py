"""What a part of the benchmark found, as a table and as JSON. No measuring here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    """None for what is told for information."""
    at_least: bool = False
    """Whether the goal is a floor; else it is a ceiling."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one part found."""

    figures: Sequence[Figure]
    counted: str
    """What the figures count, and what not."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """For the JSON only: single values, shares, where time and memory go."""

    def as_json(self) -> Json:
        figures = [asdict(figure) | {"met": figure.met} for figure in self.figures]
        return {"figures": figures, "counted": self.counted, "details": dict(self.details)}


def print_results(results: Mapping[str, Result | str], console: Console) -> None:
    """The table of figures, a line for a part that could not be measured, and what was counted."""
    grid = Table(title="Threadwise benchmark", title_justify="left")
    for column, justify in (("part", "left"), ("figure", "left"), ("measured", "right"), ("goal", "right")):
        grid.add_column(column, justify="right" if justify == "right" else "left")
    grid.add_column("")
    for part, result in results.items():
        if isinstance(result, str):
            grid.add_row(part, Text(f"not measured: {result}", style="red"), "", "", "")
            continue
        for number, figure in enumerate(result.figures):
            grid.add_row("" if number else part, figure.name, _measured(figure), _goal(figure), _verdict(figure))
        grid.add_section()
    console.print(grid)
    for part, result in results.items():
        if not isinstance(result, str):
            console.print(f"{part}: {result.counted}", soft_wrap=True, markup=False)


def _measured(figure: Figure) -> str:
    return f"{_number(figure.value)} {figure.unit}".strip()


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    return f"{'at least' if figure.at_least else 'at most'} {figure.goal:g} {figure.unit}".strip()


def _verdict(figure: Figure) -> Text:
    if figure.met is None:
        return Text("")
    return Text("met", style="green") if figure.met else Text("missed", style="red")


def _number(value: float) -> str:
    """Three digits that matter, whole numbers whole."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
