"""Search over 50,000 passages: by meaning and by words, as a turn does it, the embedder left out."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import chromadb
import numpy

from bench.figures import Figure, Result
from bench.process import resident_megabytes
from bench.run import Run
from bench.texts import VERSION as TEXTS_VERSION
from bench.texts import Corpus, corpus
from core.evaluation import quantile
from core.index import chunker, schema
from core.index.embedding import collection_of
from core.index.index import Index, open_index
from core.index.ingest import Progress, ingest_documents
from core.index.keywords import search_words
from core.index.lock import lock_data_dir
from core.retrieve import CANDIDATES
from core.types import PUBLIC_SCOPE

GOAL_MS: Final = 25.0
PASSAGES: Final = 50_000
QUESTIONS: Final = 1_000
WARM_UP: Final = 50
"""Questions that do not count."""
COMPARED: Final = 200
"""Questions whose vectors are compared with all others, to see what the search by meaning misses."""
FIRST_SECONDS: Final = 60.0
"""What the first search may take, which reads all vectors from the disk; the bot's own limit is lower."""
ALONE: Final = 350
"""Questions for the parts of a search by themselves."""
NEAREST: Final = 2 * CANDIDATES + 16
"""Vectors that a search asks for."""
WIDTH: Final = 384
COUNTED: Final = (
    f"one search after the other, as the pipeline makes them ({CANDIDATES} passages of each kind, with their texts), "
    f"over {PASSAGES:,} made-up passages in one scope: {QUESTIONS - WARM_UP} different questions, each for the first "
    f"time. Vectors come from a table and take no time; all else counts, the way to the vector process and back among "
    f"it. The parts of a search are told for information: each alone, where a search has some of them at once."
)

Milliseconds = Sequence[float]


class Table:
    """An `Embedder` that looks vectors up, by the text of a passage or a question."""

    model = "bench-table"

    def __init__(self, texts: Corpus) -> None:
        self._rows: Mapping[str, Any] = dict(zip(texts.passages, texts.vectors, strict=True)) | dict(
            zip(texts.questions, texts.question_vectors, strict=True)
        )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        # What is embedded of a passage is its title and heading in a line above it.
        return [self._rows[text.rpartition("\n")[2]].tolist() for text in texts]


def measure(run: Run) -> Result:
    return asyncio.run(_measured(run))


async def _measured(run: Run) -> Result:
    run.advance("making texts", 0, 0)
    texts = await asyncio.to_thread(corpus, PASSAGES, QUESTIONS, width=WIDTH)
    directory, built = await _prepared(run, texts)
    async with _opened(directory, texts) as index:
        opened, first = await _first(index, texts)
        both = await _timed(run, "searches", texts.questions, lambda question: _search(index, question))
        alone = await _alone(run, index, texts)
        found = await _found(index, texts)
        memory = resident_megabytes()
    figures = [
        Figure(name="search, p95", value=quantile(both, 0.95), unit="ms", goal=GOAL_MS),
        Figure(name="search, p50", value=quantile(both, 0.5), unit="ms"),
        *(Figure(name=f"{what} alone, p95", value=quantile(taken, 0.95), unit="ms") for what, taken in alone.items()),
        Figure(name="start of the vector process", value=opened, unit="s"),
        Figure(name="its first search", value=first, unit="s"),
        Figure(name=f"nearest {CANDIDATES} found by meaning", value=100 * found, unit="%"),
        Figure(name="resident memory of the vector process", value=sum(memory.values()) - memory["itself"], unit="MB"),
    ]
    details = {
        "passages": PASSAGES,
        "built_seconds": built,
        "p50": {what: quantile(taken, 0.5) for what, taken in alone.items()},
    }
    return Result(figures=figures, counted=COUNTED, details=details)


async def _prepared(run: Run, texts: Corpus) -> tuple[Path, float | None]:
    """Where the index is, and how long it took to build; None if it is one of an earlier run."""
    version = f"{TEXTS_VERSION}-{chunker.VERSION}-{schema.VERSION}-{chromadb.__version__}"
    directory = run.directory / f"search-{version}-{PASSAGES}"
    for other in run.directory.glob("search-*"):
        if other != directory:
            shutil.rmtree(other, ignore_errors=True)
    if (directory / "built").exists():
        return directory, None
    shutil.rmtree(directory, ignore_errors=True)
    start = time.monotonic()
    # Closed again, so that the first run, too, begins with files and not with what was in memory.
    async with _opened(directory, texts) as index:
        await ingest_documents(texts.documents, index, on_progress=lambda step: _tell(run, step))
    (directory / "built").touch()
    return directory, time.monotonic() - start


@asynccontextmanager
async def _opened(directory: Path, texts: Corpus) -> AsyncIterator[Index]:
    with lock_data_dir(directory):
        index = await open_index(directory, Table(texts), query_seconds=FIRST_SECONDS)
        index.warm_up()
        try:
            yield index
        finally:
            await index.close()


def _tell(run: Run, step: Progress) -> None:
    run.advance("building the index (kept for the next run)", step.done, step.total)


async def _search(index: Index, question: str) -> None:
    hits = await index.retriever.search(question, frozenset({PUBLIC_SCOPE}), CANDIDATES)
    if len(hits.dense) < CANDIDATES or not hits.keyword:
        raise RuntimeError(f"a search found {len(hits.dense)} and {len(hits.keyword)} passages")


async def _timed(
    run: Run, what: str, questions: Sequence[str], work: Callable[[str], Awaitable[object]]
) -> Milliseconds:
    """Milliseconds of each `work`, those of the first few questions left out."""
    taken = []
    for number, question in enumerate(questions):
        start = time.perf_counter()
        await work(question)
        taken.append(1000 * (time.perf_counter() - start))
        run.advance(what, number + 1, len(questions))
    return taken[WARM_UP:]


async def _first(index: Index, texts: Corpus) -> tuple[float, float]:
    """Seconds until the vector process is there, and of its first search."""
    start = time.perf_counter()
    await index.vectors.collections()
    opened = time.perf_counter()
    collection = collection_of((await index.catalog.state()).generation, PUBLIC_SCOPE)
    await index.vectors.query([collection], texts.question_vectors[0].tolist(), NEAREST)
    return opened - start, time.perf_counter() - opened


async def _alone(run: Run, index: Index, texts: Corpus) -> dict[str, Milliseconds]:
    """The parts of a search, each by itself."""
    state = await index.catalog.state()
    scopes = frozenset({PUBLIC_SCOPE})
    collection = collection_of(state.generation, PUBLIC_SCOPE)
    vectors = dict(zip(texts.questions, texts.question_vectors.tolist(), strict=True))
    ids = sorted((await index.catalog.ids())[PUBLIC_SCOPE])

    async def by_meaning(question: str) -> object:
        return await index.vectors.query([collection], vectors[question], NEAREST)

    async def by_words(question: str) -> object:
        return await index.catalog.keywords.search(search_words(question), scopes, CANDIDATES, state=state)

    async def looked_up(question: str) -> object:
        return await index.catalog.passages(random.Random(question).sample(ids, NEAREST), scopes)

    async def read_state(question: str) -> object:
        return await index.catalog.state()

    parts: dict[str, Callable[[str], Awaitable[object]]] = {
        "by meaning": by_meaning,
        "by words": by_words,
        "look-up of passages": looked_up,
        "state of the index": read_state,
    }
    return {what: await _timed(run, what, texts.questions[:ALONE], work) for what, work in parts.items()}


async def _found(index: Index, texts: Corpus) -> float:
    """Share of the really nearest passages that the search by meaning finds: speed at any price is none."""
    rows = {text: number for number, text in enumerate(texts.passages)}
    found = 0
    for number in range(COMPARED):
        hits = await index.retriever.search(texts.questions[number], frozenset({PUBLIC_SCOPE}), CANDIDATES)
        nearest = numpy.argsort(-(texts.vectors @ texts.question_vectors[number]))[:CANDIDATES]
        found += len({rows[passage.text] for passage in hits.dense} & set(nearest.tolist()))
    return found / (COMPARED * CANDIDATES)
