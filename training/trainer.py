"""The training loop: AdamW over the adapter, the checkpoint with most tokens right in what was held out."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from training.gemma import Gemma
from training.loss import Loss, Vocabulary, cross_entropy
from training.packing import Batch, Packed, batches, collate

CHECKS: Final = 6
"""Looks at what was held out in a training."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The numbers of a training."""

    epochs: float = 2.0
    rank: int = 16
    alpha: float = 32.0
    rate: float = 5e-4
    """Highest learning rate; reached after a twentieth of the steps, then down to a twentieth of it."""
    batch_tokens: int = 2_000
    clip: float = 1.0
    seed: int = 1
    steps: int | None = None
    """Ends earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A look at what was held out, after so many steps."""

    step: int
    loss: float
    """A token."""
    accuracy: float
    """Share of the tokens that were the most likely one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of it; the model holds the best checkpoint."""

    losses: Sequence[float]
    """A token, by step."""
    checks: Sequence[Checked]
    best: Checked
    seconds: float
    tokens: int


def train(
    model: Gemma,
    epochs: Sequence[Sequence[Packed]],
    held_out: Sequence[Packed],
    recipe: Recipe,
    tell: Tell,
) -> Trained:
    """Trains a fresh adapter of `model` on `epochs`, one after the other."""
    rng = random.Random(recipe.seed)
    parameters = model.add_lora(recipe.rank, recipe.alpha, recipe.seed)
    vocabulary = Vocabulary.of(_used([*held_out, *(packed for epoch in epochs for packed in epoch)]), model.embedding)
    optimizer = torch.optim.AdamW(parameters, lr=recipe.rate, betas=(0.9, 0.99), weight_decay=0.0)
    plan = [batch for epoch in epochs for batch in batches(epoch, recipe.batch_tokens, rng)]
    plan = plan[: min(recipe.steps or len(plan), round(len(plan) * recipe.epochs / len(epochs)))]
    every = max(1, math.ceil(len(plan) / CHECKS))
    checks = [_check(model, held_out, vocabulary, recipe, 0)]
    tell(f"{len(plan)} steps, {len(vocabulary.ids)} tokens in the loss; {_line(checks[0])}")
    best, kept = checks[0], [tensor.detach().clone() for tensor in parameters]
    losses: list[float] = []
    started, seen = time.monotonic(), 0
    for step, packed in enumerate(plan, 1):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * _schedule(step, len(plan))
        batch = collate(packed)
        hidden, loss = _loss(model, batch, vocabulary)
        torch.autograd.backward(hidden, loss.gradient / len(batch.labels))
        torch.nn.utils.clip_grad_norm_(parameters, recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.total / len(batch.labels))
        seen += batch.tokens
        if step % every == 0 or step == len(plan):
            checks.append(_check(model, held_out, vocabulary, recipe, step))
            if checks[-1].accuracy >= best.accuracy:
                best, kept = checks[-1], [tensor.detach().clone() for tensor in parameters]
            recent = losses[-every:]
            speed = seen / (time.monotonic() - started)
            tell(f"loss {sum(recent) / len(recent):.4f}; {_line(checks[-1])}; {speed:.0f} tokens/s")
    with torch.no_grad():
        for tensor, value in zip(parameters, kept, strict=True):
            tensor.copy_(value)
    return Trained(losses=losses, checks=checks, best=best, seconds=time.monotonic() - started, tokens=seen)


def _loss(model: Gemma, batch: Batch, vocabulary: Vocabulary) -> tuple[Tensor, Loss]:
    hidden = model.hidden(batch.ids, batch.positions, batch.mask).flatten(0, 1)[batch.rows]
    return hidden, cross_entropy(hidden.detach(), batch.labels, vocabulary)


def _check(model: Gemma, held_out: Sequence[Packed], vocabulary: Vocabulary, recipe: Recipe, step: int) -> Checked:
    total, right, count = 0.0, 0, 0
    with torch.no_grad():
        for packed in batches(held_out, recipe.batch_tokens, random.Random(0)):
            batch = collate(packed)
            _hidden, loss = _loss(model, batch, vocabulary)
            total, right, count = total + loss.total, right + loss.right, count + len(batch.labels)
    return Checked(step=step, loss=total / count, accuracy=right / count)


def _schedule(step: int, steps: int) -> float:
    """Share of the highest learning rate."""
    warm = max(1, steps // 20)
    return min(1.0, step / warm) * (0.05 + 0.95 * (1 - (step - 1) / steps))


def _used(sequences: Sequence[Packed]) -> Iterator[int]:
    for sequence in sequences:
        yield from sequence.trunk
        for branch in sequence.branches:
            yield from branch.target


def _line(checked: Checked) -> str:
    return f"step {checked.step}: held out loss {checked.loss:.4f}, accuracy {checked.accuracy:.3f}"
