"""How fast documents get into the index, beside how fast the embedder takes the same texts by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from bench.embedded import engine
from bench.figures import Figure, Result
from bench.run import DOCS, ROOT, Run
from bot.engine import EMBEDDING_TOKENS, Endpoint
from core.index.embedder import HttpEmbedder
from core.index.embedding import embedded_text
from core.index.index import Index, open_index
from core.index.ingest import ingest

GOAL_PERCENT: Final = 90.0
COPIES: Final = 8
"""Of each text: the guide alone is too short to measure with."""
ROUNDS: Final = 3
COUNTED: Final = (
    f"an ingest of {COPIES} copies of the guide and the notes of this project, from the first file to the end "
    f"(reading, splitting, embedding, both indexes), into an empty index whose vector process starts meanwhile; then "
    f"the same texts to the embedder alone, by the same client, all at once; {ROUNDS} rounds of both, summed."
)


def measure(run: Run) -> Result:
    with run.scratch() as scratch:
        return asyncio.run(_measured(run, scratch))


async def _measured(run: Run, scratch: Path) -> Result:
    folder = _written(scratch / "texts")
    ingests, bares, passages = [], [], 0
    async with engine(run, chat=False) as started:
        assert started.embeddings is not None
        for number in range(ROUNDS):
            async with _index(scratch / f"index-{number}", started.embeddings) as index:
                run.advance("ingest", 2 * number, 2 * ROUNDS)
                start = time.perf_counter()
                report = await ingest([folder], index)
                ingests.append(time.perf_counter() - start)
                passages += report.passages
                texts = [
                    embedded_text(passage.title, passage.heading, passage.text)
                    async for page in index.catalog.stored()
                    for passage in page
                ]
                run.advance("embedder alone", 2 * number + 1, 2 * ROUNDS)
                start = time.perf_counter()
                await index.embedder.embed(texts)
                bares.append(time.perf_counter() - start)
    return Result(
        figures=[
            Figure(
                name="ingest, of the bare embedder's rate",
                value=100 * sum(bares) / sum(ingests),
                unit="%",
                goal=GOAL_PERCENT,
                at_least=True,
            ),
            Figure(name="ingest", value=passages / sum(ingests), unit="passages/s"),
            Figure(name="embedder alone", value=passages / sum(bares), unit="passages/s"),
        ],
        counted=COUNTED,
        details={"passages": passages // ROUNDS, "ingest_seconds": ingests, "embedder_seconds": bares},
    )


def _written(folder: Path) -> Path:
    """A folder of texts, each copy under a title of its own."""
    sources = [*sorted(DOCS.glob("*.md")), *(ROOT / f"{name}.md" for name in ("README", "DECISIONS", "CONTRIBUTING"))]
    for copy in range(COPIES):
        directory = folder / f"copy-{copy}"
        directory.mkdir(parents=True)
        for source in sources:
            title, _, rest = source.read_text(encoding="utf-8").partition("\n")
            (directory / source.name).write_text(f"{title} ({copy})\n{rest}", encoding="utf-8")
    return folder


@asynccontextmanager
async def _index(directory: Path, endpoint: Endpoint) -> AsyncIterator[Index]:
    """An empty index over the embedder at `endpoint`, put together as the bot does it."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        embedder = HttpEmbedder(
            client,
            endpoint.base_url,
            endpoint.model,
            api_key=endpoint.api_key,
            max_tokens=EMBEDDING_TOKENS,
            normal_form="NFD",
        )
        index = await open_index(directory, embedder)
        stack.push_async_callback(index.close)
        index.warm_up()
        yield index
