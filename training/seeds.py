"""`python -m training.seeds`: what rewriters of one recipe find, mean and spread over their seeds, with intervals."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from bot import engine
from bot.config import load
from bot.evaluate import evaluate
from core.evaluation import COLUMNS, Item, groups_of, items, score

METRICS: Final = ("Recall@1", "Recall@5", "Recall@10", "nDCG@5")
RESAMPLED: Final = 2_000
"""Times that the items are drawn anew for an interval."""

Rankings = Mapping[str, Mapping[str, Sequence[str]]]
"""By item and column: ids, best first."""


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.seeds", description=__doc__)
    parser.add_argument("file", type=Path, help="conversations, as for threadwise eval")
    documents = parser.add_mutually_exclusive_group(required=True)
    documents.add_argument("--docs", type=Path)
    documents.add_argument("--corpus", type=Path)
    parser.add_argument("--adapters", type=Path, nargs="+", required=True, metavar="GGUF", help="one for each seed")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--results", type=Path, required=True, metavar="DIR", help="of earlier runs, and of this one")
    asked = parser.parse_args()
    runs = []
    for adapter in asked.adapters:
        kept = asked.results / f"{asked.file.stem}-{adapter.stem}.json"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(_run(adapter, asked.data_dir, asked.file, asked.docs, asked.corpus)), "utf-8")
        runs.append(_rankings(json.loads(kept.read_text("utf-8"))))
    wanted = items(asked.file.read_text("utf-8"))
    print("\n".join(table(wanted, runs)))  # noqa: T201


def _run(adapter: Path, data_dir: Path, file: Path, docs: Path | None, corpus: Path | None) -> dict[str, Any]:
    engine.ADAPTERS["rewrite"] = adapter
    settings = load({"DATA_DIR": str(data_dir), "REWRITER": "local", "REWRITE_TIMEOUT_SECONDS": "5"})
    return asyncio.run(evaluate(settings, file, docs, corpus, None, _advance)).as_json()


def _advance(step: str, done: int, total: int) -> None:
    if done % 50 == 0:
        print(step, done, total, file=sys.stderr, flush=True)  # noqa: T201


def _rankings(result: Mapping[str, Any]) -> Rankings:
    return {outcome["id"]: outcome["ranked"] for outcome in result["outcomes"]}


def table(wanted: Sequence[Item], runs: Sequence[Rankings]) -> list[str]:
    """Lines of Markdown: by group and column the mean, the standard deviation over the runs where there are several,
    and the interval in which 95 % of the means over resampled items are."""
    groups: dict[str, list[Item]] = {}
    for item in wanted:
        for name in groups_of(item):
            groups.setdefault(name, []).append(item)
    lines = [f"| turns | n | searched by | {' | '.join(METRICS)} |", "| --- | --- | --- |" + " --- |" * len(METRICS)]
    for name in sorted(groups):
        members = groups[name]
        for column in COLUMNS:
            if all(column in run[item.id] for run in runs for item in members):
                # By run and item: the metrics.
                scores = [[astuple(score(run[item.id][column], item.relevant)) for item in members] for run in runs]
                cells = [cell([[one[n] for one in run] for run in scores]) for n in range(len(METRICS))]
                lines.append(f"| {name} | {len(members)} | {column} | {' | '.join(cells)} |")
    return lines


def cell(runs: Sequence[Sequence[float]]) -> str:
    """One metric by run and item, as text."""
    means = [statistics.fmean(run) for run in runs]
    low, high = interval([statistics.fmean(item) for item in zip(*runs, strict=True)])
    spread = f" ± {statistics.stdev(means):.3f}" if len(set(means)) > 1 else ""
    return f"{statistics.fmean(means):.3f}{spread} ({low:.2f}-{high:.2f})"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """In which 95 % of the means of `values` lie when as many are drawn from them, with replacement."""
    rng = random.Random(1)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(RESAMPLED))
    return means[round(0.025 * RESAMPLED)], means[round(0.975 * RESAMPLED) - 1]


if __name__ == "__main__":
    main()
