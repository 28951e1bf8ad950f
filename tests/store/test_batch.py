"""Small writes that come in the same moment share transactions, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from adapters.store.batch import MOST_AT_ONCE, Batches


class Writer:
    """Doubles numbers; -1 alone is refused, and with -2 the whole batch fails."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def write(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(len(items))
        await asyncio.sleep(0)
        if -2 in items:
            raise OSError("the disk is full")
        return [ValueError("refused") if item == -1 else 2 * item for item in items]


async def test_what_waits_together_is_written_together_and_each_has_its_own_result():
    writer = Writer()
    batches = Batches(writer.write)
    results = await asyncio.gather(*(batches.add(n) for n in range(2 * MOST_AT_ONCE + 50)))
    assert results == [2 * n for n in range(2 * MOST_AT_ONCE + 50)]
    assert sum(writer.batches) == len(results)
    assert max(writer.batches) == MOST_AT_ONCE
    assert len(writer.batches) <= 4


async def test_a_refusal_is_told_to_its_own_caller_only():
    batches = Batches(Writer().write)
    results = await asyncio.gather(*(batches.add(n) for n in (1, -1, 3)), return_exceptions=True)
    assert results[0] == 2
    assert isinstance(results[1], ValueError)
    assert results[2] == 6


async def test_a_batch_that_fails_is_told_to_all_of_it_and_the_next_is_written():
    batches = Batches(Writer().write)
    results = await asyncio.gather(*(batches.add(n) for n in (1, -2, 3)), return_exceptions=True)
    assert results[0] == 2  # It was alone: the others came while it was written.
    assert all(isinstance(result, OSError) for result in results[1:])
    with pytest.raises(OSError, match="full"):
        await batches.add(-2)
    assert await batches.add(5) == 10
