"""Cross-entropy over the words that matter, in little memory.

Gemma's vocabulary has 262,144 tokens, and a softmax over all of them costs a third of a training step. Those that the
data never holds and that are not frequent in general have next to no probability, so the loss leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

FREQUENT: Final = 8_000
"""The tokenizer numbers its pieces by frequency; the first of them are always part of the loss."""
CHUNK: Final = 256
"""Targets whose scores are held at the same time."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of the loss, and their rows of the (tied) embedding."""

    ids: Tensor
    """Sorted, [kept]."""
    rows: Tensor
    """[kept, width]"""

    @classmethod
    def of(cls, used: Iterable[int], embedding: Tensor) -> Vocabulary:
        """The frequent tokens and those in `used`."""
        ids = torch.tensor(sorted({*range(FREQUENT), *used}))
        return cls(ids, embedding[ids].contiguous())


@dataclass(frozen=True, slots=True)
class Loss:
    """Summed over the targets."""

    total: float
    right: int
    """Targets that were the most likely token."""
    gradient: Tensor
    """Of `total` by the hidden states, [targets, width], float32."""


def cross_entropy(hidden: Tensor, labels: Tensor, vocabulary: Vocabulary) -> Loss:
    """The loss of hidden states [targets, width] against tokens [targets]; the gradient by hand, chunk by chunk."""
    wanted = torch.searchsorted(vocabulary.ids, labels)
    gradient = torch.empty_like(hidden, dtype=torch.float32)
    total, right = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(labels), CHUNK):
            part = slice(start, start + CHUNK)
            scores = F.linear(hidden[part].to(vocabulary.rows.dtype), vocabulary.rows).float()
            right += int((scores.argmax(-1) == wanted[part]).sum())
            likely = scores.log_softmax(-1)
            total -= float(likely.gather(1, wanted[part, None]).sum())
            probabilities = likely.exp_().to(vocabulary.rows.dtype)
            gradient[part] = (probabilities @ vocabulary.rows).float() - vocabulary.rows[wanted[part]].float()
    return Loss(total, right, gradient)
