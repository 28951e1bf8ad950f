from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from core.errors import DataDirError, RetrievalError
from core.index.vector_process import Refused, check_configuration
from core.index.vectors import VectorStore
from tests.index.conftest import PUBLIC, Opener

META: dict[str, str | int] = {"model": "m"}


def vector(*values: float) -> bytes:
    return array("f", values).tobytes()


def process_id(store: VectorStore) -> int:
    assert store._worker is not None
    return store._worker._process.pid


@asynccontextmanager
async def store_at(directory: Path, **seconds: float) -> AsyncIterator[VectorStore]:
    store = VectorStore(directory, **{"query_seconds": 30.0, **seconds})
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def locked_by_another_process(file: Path) -> Iterator[None]:
    code = f"""
        import sqlite3, sys
        connection = sqlite3.connect({str(file)!r}, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        print("locked", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield


@asynccontextmanager
async def measured_lag() -> AsyncIterator[list[float]]:
    """The times that the event loop took for a sleep of 5 ms, in seconds."""
    lags: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            lags.append(time.perf_counter() - before)

    task = asyncio.create_task(tick())
    yield lags
    task.cancel()


async def test_vectors_are_stored_found_replaced_and_deleted(tmp_path: Path) -> None:
    async with store_at(tmp_path / "vectors") as store:
        assert await store.query(["c-1"], [1.0, 0.0], 5) == []
        await store.add("c-1", ["a", "b"], [vector(1, 0), vector(0, 1)], metadata=META)
        await store.add("c-2", ["c"], [vector(0.6, 0.8)], metadata=META)
        hits = await store.query(["c-1", "c-2", "c-3"], [1.0, 0.0], 5)
        assert [(id_, round(similarity, 3)) for id_, similarity in hits] == [("a", 1.0), ("c", 0.6), ("b", 0.0)]
        assert [id_ for id_, _ in await store.query(["c-1"], [1.0, 0.0], 1)] == ["a"]
        await store.add("c-1", ["a"], [vector(0, 1)], metadata=META)
        assert (await store.vectors("c-1", ["a", "unknown"])) == {"a": [0.0, 1.0]}
        await store.delete("c-1", ["b", "unknown"])
        assert await store.ids("c-1") == {"a"}
        assert await store.collections() == {"c-1": 1, "c-2": 1}
        await store.drop("c-2")
        await store.drop("c-3")
    async with store_at(tmp_path / "vectors") as store:
        assert await store.collections() == {"c-1": 1}


async def test_a_killed_process_loses_nothing_and_is_started_again(tmp_path: Path) -> None:
    async with store_at(tmp_path / "vectors") as store:
        await store.add("c-1", ["a"], [vector(1, 0)], metadata=META)
        os.kill(process_id(store), signal.SIGKILL)
        with pytest.raises(RetrievalError, match="its process ended"):
            await store.query(["c-1"], [1.0, 0.0], 5)
        assert await store.query(["c-1"], [1.0, 0.0], 5) == [("a", 1.0)]


async def test_a_locked_database_fails_in_time_leaves_nothing_hanging_and_comes_back(tmp_path: Path) -> None:
    seconds = {"query_seconds": 0.3, "pause_seconds": 0.3, "start_seconds": 10.0}
    async with store_at(tmp_path / "vectors", **seconds) as store, measured_lag() as lag:
        await store.add("c-1", ["a"], [vector(1, 0)], metadata=META)
        stuck = process_id(store)
        with locked_by_another_process(tmp_path / "vectors" / "chroma.sqlite3"):
            for _ in range(40):
                with pytest.raises(RetrievalError, match=r"did not answer|locked|in a row") as caught:
                    await store.query(["c-1"], [1.0, 0.0], 5)
                if "in a row" in str(caught.value):
                    break
            assert "in a row" in str(caught.value)
        await gone(stuck)
        assert len(lag) > 20  # with Chroma in a thread it is one a query, and a query is as long as the lock
        await asyncio.sleep(0.3)
        assert await answered(store) == [("a", 1.0)]


async def test_a_slow_start_is_no_failure(tmp_path: Path) -> None:
    async with store_at(tmp_path / "vectors", query_seconds=0.01) as store:
        for _ in range(5):
            with pytest.raises(RetrievalError, match="did not answer"):
                await store.query(["c-1"], [1.0, 0.0], 5)
        await store.collections()
        store._query_seconds = 30.0
        assert await store.query(["c-1"], [1.0, 0.0], 5) == []


async def test_failures_count_only_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VectorStore(tmp_path / "vectors")
    fails = (True, True, False, True, True, False)
    coming = iter(fails)

    async def call(*args: Any, **kwargs: Any) -> tuple[dict[str, Any], bytes]:
        if next(coming):
            raise RetrievalError("slow")
        return {"hits": [["a", 1.0]]}, b""

    monkeypatch.setattr(store, "_call", call)
    for fail in fails:
        with pytest.raises(RetrievalError, match="slow") if fail else nullcontext():
            assert await store.query(["c-1"], [1.0], 5) == [("a", 1.0)]


async def answered(store: VectorStore) -> list[tuple[str, float]]:
    for _ in range(40):
        try:
            return await store.query(["c-1"], [1.0, 0.0], 5)
        except RetrievalError:
            await asyncio.sleep(0.1)
    raise AssertionError("it never came back")


async def gone(process: int) -> None:
    for _ in range(300):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"process {process} still runs")


async def test_a_query_that_hangs_leaves_the_loop_free_and_the_keywords_working(
    copied: Path, open_real: Opener
) -> None:
    index = await open_real(copied, query_seconds=0.3)
    await index.vectors.collections()
    async with measured_lag() as lag:
        with locked_by_another_process(copied / "index" / "vectors" / "chroma.sqlite3"):
            hits = await index.retriever.search("The code w3x7", PUBLIC, 5)
        assert hits.keyword
        assert not hits.dense
    assert len(lag) > 5  # with Chroma in a thread it is one, as long as the lock


async def test_a_large_write_leaves_the_loop_free(tmp_path: Path) -> None:
    async with store_at(tmp_path / "vectors") as store:
        await store.collections()
        rows = [vector(*(float((i * 7 + j) % 13 - 6) for j in range(384))) for i in range(750)]
        async with measured_lag() as lag:
            await store.add("c-1", [str(i) for i in range(750)], rows, metadata=META)
        assert len(lag) > 20  # with Chroma in a thread it is three, one a batch


async def test_a_slow_write_is_not_killed_by_the_query_behind_it(tmp_path: Path) -> None:
    async with store_at(tmp_path / "vectors", query_seconds=0.01) as store:
        await store.collections()
        before = process_id(store)
        rows = [vector(*(float((i * 7 + j) % 13 - 6) for j in range(384))) for i in range(250)]
        write = asyncio.create_task(store.add("c-1", [str(i) for i in range(250)], rows, metadata=META))
        await asyncio.sleep(0)
        with pytest.raises(RetrievalError, match="did not answer"):
            await store.query(["c-1"], [1.0] * 384, 5)
        await write
        assert process_id(store) == before


async def test_a_directory_has_one_process_at_a_time(tmp_path: Path) -> None:
    """After a kill the process that was left behind may still be writing."""
    async with store_at(tmp_path / "vectors") as first, store_at(tmp_path / "vectors") as second:
        await first.add("c-1", ["a"], [vector(1, 0)], metadata=META)
        waiting = asyncio.create_task(second.collections())
        await asyncio.wait({waiting}, timeout=2.0)
        assert not waiting.done()
        await first.close()
        assert await waiting == {"c-1": 1}


async def test_a_cancelled_call_does_not_mix_up_the_replies(tmp_path: Path) -> None:
    async with store_at(tmp_path / "vectors") as store:
        await store.add("c-1", ["a"], [vector(1, 0)], metadata=META)
        task = asyncio.create_task(store.ids("c-1"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert await store.collections() == {"c-1": 1}


async def test_the_process_ends_with_a_killed_parent(tmp_path: Path) -> None:
    code = f"""
        import asyncio, os, signal
        from pathlib import Path
        from core.index.vectors import VectorStore
        async def main():
            store = VectorStore(Path({str(tmp_path / "vectors")!r}))
            await store.collections()
            print(store._worker._process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(code), stdout=subprocess.PIPE)
    output, _ = await parent.communicate()
    await gone(int(output))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")
async def test_the_process_gets_neither_secrets_nor_settings_and_listens_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    monkeypatch.setenv("CHROMA_API_IMPL", "chromadb.api.fastapi.FastAPI")
    async with store_at(tmp_path / "vectors") as store:
        await store.collections()
        process = Path(f"/proc/{process_id(store)}")
        assert os.getsid(process_id(store)) != os.getsid(0)  # Ctrl-C does not reach it
        assert b"xoxb" not in (process / "environ").read_bytes()
        links = {os.readlink(process / "fd" / link) for link in os.listdir(process / "fd")}
        network = "".join((process / "net" / kind).read_text() for kind in ("tcp", "tcp6", "udp", "udp6"))
        inodes = {line.split()[9] for line in network.splitlines() if "inode" not in line}
        assert not links & {f"socket:[{inode}]" for inode in inodes}


def test_no_text_is_kept_beside_the_vectors(ingested: Path) -> None:
    files = [path for path in (ingested / "index" / "vectors").rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    assert len(content) > 500_000
    for word in (b"w3x7", b"opens", b"page3"):
        assert word not in content
    assert (ingested / "index").stat().st_mode & 0o077 == 0


NAMED = {"type": "known", "name": "sentence_transformer", "config": {"trust_remote_code": True, "model_name": "x/y"}}


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        ("config_json_str", {"hnsw": {}, "embedding_function": NAMED}),
        (
            "schema_str",
            {"keys": {"#embedding": {"float_list": {"vector_index": {"config": {"embedding_function": NAMED}}}}}},
        ),
        ("config_json_str", {"embedding_function": {"type": "legacy", "name": "sentence_transformer"}}),
        ("config_json_str", {"embedding_function": "sentence_transformer"}),
    ],
)
def test_a_collection_that_names_an_embedding_function_is_refused(
    copied: Path, column: str, stored: dict[str, Any]
) -> None:
    directory = copied / "index" / "vectors"
    check_configuration(directory)
    with closing(sqlite3.connect(directory / "chroma.sqlite3", isolation_level=None)) as connection:
        connection.execute(f"UPDATE collections SET {column} = ?", (json.dumps(stored),))
    with pytest.raises(Refused, match="names an embedding function"):
        check_configuration(directory)


async def test_a_refused_collection_is_told_with_what_to_do(copied: Path, open_real: Opener) -> None:
    file = copied / "index" / "vectors" / "chroma.sqlite3"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        stored = json.dumps({"embedding_function": NAMED})
        connection.execute("UPDATE collections SET config_json_str = ?", (stored,))
    index = await open_real(copied)
    with pytest.raises(DataDirError, match=r"vectors is refused .* Delete .*index and run `threadwise ingest` again"):
        await index.vectors.collections()
    hits = await index.retriever.search("The code w3x7", PUBLIC, 5)
    assert hits.keyword
    assert not hits.dense
