"""Nothing blocks the event loop: heartbeats and acknowledgements go out whatever is being done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from core.index.index import open_index
from core.index.ingest import ingest
from core.index.search import IndexRetriever
from tests.cases.conftest import MakeQuill
from tests.index.fakes import BagOfWords

CHUNKS = 500
SLOW = 2.0
"""Seconds that the embedder takes for the question."""
LONGEST_GAP = 1.0
"""Of the loop, on a machine that does other things, too; a blocking call takes as long as the embedder."""


class SlowEmbedder(BagOfWords):
    """Takes its time for a question, as an endpoint that is busy does."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if len(texts) == 1:
            await asyncio.sleep(SLOW)
        return await super().embed(texts)


class BlockingEmbedder(BagOfWords):
    """The fault itself: the event loop sleeps."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if len(texts) == 1:
            time.sleep(SLOW)  # noqa: ASYNC251 - that is what the test is about
        return await super().embed(texts)


@asynccontextmanager
async def gaps() -> AsyncIterator[list[float]]:
    """The seconds between two turns of the loop."""
    found = [0.0]

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            found.append(time.monotonic() - before)

    task = asyncio.create_task(tick())
    try:
        yield found
    finally:
        task.cancel()


async def longest_gap(quill: MakeQuill, folder: Path, embedder: BagOfWords) -> float:
    """While a question is asked and half a thousand passages are read."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "d1.md").write_text("# Kestrel\n\nThe Kestrel pump takes 0.8 L of oil.\n")
    index = await open_index(folder / "data", embedder)
    try:
        await ingest([docs], index)
        for number in range(CHUNKS // 10):
            sections = [f"## Part {number}.{n}\n\nThe wheel {number}.{n} is turned by hand.\n" for n in range(10)]
            (docs / f"more{number}.md").write_text("\n".join(sections))
        bot = quill(generate=["0.8 L [1]."], retriever=IndexRetriever(index.catalog, index.vectors, embedder))
        async with gaps() as found:
            _, outcome = await asyncio.gather(ingest([docs], index), bot.asks("What oil does the Kestrel take?"))
        assert outcome.text == "0.8 L [1]."
        return max(found)
    finally:
        await index.close()


async def test_a_slow_search_and_an_ingest_leave_the_loop_free(quill: MakeQuill, tmp_path: Path):
    """B104: heartbeats were blocked by model work on the event loop."""
    assert await longest_gap(quill, tmp_path, SlowEmbedder(width=512)) < LONGEST_GAP


async def test_a_call_that_blocks_is_seen(quill: MakeQuill, tmp_path: Path):
    """B104: the proof that the test above sees it."""
    assert await longest_gap(quill, tmp_path, BlockingEmbedder(width=512)) >= SLOW
