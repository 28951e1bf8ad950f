"""Examples that share a conversation share a sequence: a trunk, and branches that end in what is to be learnt.

A branch sees itself and the trunk up to where it leaves it, and has the positions it would have there. So each branch
is computed as if it stood alone behind its part of the trunk, at about half the tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from training.tokens import BOS

BLOCK: Final = 16
"""Lengths are padded to a multiple of it."""


@dataclass(slots=True)
class _Branch:
    leaves: int
    prompt: list[int]
    target: list[int]


@dataclass(slots=True)
class Packed:
    """A trunk, and the branches off it."""

    trunk: list[int] = field(default_factory=lambda: [BOS])
    branches: list[_Branch] = field(default_factory=list)

    def extend(self, tokens: Sequence[int]) -> None:
        """Lengthens the trunk."""
        self.trunk.extend(tokens)

    def branch(self, prompt: Sequence[int], target: Sequence[int]) -> None:
        """Something to learn here: `target` after the trunk so far and `prompt`."""
        self.branches.append(_Branch(len(self.trunk), list(prompt), list(target)))

    def __len__(self) -> int:
        """Tokens, all branches included; a trunk that goes on after its last branch ends there."""
        ends = max((branch.leaves for branch in self.branches), default=0)
        return ends + sum(len(branch.prompt) + len(branch.target) - 1 for branch in self.branches)

    def targets(self) -> int:
        """Tokens to be learnt."""
        return sum(len(branch.target) for branch in self.branches)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences side by side: `ids` and `positions` [batch, length], `mask` [batch, length, length].

    `rows` are the places in the flattened batch whose next token is the target in `labels`, both [targets].
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    rows: Tensor
    labels: Tensor
    tokens: int
    """Without padding."""


def collate(sequences: Sequence[Packed]) -> Batch:
    """One batch."""
    length = padded(max(map(len, sequences)))
    size = (len(sequences), length)
    ids, positions = torch.zeros(size, dtype=torch.long), torch.zeros(size, dtype=torch.long)
    owner, limit = torch.full(size, -1), torch.zeros(size, dtype=torch.long)
    rows: list[int] = []
    labels: list[int] = []
    for row, sequence in enumerate(sequences):
        end = max(branch.leaves for branch in sequence.branches)
        ids[row, :end] = torch.tensor(sequence.trunk[:end])
        positions[row, :end] = torch.arange(end)
        owner[row, :end] = 0
        for number, branch in enumerate(sequence.branches, 1):
            # The last target is only predicted, never read.
            read = [*branch.prompt, *branch.target[:-1]]
            place = slice(end, end + len(read))
            ids[row, place] = torch.tensor(read)
            positions[row, place] = torch.arange(branch.leaves, branch.leaves + len(read))
            owner[row, place] = number
            limit[row, place] = branch.leaves
            first = row * length + end + len(branch.prompt) - 1
            rows.extend(range(first, first + len(branch.target)))
            labels.extend(branch.target)
            end += len(read)
    order = torch.arange(length)
    earlier = order[:, None] >= order[None]
    own = owner[:, :, None] == owner[:, None, :]
    trunk = (owner[:, None, :] == 0) & (order[None, None, :] < limit[:, :, None])
    mask = (earlier & (own | trunk)) | torch.eye(length, dtype=torch.bool)
    return Batch(ids, positions, mask, torch.tensor(rows), torch.tensor(labels), sum(map(len, sequences)))


def padded(length: int) -> int:
    """`length`, rounded up."""
    return -(-length // BLOCK) * BLOCK


def batches(sequences: Sequence[Packed], budget: int, rng: random.Random) -> list[list[Packed]]:
    """Sequences of like length together, at most `budget` tokens with padding (one sequence at least), shuffled."""
    made: list[list[Packed]] = []
    for sequence in sorted(sequences, key=len):
        if not made or (len(made[-1]) + 1) * padded(len(sequence)) > budget:
            made.append([])
        made[-1].append(sequence)
    rng.shuffle(made)
    return made
