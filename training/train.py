"""`python -m training.train TASK`: trains one adapter and writes it as a llama.cpp adapter."""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from bot.model_files import CHAT_FILE
from training import adapter, answering, rewriting
from training.gemma import Gemma
from training.packing import Packed
from training.tokens import Server
from training.trainer import Recipe, Trained, train

DATA: Final = Path(__file__).parent / "data"
DEFAULT: Final = Recipe()
THREADS: Final = 2
HELD_OUT: Final = 0.05
"""Share of the conversations that are held out, chosen by the hash of their id."""
PAGES_HELD_OUT: Final = 0.1
"""Share of the pages, with all conversations about them: figures are measured on them, nothing is chosen by them."""
PAGES_CHOSEN_BY: Final = 0.06
"""Share of the pages by which the answerer's checkpoint and its bias against refusals are chosen."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where the embedded model's files are kept")
    parser.add_argument("--epochs", type=float, default=None)
    parser.add_argument("--rate", type=float, default=DEFAULT.rate, help="highest learning rate")
    parser.add_argument("--rank", type=int, default=DEFAULT.rank)
    parser.add_argument("--seed", type=int, default=DEFAULT.seed)
    parser.add_argument("--threads", type=int, default=THREADS, help="of torch")
    parser.add_argument("--eager", action="store_true", help="no compiler: slower, but starts at once")
    asked = parser.parse_args(argv)
    recipe = Recipe(
        epochs=asked.epochs or EPOCHS[asked.task],
        rate=asked.rate,
        rank=asked.rank,
        alpha=2.0 * asked.rank,
        seed=asked.seed,
    )
    torch.set_num_threads(asked.threads)
    trained = run(asked.task, asked.data_dir, asked.out, recipe, compiled=not asked.eager)
    tell(f"{trained.seconds / 60:.1f} minutes, {trained.tokens} tokens; best at step {trained.best.step}: {asked.out}")


def run(task: str, data_dir: Path, out: Path, recipe: Recipe, *, compiled: bool) -> Trained:
    """Trains the adapter of `task` and writes it to `out`."""
    with Server(data_dir) as server:
        epochs, held_out = TASKS[task](server, recipe)
    tell(f"{len(epochs[0])} sequences, {sum(map(len, epochs[0]))} tokens an epoch; {len(held_out)} held out")
    model = Gemma(data_dir / "models" / CHAT_FILE, compiled=compiled)
    trained = train(model, epochs, held_out, recipe, tell)
    out.parent.mkdir(parents=True, exist_ok=True)
    adapter.write(model, out, f"threadwise {task}", trained.best.accuracy)
    return trained


Epochs = tuple[list[list[Packed]], list[Packed]]


def _rewrite(server: Server, recipe: Recipe) -> Epochs:
    conversations = rewriting.load(sorted(DATA.glob("rewrite-*.jsonl")))
    about_pages = rewriting.load(sorted(DATA.glob("answer-*.jsonl")))
    held_out = [c for c in conversations if is_held_out(c.id, HELD_OUT)]
    learnt = [c for c in conversations if not is_held_out(c.id, HELD_OUT)]
    learnt += [c for c in about_pages if not is_held_out(c.id, PAGES_HELD_OUT)]
    rng = random.Random(recipe.seed)
    epochs = [rewriting.epoch(learnt, server.tokens, rng) for _ in range(math.ceil(recipe.epochs))]
    return epochs, [rewriting.packed(c, server.tokens) for c in held_out]


def _answer(server: Server, recipe: Recipe) -> Epochs:
    split = pages()
    rng = random.Random(recipe.seed)
    epochs = [answering.epoch(split.learnt, server.tokens, rng) for _ in range(math.ceil(recipe.epochs))]
    return epochs, answering.epoch(split.chosen_by, server.tokens, random.Random(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of the training data by what they are for; no page is in two of them."""

    learnt: list[answering.Page]
    chosen_by: list[answering.Page]
    held_out: list[answering.Page]


def pages() -> Pages:
    """The pages, split the same in every run."""
    found = answering.load(sorted(DATA.glob("answer-*.jsonl")))
    held_out = [page for page in found if is_held_out(page.id, PAGES_HELD_OUT)]
    others = [page for page in found if page not in held_out]
    chosen_by = [page for page in others if is_held_out(page.id, PAGES_HELD_OUT + PAGES_CHOSEN_BY)]
    return Pages(learnt=[page for page in others if page not in chosen_by], chosen_by=chosen_by, held_out=held_out)


def is_held_out(id_: str, share: float) -> bool:
    """Whether a conversation or page is never trained on; the same in every run."""
    return int(hashlib.sha256(id_.encode()).hexdigest()[:8], 16) < share * 2**32


def tell(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


TASKS: Final[dict[str, Callable[[Server, Recipe], Epochs]]] = {"rewrite": _rewrite, "answer": _answer}
EPOCHS: Final = {"rewrite": 2.0, "answer": 3.0}

if __name__ == "__main__":
    main()
