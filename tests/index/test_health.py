from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import EmbedderError, IndexOutdated, RetrievalError
from core.index.embedding import collection_of
from core.index.health import Health, check, rebuild
from core.index.index import Index
from core.index.ingest import ingest
from tests.index.conftest import PUBLIC, Opener
from tests.index.fakes import BagOfWords
from tests.index.test_vectors import locked_by_another_process, process_id

QUESTION = "The code w3x7 opens door307 door614 door921 door1228"


def files(directory: Path, pattern: str) -> list[Path]:
    found = list((directory / "index" / "vectors").glob(pattern))
    assert found
    return found


def header_zeroed(directory: Path) -> None:
    with files(directory, "chroma.sqlite3")[0].open("r+b") as file:
        file.write(bytes(100))


def database_gone(directory: Path) -> None:
    files(directory, "chroma.sqlite3")[0].unlink()


def everything_gone(directory: Path) -> None:
    shutil.rmtree(directory / "index" / "vectors")


def graph_gone(directory: Path) -> None:
    """Chroma then counts all vectors and finds those that were not in the graph yet."""
    for path in files(directory, "*/header.bin"):
        shutil.rmtree(path.parent)


def graph_garbled(directory: Path) -> None:
    """Chroma's native code crashes on this."""
    for path in files(directory, "*/data_level0.bin"):
        path.write_bytes(os.urandom(path.stat().st_size))


def norms_garbled(directory: Path) -> None:
    for path in files(directory, "*/length.bin"):
        path.write_bytes(os.urandom(path.stat().st_size))


async def first(index: Index) -> str:
    hits = await index.retriever.search(QUESTION, PUBLIC, 5)
    return hits.dense[0].text if hits.dense else ""


@pytest.mark.parametrize(
    "damage", [header_zeroed, database_gone, everything_gone, graph_gone, graph_garbled, norms_garbled]
)
async def test_damaged_vectors_are_noticed_while_keywords_still_work(
    copied: Path, open_real: Opener, damage: Callable[[Path], None]
) -> None:
    damage(copied)
    index = await open_real(copied)
    assert not (await check(index)).ok
    hits = await index.retriever.search(QUESTION, PUBLIC, 5)
    assert hits.keyword
    assert not hits.dense


async def test_damaged_vectors_are_made_again_and_the_old_ones_kept(copied: Path, open_real: Opener) -> None:
    (copied / "index" / "vectors.corrupt-20200101T000000Z").mkdir()
    graph_garbled(copied)
    index = await open_real(copied)
    seen: list[tuple[int, int]] = []
    await rebuild(index, await check(index), on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1100, 1100)
    assert await check(index) == Health(passages=1100, probed=8)
    assert "w3x7" in await first(index)
    (kept,) = (copied / "index").glob("vectors.corrupt-*")
    assert (kept / "chroma.sqlite3").exists()


async def test_vectors_that_are_counted_but_not_found_are_noticed(
    index: Index, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Chroma was seen to do: 2,400 counted, 401 found, no error."""
    await ingest([docs], index)
    query = index.vectors.query

    async def finds_a_part(names: Sequence[str], vector: Sequence[float], limit: int) -> list[tuple[str, float]]:
        return [hit for hit in await query(names, vector, limit) if hit[0] == kept]

    kept = min((await index.catalog.ids())["public"])
    monkeypatch.setattr(index.vectors, "query", finds_a_part)
    health = await check(index)
    assert (health.missing, health.probed, health.unreachable) == (0, 4, 3)
    assert not health.ok
    assert str(health) == "Of 4 passages 0 have no vector; 3 of 4 probed vectors are not found."


async def test_a_process_that_was_killed_during_the_check_is_no_damage(
    copied: Path, open_real: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = await open_real(copied)
    ids = index.vectors.ids

    async def killed_first(collection: str) -> set[str]:
        monkeypatch.setattr(index.vectors, "ids", ids)
        await ids(collection)
        os.kill(process_id(index.vectors), signal.SIGKILL)
        return await ids(collection)

    monkeypatch.setattr(index.vectors, "ids", killed_first)
    assert (await check(index)).ok


async def test_undamaged_vectors_pass_the_check(copied: Path, open_real: Opener) -> None:
    index = await open_real(copied)
    health = await check(index)
    assert health == Health(passages=1100, probed=8)
    assert health.ok
    assert str(health) == "1100 passages, all of them in the vector index."


async def test_vectors_that_are_only_missing_are_added(copied: Path, open_real: Opener, embedder: BagOfWords) -> None:
    index = await open_real(copied)
    state = await index.catalog.state()
    collection = collection_of(state.generation, "public")
    lost = sorted(await index.vectors.ids(collection))[:30]
    await index.vectors.delete(collection, lost)
    health = await check(index)
    assert health.missing == 30
    embedder.texts.clear()
    await rebuild(index, health)
    assert len(embedder.texts) == 31  # and one to learn the width
    assert (await check(index)).ok


async def test_searches_by_meaning_stay_off_until_a_rebuild_has_succeeded(
    copied: Path, open_real: Opener, embedder: BagOfWords
) -> None:
    class FailsLater(BagOfWords):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if len(self.texts) > 500 and len(texts) > 1:
                raise EmbedderError("down")
            return await super().embed(texts)

    index = await open_real(copied, FailsLater())
    with pytest.raises(EmbedderError, match="down"):
        await rebuild(index)
    hits = await index.retriever.search(QUESTION, PUBLIC, 5)
    assert hits.keyword
    assert not hits.dense
    await index.close()
    again = await open_real(copied)
    health = await check(again)
    assert 0 < health.missing < 1100
    await rebuild(again, health)
    assert "w3x7" in await first(again)


async def test_a_model_that_changed_behind_its_name_is_noticed(copied: Path, open_real: Opener) -> None:
    other = BagOfWords(salt="other weights")
    index = await open_real(copied, other)
    with pytest.raises(IndexOutdated, match="'bag, with other weights'"):
        await check(index)
    assert (await check(index, embed=False)).ok


async def test_locked_vectors_are_no_damage(copied: Path, open_real: Opener) -> None:
    index = await open_real(copied)
    with (
        locked_by_another_process(copied / "index" / "vectors" / "chroma.sqlite3"),
        pytest.raises(RetrievalError, match="locked by another program"),
    ):
        await check(index)


async def test_an_empty_index_is_sound_and_starts_nothing(open_real: Opener) -> None:
    index = await open_real()
    assert (await check(index)).ok
    assert index.vectors._worker is None


async def test_a_changed_document_is_searched_while_it_is_embedded(open_real: Opener, docs: Path) -> None:
    """Old until the last moment: the vectors of the new version are there already and are not returned."""

    class Watching(BagOfWords):
        index: Index

        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if len(texts) > 1 and hasattr(self, "index"):
                hits = await self.index.retriever.search("pump bar", PUBLIC, 9)
                self.seen += [passage.text for passage in (*hits.dense, *hits.keyword) if "pump" in passage.text]
            return await super().embed(texts)

    embedder = Watching()
    index = await open_real(given=embedder)
    await ingest([docs], index)
    embedder.index = index
    (docs / "limits.md").write_text(
        "# Limits\n\n" + "\n".join(f"## P{n}\n\nThe pump takes nine bar.\n" for n in range(300))
    )
    await ingest([docs], index)
    assert len(embedder.seen) >= 4
    assert all("six bar" in text for text in embedder.seen)


def test_the_vectors_of_the_fixture_are_in_chromas_own_files(ingested: Path) -> None:
    """Otherwise the damage above would not touch them."""
    with closing(sqlite3.connect(ingested / "index" / "vectors" / "chroma.sqlite3")) as connection:
        (queued,) = connection.execute("SELECT count(*) FROM embeddings_queue").fetchone()
    assert queued < 1100
    assert (files(ingested, "*/data_level0.bin")[0]).stat().st_size > 200_000
