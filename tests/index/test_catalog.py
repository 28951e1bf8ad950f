from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

import core.index.keyword_search as keyword_search
from core.errors import DataDirError
from core.index.catalog import FILE, Catalog
from core.index.document import Chunk
from core.index.index import Index
from core.index.ingest import ingest
from core.index.records import Entry, State
from tests.index.conftest import PUBLIC, Opener


def entry(source: str, *texts: str, scope: str = "public") -> Entry:
    chunks = [
        (f"{source}-{number}", Chunk(ordinal=number, heading="H", section="H", text=text, line=1))
        for number, text in enumerate(texts)
    ]
    return Entry(source=source, root_id=None, title="T", scope=scope, content_hash="x", chunks=chunks)


async def found(catalog: Catalog, *words: str, scopes: frozenset[str] = PUBLIC, limit: int = 10) -> list[str]:
    hits = await catalog.keywords.search(words, scopes, limit, state=await catalog.state())
    return [passage.id for passage in hits]


async def test_a_replaced_document_is_found_by_its_new_words_only(index: Index) -> None:
    catalog = index.catalog
    await catalog.replace([entry("a", "zebra here"), entry("b", "zebra there")])
    retired = await catalog.replace([entry("a", "giraffe")], removed=["b"])
    assert retired == {"public": ["a-0", "b-0"]} or retired == {"public": ["b-0", "a-0"]}
    assert await found(catalog, "zebra") == []
    assert await found(catalog, "giraffe") == ["a-0"]


async def test_the_titles_are_those_of_the_scopes_asked_for_the_longest_documents_first(index: Index) -> None:
    long, short = entry("a", "zebra", "giraffe"), replace(entry("b", "lion"), title="Lions")
    await index.catalog.replace([short, long, replace(entry("c", "secret", scope="board"), title="Secrets")])
    assert await index.catalog.titles(PUBLIC, 9) == ["T", "Lions"]
    assert await index.catalog.titles(PUBLIC, 1) == ["T"]
    assert await index.catalog.titles(frozenset(), 9) == []


async def test_scores_fall_and_are_above_zero(index: Index) -> None:
    await index.catalog.replace([entry("a", "zebra " * number + "other words" * 5) for number in (1,)])
    await index.catalog.replace(
        [entry("b", "zebra zebra zebra"), entry("c", "a zebra in a long text about other things")]
    )
    hits = await index.catalog.keywords.search(["zebra"], PUBLIC, 9, state=await index.catalog.state())
    scores = [hit.score for hit in hits]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0


async def test_stems_and_accents_do_not_matter_and_codes_do(index: Index) -> None:
    await index.catalog.replace(
        [entry("a", "Installing the café"), entry("b", "HV-12 pump"), entry("c", "HV-13 number 12")]
    )
    assert await found(index.catalog, "install") == ["a-0"]
    assert await found(index.catalog, "cafe") == ["a-0"]
    assert (await found(index.catalog, "hv-12"))[0] == "b-0"


async def test_a_passage_in_another_scope_or_in_none_is_not_found(index: Index) -> None:
    catalog = index.catalog
    await catalog.replace(
        [entry("a", "zebra"), entry("b", "zebra", scope="private"), entry("c", "zebra", scope="private 2")]
    )
    await catalog.replace([entry("d", "zebra", scope="")])
    assert await found(catalog, "zebra") == ["a-0"]
    assert await found(catalog, "zebra", scopes=frozenset({"private"})) == ["b-0"]
    assert await found(catalog, "zebra", scopes=frozenset({"private", "public", ""})) == ["a-0", "b-0"]
    assert await found(catalog, "zebra", scopes=frozenset()) == []
    ids = ["a-0", "b-0", "c-0", "d-0", "unknown"]
    assert list(await catalog.passages(ids, frozenset({"public", ""}))) == ["a-0"]


async def test_passages_of_other_scopes_take_no_places_from_those_that_may_be_seen(index: Index) -> None:
    await index.catalog.replace([entry(f"x{number}", "zebra", scope="private") for number in range(20)])
    await index.catalog.replace([entry("a", "a zebra in a long text about other things")])
    assert await found(index.catalog, "zebra", limit=3) == ["a-0"]


async def test_a_large_index_still_ranks_common_words_where_rare_ones_are_found(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_search, "EXACT", 20)
    monkeypatch.setattr(keyword_search, "RANKED", 5)
    catalog = index.catalog
    await catalog.replace([entry(f"common{number}", "pods and more pods") for number in range(10)])
    await catalog.replace([entry(f"other{number}", "nothing of the kind") for number in range(40)])
    await catalog.replace([entry("rare", "quota of a namespace"), entry("both", "quota of pods in a namespace")])
    assert await found(catalog, "pods", "quota", limit=50) == ["both-0", "rare-0"]
    assert len(await found(catalog, "pods", limit=50)) == 11
    assert await found(catalog, "absent") == []


async def test_sections_are_told_for_the_evaluation(index: Index) -> None:
    await index.catalog.replace([entry("a", "zebra")])
    assert await index.catalog.sections(["a-0", "unknown"]) == {"a-0": "H"}


async def test_a_catalog_of_a_newer_version_is_refused_and_left_alone(open_quick: Opener) -> None:
    index = await open_quick()
    await index.catalog.set_meta(schema="99")
    before = (index.directory / FILE).read_bytes()
    with pytest.raises(DataDirError, match="newer Threadwise: update Threadwise"):
        await open_quick()
    assert (index.directory / FILE).read_bytes() == before


@pytest.mark.parametrize("garbage", [b"x" * 8192, b"SQLite format 3\0" + b"\xff" * 8192])
async def test_a_damaged_catalog_is_refused_with_what_to_do(data_dir: Path, garbage: bytes) -> None:
    (data_dir / "index").mkdir(parents=True)
    (data_dir / "index" / FILE).write_bytes(garbage)
    with pytest.raises(
        DataDirError, match=r"passages\.db is damaged .* delete .*index and run `threadwise ingest` again"
    ):
        await Catalog.open(data_dir / "index")
    assert (data_dir / "index" / FILE).read_bytes() == garbage


async def test_a_damaged_page_in_the_middle_is_found_by_the_check(
    open_quick: Opener, docs: Path, data_dir: Path
) -> None:
    index = await open_quick()
    (docs / "long.md").write_text("\n\n".join(f"# H{number}\n\n" + "words " * 150 for number in range(300)))
    await ingest([docs], index)
    await index.catalog.integrity()
    await index.close()
    file = data_dir / "index" / FILE
    with file.open("r+b") as handle:
        handle.seek(file.stat().st_size // 2)
        handle.write(os.urandom(40_000))
    again = await open_quick()
    with pytest.raises(DataDirError, match="damaged"):
        await again.catalog.integrity()


async def test_a_full_disk_is_told_and_what_was_there_stays(index: Index, data_dir: Path) -> None:
    catalog = index.catalog
    await catalog.replace([entry("a", "zebra")])
    async with catalog._database.write() as connection:
        pages = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
        await connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DataDirError, match="the disk is full"):
        await catalog.replace([entry("a", *["giraffe " * 500] * 50)])
    assert await found(catalog, "zebra") == ["a-0"]
    async with catalog._database.write() as connection:
        await connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    await catalog.replace([entry("a", "giraffe")])
    assert await found(catalog, "giraffe") == ["a-0"]


async def test_a_catalog_locked_by_another_program_is_told(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    await index.catalog.set_meta(x="1")
    async with index.catalog._database.write() as connection:
        await connection.exec_driver_sql("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(index.directory / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DataDirError, match="locked by another program"):
            await index.catalog.set_meta(x="2")


async def test_removed_words_are_gone_from_the_files(index: Index) -> None:
    await index.catalog.replace([entry("a", *["Kanarienvogel sings " * 80] * 40), entry("b", "other")])
    await index.catalog.replace([], removed=["a"])
    await index.catalog.tidy()
    content = b"".join(path.read_bytes() for path in index.directory.iterdir())
    assert b"other" in content
    assert b"anarienvogel" not in content


async def test_the_state_is_read_once_and_again_after_each_write(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = index.catalog
    reads = 0
    read = catalog._read_state

    async def counted() -> State:
        nonlocal reads
        reads += 1
        return await read()

    monkeypatch.setattr(catalog, "_read_state", counted)
    before = reads, (await catalog.state()).total
    await catalog.state()
    await catalog.replace([entry("a", "zebra", "giraffe")])
    assert (await catalog.state()).total == before[1] + 2
    await catalog.set_meta(unfinished="1")
    assert (await catalog.state()).unfinished
    await catalog.state()
    assert reads == 3


async def test_a_state_that_is_read_during_a_write_is_not_kept(index: Index) -> None:
    catalog = index.catalog
    await catalog.state()
    async with catalog._database.write() as connection:
        await connection.execute(text("INSERT OR REPLACE INTO meta VALUES ('unfinished', '1')"))
        assert not (await catalog.state()).unfinished, "not committed yet"
    assert (await catalog.state()).unfinished
