from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy.exc import IntegrityError

from bot.wiring import outdated_index
from core.errors import DataDirError, EmbedderError, IngestError
from core.index.document import Block, Document, Kind
from core.index.index import Index
from core.index.ingest import IngestReport, Progress, ingest, ingest_documents
from core.types import Hits
from tests.index.conftest import PUBLIC, Opener
from tests.index.fakes import BagOfWords, MemoryVectors


async def search(index: Index, text: str) -> Hits:
    return await index.retriever.search(text, PUBLIC, 5)


async def sources(index: Index) -> list[str]:
    return sorted(await index.catalog.known())


async def agree(index: Index) -> bool:
    """Whether there is exactly one vector for each passage."""
    stored = {id_ for rows in cast(MemoryVectors, index.vectors).stored.values() for id_ in rows}
    return stored == set().union(*(await index.catalog.ids()).values())


async def test_a_folder_is_ingested_and_found_both_ways(index: Index, docs: Path) -> None:
    report = await ingest([docs], index)
    assert report == IngestReport(added=3, passages=4)
    hits = await search(index, "Build the wheel")
    assert hits.dense[0].text == hits.keyword[0].text == "Build the wheel from source."
    assert (hits.dense[0].source, hits.dense[0].title, hits.dense[0].heading) == (
        "docs/install.md",
        "Install",
        "On ARM",
    )
    assert await agree(index)


async def test_vectors_of_a_first_ingest_that_was_killed_before_its_first_commit_are_deleted(
    index: Index, docs: Path
) -> None:
    await ingest([docs], index)
    (collection,) = await index.vectors.collections()
    await index.catalog.replace([], removed=await sources(index))
    await index.catalog.set_meta(unfinished="1", model="", width="0", generation="")
    assert await index.vectors.ids(collection), "vectors that no passage knows"
    await ingest([docs], index)
    assert await agree(index)


async def test_a_second_run_embeds_and_writes_nothing(index: Index, docs: Path, embedder: BagOfWords) -> None:
    await ingest([docs], index)
    embedder.texts.clear()
    before = {path.name: path.stat().st_mtime_ns for path in index.directory.iterdir()}
    assert await ingest([docs], index) == IngestReport(unchanged=3)
    assert embedder.texts == ["width"]
    assert {path.name: path.stat().st_mtime_ns for path in index.directory.iterdir()} == before


async def test_only_what_changed_is_embedded_and_the_old_text_is_gone(
    index: Index, docs: Path, embedder: BagOfWords
) -> None:
    await ingest([docs], index)
    embedder.texts.clear()
    (docs / "limits.md").write_text("# Limits\n\nThe pump HV-12 takes nine bar.\n")
    assert await ingest([docs], index) == IngestReport(changed=1, unchanged=2, passages=1)
    assert len(embedder.texts) == 2  # the width was asked for, too
    assert "nine" in (await search(index, "HV-12")).keyword[0].text
    assert "six bar" not in str(await search(index, "six bar"))
    assert await agree(index)


async def test_files_that_are_gone_disappear_and_those_elsewhere_stay(index: Index, docs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.md").write_text("Elsewhere.")
    await ingest([docs, other], index)
    (docs / "faq.txt").unlink()
    (other / "x.md").unlink()
    assert (await ingest([docs], index)).removed == 1
    assert await sources(index) == ["docs/install.md", "docs/limits.md", "other/x.md"]
    assert await agree(index)


async def test_a_part_of_a_folder_says_nothing_about_the_rest(index: Index, docs: Path) -> None:
    (docs / "sub").mkdir()
    (docs / "sub" / "a.md").write_text("A.")
    (docs / "sub" / "b.md").write_text("B.")
    await ingest([docs], index)
    (docs / "sub" / "b.md").unlink()
    (docs / "faq.txt").unlink()
    assert (await ingest([docs / "sub"], index)).removed == 1
    assert "docs/faq.txt" in await sources(index)
    assert (await ingest([docs / "limits.md"], index)).removed == 0


async def test_a_folder_that_was_moved_is_not_embedded_again(
    index: Index, docs: Path, tmp_path: Path, embedder: BagOfWords
) -> None:
    await ingest([docs], index)
    embedder.texts.clear()
    (tmp_path / "new").mkdir()
    shutil.move(docs, tmp_path / "new" / "docs")
    assert await ingest([tmp_path / "new" / "docs"], index) == IngestReport(unchanged=3)
    (tmp_path / "new" / "docs" / "faq.txt").unlink()
    assert (await ingest([tmp_path / "new" / "docs"], index)).removed == 1
    assert set(embedder.texts) == {"width"}


async def test_a_folder_around_a_known_one_holds_each_document_once(index: Index, docs: Path) -> None:
    (docs / "sub").mkdir()
    (docs / "sub" / "a.md").write_text("A zebra.")
    await ingest([docs / "sub"], index)
    await ingest([docs], index)
    assert len((await search(index, "zebra")).keyword) == 1
    assert await ingest([docs / "sub"], index) == IngestReport(unchanged=1)
    assert await agree(index)


async def test_files_of_a_folder_that_cannot_be_listed_now_stay(
    index: Index, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "sub").mkdir()
    (docs / "sub" / "a.md").write_text("A.")
    await ingest([docs], index)
    listed = os.scandir

    def refuses(path: str) -> Any:
        if path.endswith("sub"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuses)
    report = await ingest([docs], index)
    assert (report.unchanged, report.removed) == (3, 0)
    assert report.failed == [(str(docs / "sub"), "permission denied")]


async def test_unreadable_files_are_named_the_others_go_on_and_old_text_stays(index: Index, docs: Path) -> None:
    await ingest([docs], index)
    (docs / "limits.md").write_bytes(b"\0\1\2")
    (docs / "empty.md").write_text("")
    (docs / "latin.md").write_bytes("Gr\xfc\xdfe".encode("latin-1"))
    (docs / "new.md").write_text("New.")
    report = await ingest([docs, docs / "missing.md"], index)
    assert (report.added, report.unchanged, report.removed) == (1, 2, 0)
    reasons = {Path(path).name: reason for path, reason in report.failed}
    assert reasons == {
        "limits.md": "binary",
        "empty.md": "empty",
        "latin.md": "not UTF-8 text",
        "missing.md": "no such file or directory",
    }
    assert "six bar" in (await search(index, "HV-12")).keyword[0].text


async def test_a_folder_without_readable_files_is_an_error_and_removes_nothing(index: Index, docs: Path) -> None:
    await ingest([docs], index)
    shutil.rmtree(docs)
    os.mkdir(docs)
    with pytest.raises(IngestError, match="no Markdown, HTML or text file"):
        await ingest([docs], index)
    (docs / "a.md").write_bytes(b"\0")
    with pytest.raises(IngestError, match=r"no file could be read, nothing was changed: .*a\.md: binary"):
        await ingest([docs], index)
    assert len(await sources(index)) == 3


async def test_an_embedder_that_is_down_changes_nothing(index: Index, docs: Path, embedder: BagOfWords) -> None:
    await ingest([docs], index)
    (docs / "limits.md").write_text("New limits.")
    embedder.error = EmbedderError("down")
    with pytest.raises(EmbedderError, match="down"):
        await ingest([docs], index)
    embedder.error = None
    assert "six bar" in (await search(index, "HV-12")).keyword[0].text
    assert (await ingest([docs], index)).changed == 1
    assert await agree(index)


async def test_an_ingest_that_breaks_between_vectors_and_catalog_leaves_no_trace_after_the_next(
    index: Index, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ingest([docs], index)
    (docs / "limits.md").write_text("New limits.")
    with monkeypatch.context() as broken:

        async def fails(*args: Any, **kwargs: Any) -> Any:
            raise DataDirError("the disk is full")

        broken.setattr(index.catalog, "replace", fails)
        with pytest.raises(DataDirError, match="full"):
            await ingest([docs], index)
    assert not await agree(index)
    assert len((await search(index, "New limits")).dense) == 4  # the orphan is dropped
    await ingest([docs], index)
    assert await agree(index)


async def test_a_document_in_another_scope_moves_there(index: Index, docs: Path) -> None:
    await ingest([docs], index)
    await ingest([docs], index, scope="team")
    assert await search(index, "pump") == Hits()
    assert (await index.retriever.search("pump", frozenset({"team"}), 5)).dense[0].scope == "team"
    assert await agree(index)
    with pytest.raises(IngestError, match="scope"):
        await ingest([docs], index, scope=" ")


async def test_another_model_gets_new_vectors_for_everything_and_the_old_ones_go(
    open_quick: Opener, docs: Path, tmp_path: Path
) -> None:
    await ingest([docs], await open_quick())
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.md").write_text("A zebra.")
    other = BagOfWords("other", 96)
    index = await open_quick(other)
    seen: list[Progress] = []
    report = await ingest([tmp_path / "more"], index, on_progress=seen.append)
    assert (report.added, report.passages) == (1, 5)
    assert seen[0] == Progress(stage="passages", done=4, total=4)
    assert seen[-1] == Progress(stage="files", done=1, total=1)
    assert (await search(index, "Build the wheel")).dense[0].source == "docs/install.md"
    assert (await index.catalog.state()).width == 96
    assert await agree(index)


@pytest.mark.parametrize("added", [0, 1])
async def test_a_model_that_changed_its_width_behind_its_name_is_noticed(
    open_quick: Opener, docs: Path, added: int
) -> None:
    await ingest([docs], await open_quick())
    if added:
        (docs / "new.md").write_text("New.")
    index = await open_quick(BagOfWords("bag", 96))
    assert "96 numbers" in await outdated_index(index)
    report = await ingest([docs], index)
    assert report == IngestReport(added=added, unchanged=3, passages=4 + added)
    assert (await index.catalog.state()).width == 96
    assert (await search(index, "Build the wheel")).dense[0].source == "docs/install.md"
    assert await outdated_index(index) == ""
    assert await agree(index)


async def test_an_embedder_that_is_down_is_no_index_of_another_model(
    index: Index, docs: Path, embedder: BagOfWords
) -> None:
    await ingest([docs], index)
    embedder.error = EmbedderError("down")
    assert await outdated_index(index) == ""


async def test_a_change_of_model_that_was_interrupted_goes_on_where_it_was(
    open_quick: Opener, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ingest([docs], await open_quick())
    other = BagOfWords("other")
    index = await open_quick(other)
    with monkeypatch.context() as broken:

        async def fails(**values: str) -> None:
            if "model" in values:
                raise DataDirError("the disk is full")

        broken.setattr(index.catalog, "set_meta", fails)
        with pytest.raises(DataDirError):
            await ingest([docs], index)
    back = await open_quick()
    assert (await search(back, "Build the wheel")).dense  # the old model still searches the old vectors
    other.texts.clear()
    await index.catalog.set_meta(unfinished="1")
    await ingest([docs], index)
    assert other.texts == ["width"]
    assert await agree(index)


async def test_a_nearly_full_disk_is_refused_before_anything_is_written(index: Index, docs: Path) -> None:
    with pytest.raises(DataDirError, match="MB are free"):
        await ingest([docs], index, least_free=10**18)
    assert (await index.catalog.state()).documents == 0


async def test_files_whose_names_read_alike_are_all_found_and_unchanged_the_next_time(index: Index, docs: Path) -> None:
    for name in (b"a\xff.md", b"a\xfe.md", b"a\n.md", "a\u202e.md".encode()):
        (docs / os.fsdecode(name)).write_text(f"A zebra in {sum(name)}.")
    assert (await ingest([docs], index)).added == 7
    assert len((await index.retriever.search("zebra", PUBLIC, 5)).keyword) == 4
    assert await ingest([docs], index) == IngestReport(unchanged=7)


async def test_a_folder_whose_name_is_no_utf_8_is_ingested_like_any_other(
    index: Index, docs: Path, tmp_path: Path
) -> None:
    for name in (b"d\xff", b"d\xfe"):
        shutil.copytree(docs, tmp_path / os.fsdecode(name))
    folders = [tmp_path / os.fsdecode(name) for name in (b"d\xff", b"d\xfe")]
    assert (await ingest(folders, index)).added == 6
    (folders[0] / "faq.txt").unlink()
    assert await ingest([folders[0]], index) == IngestReport(unchanged=2, removed=1)
    assert await ingest([folders[1]], index) == IngestReport(unchanged=3)


async def test_two_documents_of_one_source_are_refused_by_name(index: Index) -> None:
    documents = [
        Document(title="T", source=source, blocks=(Block(kind=Kind.TEXT, text="zebra"),))
        for source in ("a\ud83d", "a?")
    ]
    with pytest.raises(IngestError, match=r"2 documents have the source 'a\?'"):
        await ingest_documents(documents, index)


async def test_a_broken_rule_of_the_schema_is_not_blamed_on_the_disk(index: Index, docs: Path) -> None:
    await ingest([docs], index)
    with pytest.raises(IntegrityError):
        async with index.catalog._database.write() as connection:
            await connection.exec_driver_sql("UPDATE documents SET source = 'one'")


async def test_documents_that_are_no_files_can_be_put_in(index: Index, embedder: BagOfWords) -> None:
    documents = [
        Document(title="T", source=f"corpus/{number}", blocks=(Block(kind=Kind.TEXT, text=f"zebra {number}"),))
        for number in range(3)
    ]
    assert (await ingest_documents(documents, index)).added == 3
    embedder.texts.clear()
    assert (await ingest_documents(documents, index)).unchanged == 3
    assert embedder.texts == ["width"]
    assert {passage.source for passage in (await search(index, "zebra")).dense} == {f"corpus/{n}" for n in range(3)}


async def test_ill_formed_text_in_such_a_document_is_replaced(index: Index) -> None:
    blocks = (Block(kind=Kind.TEXT, text="zebra \ud83d half"),)
    await ingest_documents([Document(title="\ud83d", source="a\ud83d", blocks=blocks)], index)
    assert (await search(index, "zebra")).keyword[0].text == "zebra ? half"


async def test_progress_counts_every_file_once(index: Index, docs: Path) -> None:
    (docs / "bad.md").write_bytes(b"\0")
    seen: list[Progress] = []
    await ingest([docs], index, on_progress=seen.append)
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert seen[-1] == Progress(stage="files", done=4, total=4)


async def test_documents_of_several_batches_arrive_whole(index: Index, docs: Path) -> None:
    (docs / "long.md").write_text("\n".join(f"## Part {number}\n\nThe word w{number}.\n" for number in range(500)))
    report = await ingest([docs], index)
    assert report.passages == 504
    assert (await index.catalog.state()).total == 504
    assert await agree(index)
