"""Searches the index by meaning and by words at once; one of them is enough for an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from core.errors import DataDirError, IndexOutdated, RetrievalError
from core.fail_open import reason_of, record
from core.index.catalog import Catalog
from core.index.embedding import collection_of
from core.index.keywords import search_words
from core.index.records import State
from core.index.vectors import VectorStore
from core.metrics import STAGE_FALLBACKS
from core.ports import Embedder
from core.types import Hits, Passage

log = logging.getLogger(__name__)

DENSE_SECONDS: Final = 3.0
"""For embedding the query and searching with it; the keyword hits wait no longer than this.

At least a second less than `core.pipeline.Limits.search_seconds`: when that ends first, the keyword hits are lost too.
"""
_LONGEST_QUERY: Final = 4000
"""Characters. What is longer was pasted; its beginning says what it is about."""


class IndexRetriever:
    """Implements `core.ports.Retriever`."""

    def __init__(
        self, catalog: Catalog, vectors: VectorStore, embedder: Embedder, *, dense_seconds: float = DENSE_SECONDS
    ) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._embedder = embedder
        self._dense_seconds = dense_seconds
        self._outdated_reported = False
        self.incomplete = False
        """Set while vectors are missing or damaged: a search by meaning would find a part and not know it."""

    async def search(self, text: str, scope: frozenset[str], limit: int) -> Hits:
        """At most `limit` passages of each kind, all within `scope`; empty hits if nothing is found.

        If one kind of search fails, the other's hits are returned and the failure is logged and counted.
        Raises `RetrievalError` when both failed.
        """
        text = text[:_LONGEST_QUERY].encode("utf-8", "replace").decode()
        try:
            state = await self._catalog.state()
        except DataDirError as error:
            raise RetrievalError(str(error)) from error
        wanted = (scope - {""}) & state.scopes
        if not wanted or not text.strip() or limit < 1:
            return Hits()
        dense, keyword = await asyncio.gather(
            _outcome(lambda: self._dense(text, wanted, limit, state)),
            _outcome(lambda: self._catalog.keywords.search(search_words(text), wanted, limit, state=state)),
        )
        if isinstance(dense, Exception) and isinstance(keyword, Exception):
            raise RetrievalError(f"{dense} {keyword}") from dense
        return Hits(dense=self._or_nothing("dense", dense), keyword=self._or_nothing("keyword", keyword))

    def _or_nothing(self, kind: str, outcome: list[Passage] | Exception) -> tuple[Passage, ...]:
        if not isinstance(outcome, Exception):
            return tuple(outcome)
        stage = f"retrieve_{kind}"
        if isinstance(outcome, IndexOutdated) and self._outdated_reported:
            STAGE_FALLBACKS.labels(stage=stage, reason=reason_of(outcome)).inc()
        else:
            self._outdated_reported = self._outdated_reported or isinstance(outcome, IndexOutdated)
            record(stage, outcome)
        return ()

    async def _dense(self, text: str, scopes: frozenset[str], limit: int, state: State) -> list[Passage]:
        if self.incomplete:
            raise RetrievalError("The vectors are incomplete until they are made again.")
        if state.model != self._embedder.model:
            raise outdated(state, self._embedder.model)
        async with asyncio.timeout(self._dense_seconds):
            (vector,) = await self._embedder.embed([text])
            if len(vector) != state.width:
                raise outdated(state, self._embedder.model, len(vector))
            collections = [collection_of(state.generation, scope) for scope in sorted(scopes)]
            # Vectors of passages that an ingest is writing or retiring are found as well, and dropped below.
            hits = await self._vectors.query(collections, vector, 2 * limit + 16)
            if not hits:
                raise RetrievalError("The vector index is empty, although documents were ingested.")
            # Once more in code: the passage itself says which scope it is in, not where its vector lies.
            passages = await self._catalog.passages([id_ for id_, _ in hits], scopes)
        found = [(passages[id_], similarity) for id_, similarity in hits if id_ in passages]
        return [replace(passage, score=similarity) for passage, similarity in found[:limit]]


def outdated(state: State, model: str, width: int | None = None) -> IndexOutdated:
    """The error for an index made with another embedding model, or another width of it."""
    now = f"{model!r}" if width is None else f"{model!r} with {width} numbers a vector"
    return IndexOutdated(
        f"The index was made with the embedding model {state.model!r} ({state.width} numbers a vector), the model "
        f"now is {now}: run `threadwise ingest` again. Until then documents are searched by keywords only."
    )


async def _outcome(work: Callable[[], Awaitable[list[Passage]]]) -> list[Passage] | Exception:
    """What `work` returns, or the error it ends with; a cancelled search stays cancelled.

    The work is begun in here: cancelled before its first step, it would be a coroutine that nobody awaits.
    """
    try:
        return await work()
    except DataDirError as error:
        return RetrievalError(str(error))
    except Exception as error:  # noqa: BLE001 - the other kind of search is the answer to any failure of this one
        return error
