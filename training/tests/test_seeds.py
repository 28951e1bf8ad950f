"""The table over several seeds."""

from __future__ import annotations

import pytest

from core.evaluation import items
from training.seeds import cell, interval, table

FILE = """\
{"id": "1", "turns": [], "question": "a", "relevant": ["p1"], "kind": "followup"}
{"id": "2", "turns": [], "question": "b", "relevant": ["p2"], "kind": "followup"}
{"id": "3", "turns": [], "question": "c", "relevant": [], "kind": "unanswerable"}
"""


def run(first: list[str], second: list[str]) -> dict[str, dict[str, list[str]]]:
    return {"1": {"rewrite": first}, "2": {"rewrite": second}, "3": {"rewrite": []}}


def test_a_row_holds_the_mean_and_the_spread_over_the_runs():
    lines = table(items(FILE), [run(["p1"], ["p2"]), run(["p1"], ["x"])])
    (row,) = [line for line in lines if line.startswith("| followup |")]
    assert row.startswith("| followup | 2 | rewrite | 0.750 ± 0.354 (")
    assert "unanswerable" not in "".join(lines)


def test_one_run_has_no_spread_and_equal_items_no_width():
    assert cell([[0.5, 0.5, 0.5]]) == "0.500 (0.50-0.50)"


def test_an_interval_gets_narrower_with_more_items():
    few, many = interval([0.0, 1.0] * 5), interval([0.0, 1.0] * 200)
    assert few[0] < many[0] < 0.5 < many[1] < few[1]
    assert many[1] - many[0] == pytest.approx(0.098, abs=0.02)
