"""Indexes in a directory of their own, closed after the test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from core.index.catalog import Catalog
from core.index.index import Index, open_index
from core.index.ingest import ingest
from core.index.vectors import VectorStore
from core.ports import Embedder
from tests.index.fakes import BagOfWords, MemoryVectors

PUBLIC = frozenset({"public"})
Opener = Callable[..., Awaitable[Index]]

PAGES = {
    "install.md": "# Install\n\nRun `pip install widget` on Linux.\n\n## On ARM\n\nBuild the wheel from source.\n",
    "limits.md": "# Limits\n\nThe pump HV-12 takes six bar. Use --force to go on.\n",
    "faq.txt": "Questions\n\nThe kube-proxy forwards packets to the right place.\n",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with three small pages."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def embedder() -> BagOfWords:
    return BagOfWords()


@pytest.fixture
async def open_real(data_dir: Path, embedder: BagOfWords) -> AsyncIterator[Opener]:
    """Opens indexes on real Chroma and SQLite files."""
    opened: list[Index] = []

    async def opener(
        at: Path = data_dir, given: Embedder = embedder, *, query_seconds: float = 30.0, **timing: float
    ) -> Index:
        index = await open_index(at, given, query_seconds=query_seconds)
        if timing:
            store = VectorStore(index.vectors.directory, query_seconds=query_seconds, **timing)
            index = Index(index.directory, index.catalog, store, given)
        opened.append(index)
        return index

    yield opener
    for index in opened:
        await index.close()


@pytest.fixture
async def open_quick(data_dir: Path, embedder: BagOfWords) -> AsyncIterator[Opener]:
    """Opens indexes on a real SQLite file, with vectors in memory that outlive a closed index."""
    opened: list[Index] = []
    vectors = cast(Any, MemoryVectors())

    async def opener(given: Embedder = embedder) -> Index:
        directory = data_dir / "index"
        opened.append(Index(directory, await Catalog.open(directory), vectors, given))
        return opened[-1]

    yield opener
    for index in opened:
        await index.close()


@pytest.fixture
async def index(open_quick: Opener) -> Index:
    return await open_quick()


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with 1,100 passages: just enough for Chroma to write its files. Made once, to be copied."""
    import asyncio

    folder = tmp_path_factory.mktemp("many") / "docs"
    folder.mkdir()
    for number in range(11):
        sections = [
            f"## Part {number}-{part}\n\nThe code w{number}x{part} opens "
            + " ".join(f"door{(number * 100 + part) * step % 7919}" for step in range(1, 9))
            for part in range(100)
        ]
        (folder / f"page{number}.md").write_text(f"# Page {number}\n\n" + "\n\n".join(sections))

    async def make() -> Path:
        index = await open_index(folder.parent / "data", BagOfWords())
        await ingest([folder], index)
        await index.close()
        return folder.parent / "data"

    return asyncio.run(make())


@pytest.fixture
def copied(ingested: Path, data_dir: Path) -> Path:
    """A copy of `ingested` that a test may damage."""
    shutil.copytree(ingested, data_dir)
    return data_dir
