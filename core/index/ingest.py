"""Brings files, or documents from elsewhere, into an open index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from core.index.document import Document
from core.index.index import Index
from core.index.ingest_run import LEAST_FREE, IngestRun, nothing_read
from core.index.records import IngestReport, Progress
from core.index.sources import scan
from core.types import PUBLIC_SCOPE

__all__ = ["IngestReport", "Progress", "ingest", "ingest_documents"]


def _quiet(progress: Progress) -> None:
    """Shows nothing."""


async def ingest(
    paths: Iterable[Path | str],
    index: Index,
    *,
    scope: str = PUBLIC_SCOPE,
    on_progress: Callable[[Progress], None] = _quiet,
    least_free: int = LEAST_FREE,
) -> IngestReport:
    """Brings the index up to date with the files in `paths` (files or folders), for the audience of `scope`.

    If nothing changed, no passage is embedded, only a word, to see that the model is still the same. What was known
    of the given folders and is gone is removed. Raises `IngestError` if no file could be read, `EmbedderError`,
    `RetrievalError` or `DataDirError`: documents that were done by then stay, the others are as they were.
    """
    async with index.changing:
        found = await asyncio.to_thread(scan, [Path(path) for path in paths], await index.catalog.roots())
        if not found.files:
            raise nothing_read(found.failed)
        return await IngestRun(index, scope, on_progress, least_free).files(found)


async def ingest_documents(
    documents: Sequence[Document],
    index: Index,
    *,
    scope: str = PUBLIC_SCOPE,
    on_progress: Callable[[Progress], None] = _quiet,
) -> IngestReport:
    """Puts documents that are no files into the index, each in place of the one with its source."""
    async with index.changing:
        return await IngestRun(index, scope, on_progress, LEAST_FREE).documents(documents)
