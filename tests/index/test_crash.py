"""An ingest is killed with SIGKILL at odd moments: documents are old or new in full, never both, never half."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from core.errors import DataDirError, IngestError
from core.index.embedding import collection_of
from core.index.health import check
from core.index.index import open_index
from core.index.ingest import ingest
from core.index.readers import read_bytes
from core.index.sources import scan
from tests.index.conftest import PUBLIC, Opener
from tests.index.fakes import BagOfWords

DOCUMENTS = 30
PARTS = 12
INGEST = """
    import asyncio, sys
    from pathlib import Path
    from core.index.index import open_index
    from core.index.ingest import ingest
    from tests.index.fakes import BagOfWords
    class Slow(BagOfWords):
        async def embed(self, texts):
            await asyncio.sleep(0.1)
            return await super().embed(texts)
    async def main():
        index = await open_index(Path(sys.argv[1]), Slow())
        await index.vectors.collections()
        print("ready", flush=True)
        await ingest([sys.argv[2]], index)
        print("done", flush=True)
        await index.close()
    asyncio.run(main())
"""


def write_version(docs: Path, version: int) -> None:
    docs.mkdir(exist_ok=True)
    for number in range(DOCUMENTS):
        parts = [f"## Part {part}\n\nPage{number} part{part} version{version}.\n" for part in range(PARTS)]
        (docs / f"page{number}.md").write_text(f"# Page {number}\n\n" + "\n".join(parts))


async def run_and_kill(data_dir: Path, docs: Path, after: float) -> bool:
    """Whether the ingest was still under way."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(INGEST), str(data_dir), str(docs)),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    await asyncio.sleep(after)
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    return b"done" not in rest


async def versions(data_dir: Path) -> list[set[str]]:
    """By document: the versions that its passages are of. Each document must be there in full."""
    index = await open_index(data_dir, BagOfWords())
    texts: dict[str, list[str]] = {}
    async for page in index.catalog.stored():
        for passage in page:
            texts.setdefault(passage.title, []).append(passage.text)
    await index.close()
    assert all(len(parts) == PARTS for parts in texts.values())
    return [set(re.findall(r"version\d+", " ".join(parts))) for parts in texts.values()]


async def test_a_killed_ingest_leaves_every_document_old_or_new_and_the_next_one_cleans_up(
    data_dir: Path, tmp_path: Path, open_real: Opener
) -> None:
    docs = tmp_path / "docs"
    interrupted = 0
    for version in range(4):
        write_version(docs, version)
        # The first round tells whether an index that is not there yet survives it as well.
        interrupted += await run_and_kill(data_dir, docs, random.uniform(0.02, 0.35))
        found = await versions(data_dir)
        assert all(len(kinds) == 1 for kinds in found)
    assert interrupted  # or nothing was tested
    index = await open_real()
    report = await ingest([docs], index)
    assert report.added + report.changed + report.unchanged == DOCUMENTS
    assert await versions(data_dir) == [{"version3"}] * DOCUMENTS
    state = await index.catalog.state()
    assert await index.vectors.ids(collection_of(state.generation, "public")) == (await index.catalog.ids())["public"]
    assert (await check(index)).ok
    hits = await index.retriever.search("Page7 part3", PUBLIC, 50)
    assert sum("Page7 part3 " in passage.text for passage in hits.dense) == 1
    assert sum("Page7 part3 " in passage.text for passage in hits.keyword) == 1
    assert not state.unfinished


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may write everywhere; for a moment we are somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_data_directory_that_cannot_be_written_is_refused_in_one_line(mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        data_dir = Path(name)
        (data_dir / "index").mkdir()
        (data_dir / "index").chmod(mode)
        data_dir.chmod(0o755)
        with ordinary_user(), pytest.raises(DataDirError, match="cannot be written: make it writable"):
            asyncio.run(open_index(data_dir, BagOfWords()))
        (data_dir / "index").chmod(0o755)
        assert not list((data_dir / "index").iterdir())


def test_what_may_not_be_read_is_named_and_nothing_is_taken_for_gone() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "a.md").write_text("Readable.")
        (folder / "b.md").write_text("Not readable.")
        (folder / "b.md").chmod(0o000)
        (folder / "sub").mkdir(mode=0o000)
        with ordinary_user():
            found = scan([folder], [])
            with pytest.raises(IngestError, match=r"^permission denied$"):
                read_bytes(folder / "b.md")
        assert [file.path.name for file in found.files] == ["a.md", "b.md"]
        assert [reason for _, reason in found.failed] == ["permission denied"]
        assert found.unlisted == [f"{folder.name}/sub/"]
        (folder / "sub").chmod(0o755)
