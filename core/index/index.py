"""One open index: catalog, vectors and embedder together. The only place where they are put together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from core.index.catalog import Catalog
from core.index.database import absolute
from core.index.search import IndexRetriever
from core.index.vectors import DIRECTORY, QUERY_SECONDS, VectorStore
from core.ports import Embedder

INDEX: Final = "index"


class Index:
    """Made by `open_index`, until `close`. One process at a time: see `lock`."""

    def __init__(self, directory: Path, catalog: Catalog, vectors: VectorStore, embedder: Embedder) -> None:
        self.directory = directory
        self.catalog = catalog
        self.vectors = vectors
        self.embedder = embedder
        self.retriever = IndexRetriever(catalog, vectors, embedder)
        self.changing = asyncio.Lock()
        """Held by whoever changes or checks the index: an ingest, a check, a rebuild."""

    def warm_up(self) -> None:
        """Starts what the first search would otherwise wait for, without waiting for it."""
        self.vectors.warm_up()

    async def close(self) -> None:
        await self.vectors.close()
        await self.catalog.close()


async def open_index(data_dir: Path, embedder: Embedder, *, query_seconds: float = QUERY_SECONDS) -> Index:
    """The index in `data_dir`, created if it is not there. Takes milliseconds: vectors open with the first use.

    Raises `DataDirError` when the directory cannot be written, the catalog is damaged or from a newer version.
    """
    directory = absolute(data_dir) / INDEX
    catalog = await Catalog.open(directory)
    return Index(directory, catalog, VectorStore(directory / DIRECTORY, query_seconds=query_seconds), embedder)
