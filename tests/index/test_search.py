from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from core.errors import DataDirError, EmbedderError, IndexOutdated, RetrievalError
from core.index.document import Block, Document, Kind
from core.index.health import check
from core.index.index import Index
from core.index.ingest import ingest, ingest_documents
from core.index.search import DENSE_SECONDS, IndexRetriever
from core.pipeline import Limits, Pipeline
from core.prompts import GEMMA3
from core.types import Hits, Question
from tests.fakes import ScriptedModel, shown_by
from tests.index.conftest import PUBLIC, Opener
from tests.index.fakes import BagOfWords, MemoryVectors


def fallbacks(stage: str, reason: str) -> float:
    return REGISTRY.get_sample_value("rag_stage_fallbacks_total", {"stage": stage, "reason": reason}) or 0.0


def breaks(error: Exception) -> Any:
    async def raising(*args: Any, **kwargs: Any) -> Any:
        raise error

    return raising


async def put(index: Index, source: str, text: str, scope: str = "public") -> None:
    block = Block(kind=Kind.TEXT, text=text)
    await ingest_documents([Document(title=source, source=source, blocks=(block,))], index, scope=scope)


async def test_few_or_no_passages_are_no_error_and_new_ones_are_found_without_a_restart(
    open_real: Opener, docs: Path
) -> None:
    index = await open_real()
    assert await index.retriever.search("pump", PUBLIC, 8) == Hits()  # no collection yet
    await put(index, "a", "The pump takes six bar.", scope="team")
    assert await index.retriever.search("pump", PUBLIC, 8) == Hits()  # none in this scope
    await put(index, "b", "The pump takes six bar.")
    await put(index, "c", "Another pump.")
    hits = await index.retriever.search("pump", PUBLIC, 8)
    assert {passage.id for passage in hits.dense} == {passage.id for passage in hits.keyword}
    assert len(hits.dense) == 2
    assert len((await index.retriever.search("pump", PUBLIC | {"team", "unknown"}, 8)).dense) == 3
    await ingest([docs], index)
    assert len((await index.retriever.search("pump", PUBLIC, 8)).dense) == 6
    assert len((await index.retriever.search("pump", PUBLIC, 1)).dense) == 1
    assert await index.retriever.search("pump", PUBLIC, 0) == Hits()


async def test_similarities_are_cosines(open_real: Opener) -> None:
    index = await open_real()
    await put(index, "a", "alpha beta")
    (hit,) = (await index.retriever.search("a\nalpha beta", PUBLIC, 8)).dense
    assert hit.score == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("other", [BagOfWords("other"), BagOfWords("bag", 96)])
async def test_with_another_model_keywords_still_work_and_what_to_do_is_told_once(
    open_quick: Opener, docs: Path, other: BagOfWords, caplog: pytest.LogCaptureFixture
) -> None:
    await ingest([docs], await open_quick())
    index = await open_quick(other)
    counted = fallbacks("retrieve_dense", "IndexOutdated")
    for _ in range(3):
        hits = await index.retriever.search("pump HV-12", PUBLIC, 8)
        assert hits.keyword
        assert not hits.dense
    assert fallbacks("retrieve_dense", "IndexOutdated") == counted + 3
    (told,) = [record.getMessage() for record in caplog.records if "IndexOutdated" in record.getMessage()]
    for word in ("'bag'", "64", other.model, "threadwise ingest"):
        assert word in told
    assert cast(MemoryVectors, index.vectors).stored  # the old vectors are still there


async def test_the_check_tells_of_another_model(open_quick: Opener, docs: Path) -> None:
    await ingest([docs], await open_quick())
    index = await open_quick(BagOfWords("other"))
    with pytest.raises(
        IndexOutdated, match=r"'bag' \(64 numbers a vector\), .* now is 'other': run `threadwise ingest`"
    ):
        await check(index)


async def test_one_kind_of_search_stands_in_for_the_other_and_the_failure_is_counted(
    index: Index, docs: Path, embedder: BagOfWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ingest([docs], index)
    counted = fallbacks("retrieve_dense", "EmbedderError"), fallbacks("retrieve_keyword", "RetrievalError")
    embedder.error = EmbedderError("down")
    hits = await index.retriever.search("pump", PUBLIC, 8)
    assert hits.keyword
    assert not hits.dense
    with monkeypatch.context() as broken:
        broken.setattr(index.catalog.keywords, "search", breaks(DataDirError("damaged")))
        with pytest.raises(RetrievalError, match="down damaged"):
            await index.retriever.search("pump", PUBLIC, 8)
        embedder.error = None
        hits = await index.retriever.search("pump", PUBLIC, 8)
        assert hits.dense
        assert not hits.keyword
    assert fallbacks("retrieve_dense", "EmbedderError") == counted[0] + 1
    assert fallbacks("retrieve_keyword", "RetrievalError") == counted[1] + 1
    hits = await index.retriever.search("pump", PUBLIC, 8)
    assert hits.dense
    assert hits.keyword


async def test_a_vector_store_that_raises_is_not_silent(
    index: Index, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ingest([docs], index)
    monkeypatch.setattr(index.vectors, "query", breaks(ValueError("a bug")))
    counted = fallbacks("retrieve_dense", "bug")
    assert (await index.retriever.search("pump", PUBLIC, 8)).keyword
    assert fallbacks("retrieve_dense", "bug") == counted + 1


async def test_a_catalog_that_fails_is_a_retrieval_error(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index.catalog, "state", breaks(DataDirError("passages.db is damaged")))
    with pytest.raises(RetrievalError, match="damaged"):
        await index.retriever.search("pump", PUBLIC, 8)


async def test_an_empty_vector_store_under_a_full_catalog_is_a_failure_and_no_empty_answer(
    index: Index, docs: Path
) -> None:
    await ingest([docs], index)
    cast(MemoryVectors, index.vectors).stored.clear()
    counted = fallbacks("retrieve_dense", "RetrievalError")
    assert (await index.retriever.search("pump", PUBLIC, 8)).keyword
    assert fallbacks("retrieve_dense", "RetrievalError") == counted + 1


class Hanging(BagOfWords):
    """Takes a text and never answers."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(60)
        return []


async def test_keyword_hits_do_not_wait_for_an_embedder_that_hangs(index: Index, docs: Path) -> None:
    await ingest([docs], index)
    retriever = IndexRetriever(index.catalog, index.vectors, Hanging(), dense_seconds=0.1)
    async with asyncio.timeout(30):  # half of what it hangs
        assert (await retriever.search("pump", PUBLIC, 8)).keyword


def test_the_search_by_meaning_ends_a_second_before_the_stage_it_is_part_of() -> None:
    assert Limits().search_seconds >= DENSE_SECONDS + 1.0


async def test_an_embedding_endpoint_that_hangs_leaves_an_answer_from_the_passages_found_by_words(
    open_quick: Opener, docs: Path
) -> None:
    await ingest([docs], await open_quick())
    index = await open_quick(Hanging())
    model = ScriptedModel(generate=["It takes six bar [1]."])
    pipeline = Pipeline(model=model, retriever=index.retriever, manners=GEMMA3)
    answer = await pipeline.answer(Question(text="What does the pump HV-12 take?"), shown_by([]))
    assert [citation.source for citation in answer.citations] == ["docs/limits.md"]
    assert "The pump HV-12 takes six bar." in model.requests[0].messages[-1].content


async def test_a_cancelled_search_stays_cancelled(index: Index, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await ingest([docs], index)
    entered = asyncio.Event()

    async def hang(*args: Any) -> Any:
        entered.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(index.vectors, "query", hang)
    task = asyncio.create_task(index.retriever.search("pump", PUBLIC, 8))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_searches_cost_no_connection_to_the_catalog(index: Index, docs: Path) -> None:
    await ingest([docs], index)
    for number in range(40):
        task = asyncio.create_task(index.retriever.search("pump kube-proxy", PUBLIC, 8))
        await asyncio.sleep(number / 5_000)
        task.cancel()
        await asyncio.wait({task})
    hits = await asyncio.wait_for(index.retriever.search("pump", PUBLIC, 8), 1)
    assert hits.keyword


@pytest.mark.parametrize("obeys", [True, False])
async def test_private_text_is_not_found_from_elsewhere_whatever_the_vector_store_returns(
    index: Index, obeys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(index, "open", "The canary sings.")
    await put(index, "secret", "The canary code is 4711.", scope="channel:C1")
    if not obeys:
        everything = cast(MemoryVectors, index.vectors)
        query = everything.query
        monkeypatch.setattr(
            everything, "query", lambda names, vector, limit: query(list(everything.stored), vector, limit)
        )
    for scope in (PUBLIC, frozenset({"channel:C2"}), frozenset({"channel:C"}), frozenset({""}), frozenset[str]()):
        assert "4711" not in repr(await index.retriever.search("canary code 4711", scope, 8))
    assert "4711" in repr((await index.retriever.search("canary code", frozenset({"channel:C1"}), 8)).dense)


async def test_a_passage_that_lost_its_scope_is_never_returned(index: Index) -> None:
    await put(index, "a", "The canary sings.")
    await put(index, "b", "The canary code is 4711.")
    async with index.catalog._database.write() as connection:
        await connection.exec_driver_sql("UPDATE passages SET scope = '' WHERE text LIKE '%4711%'")
    hits = await index.retriever.search("canary", PUBLIC | {""}, 8)
    assert len(hits.dense) == len(hits.keyword) == 1
    assert "4711" not in repr(hits)


@pytest.mark.parametrize(
    "text", ["ok \ud83d", "\x00", "\ufeffpump", "e" + "\u0301" * 5000, "pump " * 50_000, "🙂", " "]
)
async def test_ill_formed_and_endless_queries_are_only_queries(index: Index, docs: Path, text: str) -> None:
    await ingest([docs], index)
    assert isinstance(await index.retriever.search(text, PUBLIC, 8), Hits)
