"""`python -m bench [PART ...]`: runs the parts, prints a table, keeps the figures in `bench/results.json`."""

from __future__ import annotations

import argparse
import cProfile
import importlib
import json
import os
import platform
import pstats
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.figures import Json, Result, print_results
from bench.run import ROOT, Advance, Run
from bot.config import from_environment

PARTS: Final = {
    "turn": "own time of a turn, beside model and embedder",
    "search": "search over 50,000 passages",
    "prefix": "share of the prompts that the embedded server has in its cache",
    "slots": "prompt tokens computed anew, by slots and by who rewrites",
    "rewrites": "seconds of a rewrite by the embedded rewriter",
    "ingest": "ingest beside the bare embedder",
    "crowd": "500 threads at once in front of four slots",
    "start": "start to ready",
    "memory": "resident memory",
    "discord": "200 threads that stream at once on Discord",
}
RESULTS: Final = Path(__file__).with_name("results.json")
_PROFILED: Final = 40
"""Functions that `--profile` prints."""


def main() -> int:
    """0, or 1 if a part could not be measured; a missed goal is no failure."""
    parser = _parser()
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"no such part: {' '.join(unknown)} (there are {', '.join(PARTS)})")
    data_dir = from_environment().data_dir.resolve()
    console = Console(stderr=True, highlight=False)
    results: dict[str, Result | str] = {}
    kept = _kept()
    for part in arguments.parts or PARTS:
        started, load = time.monotonic(), os.getloadavg()[0]
        with _bar(console, part) as advance, _profiled(console, on=arguments.profile):
            results[part] = _measured(part, Run(data_dir=data_dir, advance=advance))
        result = results[part]
        if isinstance(result, Result):
            seconds = round(time.monotonic() - started, 1)
            kept["parts"][part] = result.as_json() | {"at": _now(), "seconds": seconds, "load_before": load}
            RESULTS.write_text(json.dumps(kept | _machine(), indent=1) + "\n", encoding="utf-8")
    print_results(results, Console(highlight=False, width=None if sys.stdout.isatty() else 120))
    return int(any(isinstance(result, str) for result in results.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures what Threadwise costs beside its models. docs/benchmarks.md explains the figures.",
        epilog="parts:\n" + "\n".join(f"  {name:<8} {what}" for name, what in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="all of them if none is named")
    parser.add_argument("--profile", action="store_true", help="print where this process spent its time")
    return parser


def _measured(part: str, run: Run) -> Result | str:
    """What the part found, or why it could not be measured."""
    try:
        result = importlib.import_module(f"bench.{part}").measure(run)
    except Exception as error:  # noqa: BLE001 - the other parts are measured all the same
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    assert isinstance(result, Result)
    return result


def _kept() -> Json:
    """The figures of earlier runs: a part that is run alone replaces only its own."""
    try:
        kept = json.loads(RESULTS.read_text(encoding="utf-8"))
        return {"parts": dict(kept["parts"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"parts": {}}


def _machine() -> Json:
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = ""
    return {
        "commit": commit,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _bar(console: Console, part: str) -> Iterator[Advance]:
    """A bar at a terminal, one line a part in a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if not console.is_terminal:
        console.print(f"measuring: {PARTS[part]}", soft_wrap=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(part, total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{part}: {what}", completed=done, total=total or None)

        yield advance


@contextmanager
def _profiled(console: Console, *, on: bool) -> Iterator[None]:
    if not on:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        pstats.Stats(profile, stream=console.file).sort_stats("tottime").print_stats(_PROFILED)


if __name__ == "__main__":
    sys.exit(main())
