"""Do the vectors hold what the catalog says? Chroma does not tell: it may count 2,400 and find 401 of them."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from core.errors import RetrievalError
from core.index.embedding import collection_of, embedded_text
from core.index.index import Index
from core.index.records import State
from core.index.search import outdated
from core.index.upkeep import collect_orphans, embedder_width, fill, use_model
from core.index.vector_worker import GONE, WorkerFailed

log = logging.getLogger(__name__)

PROBES: Final = 8
_SAME: Final = 0.999
"""Similarity of a vector to itself, or to that of an equal text."""
_MAY_MISS: Final = 0.25
_LENGTH: Final = 0.01
"""How far the squared length of an undamaged vector is from 1 at most."""
_SAME_MODEL: Final = 0.98
"""Similarity of a text's vectors made at two times by one model; batches and hardware differ a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a check found."""

    passages: int = 0
    missing: int = 0
    """Passages without a vector."""
    orphans: int = 0
    """Vectors without a passage: no harm, the next ingest deletes them."""
    probed: int = 0
    unreachable: int = 0
    """Probed vectors that are there and that a search for themselves does not find."""
    damage: str = ""
    """Why the vectors cannot be read at all; empty if they can."""

    @property
    def ok(self) -> bool:
        """True if the passages can be found by meaning. If not, `rebuild` helps."""
        return not (self.missing or self.damage or self.broken)

    @property
    def broken(self) -> bool:
        """Whether more vectors are unreachable than the search, which is approximate, may miss."""
        return self.unreachable > self.probed * _MAY_MISS

    def __str__(self) -> str:
        if self.damage:
            return f"The vector index is damaged: {self.damage}"
        if self.ok:
            return f"{self.passages} passages, all of them in the vector index."
        return (
            f"Of {self.passages} passages {self.missing} have no vector; "
            f"{self.unreachable} of {self.probed} probed vectors are not found."
        )


async def check(index: Index, *, probes: int = PROBES, embed: bool = True) -> Health:
    """Compares catalog and vectors, and searches for some vectors at random.

    Until a check or a rebuild finds all well again, searches of an unsound index are by keywords only.
    With `embed`, one passage is embedded again, to notice a model that changed behind its name. Raises
    `IndexOutdated` if the index was made with another model, `DataDirError` if the catalog is damaged or
    the vectors were tampered with, `RetrievalError` if they are locked, `EmbedderError`.
    """
    async with index.changing:
        await index.catalog.integrity()
        state = await index.catalog.state()
        if not state.total:
            return Health()
        if state.model != index.embedder.model:
            raise outdated(state, index.embedder.model)
        health = await _examined(index, state, probes, embed)
        if health.damage == GONE:
            # Damaged files crash the process every time; somebody else may have killed it once.
            health = await _examined(index, state, probes, embed)
        index.retriever.incomplete = not health.ok
        return health


async def _examined(index: Index, state: State, probes: int, embed: bool) -> Health:
    try:
        return await _compared(index, state, probes, embed)
    except RetrievalError as error:
        cause = error.__cause__
        if isinstance(cause, WorkerFailed) and cause.kind in ("failed", "gone"):
            return Health(passages=state.total, damage=cause.reason)
        raise


async def _compared(index: Index, state: State, probes: int, embed: bool) -> Health:
    missing = orphans = probed = unreachable = 0
    for scope, known in (await index.catalog.ids()).items():
        collection = collection_of(state.generation, scope)
        present = await index.vectors.ids(collection)
        missing += len(known - present)
        orphans += len(present - known)
        share = max(1, round(probes * len(known) / state.total))
        chosen = random.sample(sorted(known & present), min(share, len(known & present)))
        vectors = await index.vectors.vectors(collection, chosen)
        probed += len(chosen)
        unreachable += len(chosen) - len(vectors)
        for vector in vectors.values():
            hits = await index.vectors.query([collection], vector, 3)
            # Not by id: equal texts have equal vectors, and any of them may come first.
            found = bool(hits) and hits[0][1] >= _SAME
            unreachable += not found or abs(sum(value * value for value in vector) - 1) > _LENGTH
        if embed and vectors and not unreachable:
            embed = False
            await _compare_model(index, state, *next(iter(vectors.items())))
    return Health(passages=state.total, missing=missing, orphans=orphans, probed=probed, unreachable=unreachable)


async def _compare_model(index: Index, state: State, id_: str, vector: list[float]) -> None:
    async for page in index.catalog.stored([id_]):
        for passage in page:
            text = embedded_text(passage.title, passage.heading, passage.text)
            (now,) = await index.embedder.embed([text])
            if len(now) != len(vector):
                raise outdated(state, index.embedder.model, len(now))
            if sum(a * b for a, b in zip(now, vector, strict=True)) < _SAME_MODEL:
                raise outdated(state, f"{index.embedder.model}, with other weights")


async def rebuild(
    index: Index, health: Health | None = None, *, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Makes the vectors again from the text in the catalog, with the present embedding model.

    The old directory is kept as `vectors.corrupt-<time>`, the last one of them; if `health` says that vectors
    are only missing, those are added. Meanwhile, and until this has succeeded, searches are by keywords only.
    `on_progress` gets the passages embedded and all of them. Raises `EmbedderError`, `RetrievalError`, `DataDirError`.
    """
    async with index.changing:
        state = await index.catalog.state()
        width = await embedder_width(index)
        index.retriever.incomplete = True
        whole = health is None or health.broken or health.damage or health.missing >= health.passages
        if whole:
            await index.vectors.close()
            kept = await asyncio.to_thread(_set_aside, index.vectors.directory)
            log.warning("The vector index is made again; the old one is kept as %s.", kept)
        done = 0

        def stored(number: int) -> None:
            nonlocal done
            done += number
            on_progress(done, state.total)

        await fill(index, width, stored)
        await use_model(index, width)
        await collect_orphans(index, await index.catalog.state())
        index.retriever.incomplete = False


def _set_aside(directory: Path) -> Path:
    for older in directory.parent.glob(f"{directory.name}.corrupt-*"):
        shutil.rmtree(older, ignore_errors=True)
    kept = directory.with_name(f"{directory.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    if directory.exists():
        os.rename(directory, kept)
    return kept
