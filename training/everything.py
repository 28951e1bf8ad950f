"""`python -m training.everything`: trains the rewriter from several seeds and the answerer, and puts them in place.

Two trainings run at the same time, each on one core: that is quicker than one on two cores, above all where something
else wants a core as well. Of the rewriters the one with most tokens right in what was held out is taken.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bot import engine
from training import adapter
from training.tokens import Server
from training.train import tell

SIDE_BY_SIDE: Final = 2
SEEDS: Final = (1, 2, 3)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.everything", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where the embedded model's files are kept")
    parser.add_argument("--out", type=Path, default=Path("build/training"), help="where all adapters are written")
    asked = parser.parse_args()
    with Server(asked.data_dir):
        tell("The model's files are there.")
    rewriters = [asked.out / f"rewriter-{seed}.gguf" for seed in SEEDS]
    answerer = asked.out / "answerer.gguf"
    jobs = [("rewrite", rewriters[0], 1), ("answer", answerer, 1)]
    jobs += [("rewrite", file, seed) for file, seed in zip(rewriters[1:], SEEDS[1:], strict=True)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for _done in pool.map(lambda job: _train(*job, asked.data_dir), jobs):
            pass
    put(best(rewriters), engine.ADAPTERS["rewrite"])
    put(answerer, engine.ADAPTERS["generate"])


def _train(task: str, out: Path, seed: int, data_dir: Path) -> None:
    command = [sys.executable, "-m", "training.train", task, "--out", str(out), "--data-dir", str(data_dir)]
    subprocess.run([*command, "--seed", str(seed), "--threads", "1"], check=True)


def best(files: Sequence[Path]) -> Path:
    """The adapter with most tokens right in what was held out."""
    for file in files:
        tell(f"{file}: {adapter.accuracy(file):.4f} of the tokens right")
    return max(files, key=adapter.accuracy)


def put(file: Path, place: Path) -> None:
    """Copies an adapter, and its hash beside it."""
    shutil.copy(file, place)
    adapter.write_hash(place)
    tell(f"{file} -> {place}")


if __name__ == "__main__":
    main()
