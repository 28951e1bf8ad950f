from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from aiohttp import web

import core.index.embedding_endpoint as module
from core.errors import EmbedderError
from core.index.embedder import HttpEmbedder

KEY = "sk-very-secret"


class Server:
    """An embedding endpoint: vectors say which text they belong to; a token is a word, or a run of 4 characters."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.tokenized = 0
        self.limit = 512
        self.tokenizer = True
        self.status: list[int] = []
        self.change: Callable[[list[dict[str, Any]]], Any] = lambda rows: {"data": rows}
        self.headers: list[str | None] = []
        self.running = self.most_running = 0
        self.seconds = 0.0

    def tokens(self, value: Any) -> int:
        return len(value) if isinstance(value, list) else 2 + sum(1 + len(word) // 4 for word in value.split())

    async def embeddings(self, request: web.Request) -> web.Response:
        inputs = (await request.json())["input"]
        self.requests.append(inputs)
        self.headers.append(request.headers.get("Authorization"))
        if self.status:
            return web.Response(status=self.status.pop(0), text=f"no: {inputs}")
        if any(self.tokens(value) > self.limit for value in inputs):
            return web.Response(status=500, text="input is too large to process. increase the physical batch size")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        rows = [{"index": i, "embedding": [3.0, 4.0, float(self.tokens(value))]} for i, value in enumerate(inputs)]
        return web.json_response(self.change(rows))

    async def tokenize(self, request: web.Request) -> web.Response:
        self.tokenized += 1
        if not self.tokenizer:
            return web.Response(status=404)
        count = self.tokens((await request.json())["content"])
        return web.json_response({"tokens": [101, *range(count - 2), 102]})


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    scripted = Server()
    app = web.Application(client_max_size=10_000_000)
    app.router.add_post("/v1/embeddings", scripted.embeddings)
    app.router.add_post("/tokenize", scripted.tokenize)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield scripted, f"http://{host}:{port}/v1"
    await runner.cleanup()


@pytest.fixture
async def scripted(server: tuple[Server, str]) -> Server:
    return server[0]


@pytest.fixture
async def embedder(server: tuple[Server, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpEmbedder]:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    async with httpx.AsyncClient(trust_env=False) as client:
        yield HttpEmbedder(client, server[1], "m", api_key=KEY)


async def test_texts_become_unit_vectors_in_order_over_many_batches(embedder: HttpEmbedder, scripted: Server) -> None:
    texts = ["w " * number for number in range(1, 200)]
    vectors = await embedder.embed(texts)
    assert [round(vector[2] / vector[0] * 3) for vector in vectors] == [number + 2 for number in range(1, 200)]
    assert all(math.isclose(sum(x * x for x in vector), 1.0) for vector in vectors)
    assert len(scripted.requests) > 5
    assert scripted.headers[0] == f"Bearer {KEY}"


async def test_no_more_requests_run_at_a_time_than_allowed(embedder: HttpEmbedder, scripted: Server) -> None:
    scripted.seconds = 0.02
    await asyncio.gather(*(embedder.embed(["a"] * 100) for _ in range(3)))
    assert scripted.most_running == 2


async def test_the_order_is_the_indexes_not_the_replys(embedder: HttpEmbedder, scripted: Server) -> None:
    scripted.change = lambda rows: {"data": rows[::-1]}
    first, second = await embedder.embed(["a", "b c d"])
    assert first[2] < second[2]


async def test_nothing_to_embed_asks_nobody(embedder: HttpEmbedder, scripted: Server) -> None:
    assert await embedder.embed([]) == []
    assert not scripted.requests


async def test_a_text_over_the_limit_is_cut_by_the_models_own_tokens(embedder: HttpEmbedder, scripted: Server) -> None:
    (vector,) = await embedder.embed(["word " * 3000])
    assert len(vector) == 3
    (((*_, last),),) = scripted.requests
    assert len(scripted.requests[0][0]) == 512
    assert last == 102


async def test_a_usual_text_is_not_counted_first(embedder: HttpEmbedder, scripted: Server) -> None:
    await embedder.embed(["some words of a passage " * 40])
    assert not scripted.tokenized


async def test_a_dense_text_that_is_refused_is_counted_and_cut(embedder: HttpEmbedder, scripted: Server) -> None:
    await embedder.embed(["short", "a " * 600])
    assert scripted.tokenized == 1
    assert scripted.requests[1][0] == "short"
    assert len(scripted.requests[1][1]) == 512


async def test_without_a_tokenizer_a_text_is_cut_by_characters_until_it_is_taken(
    embedder: HttpEmbedder, scripted: Server
) -> None:
    scripted.tokenizer = False
    scripted.limit = 100
    vectors = await embedder.embed(["a " * 3000, "short", "b " * 900])
    assert len(vectors) == 3
    assert scripted.tokenized == 1  # asked once, not again for each text
    assert scripted.requests[-1][1] == "short"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_once_more(embedder: HttpEmbedder, scripted: Server, status: int) -> None:
    scripted.status = [status]
    assert len(await embedder.embed(["a"])) == 1
    scripted.status = [status, status]
    with pytest.raises(EmbedderError, match=str(status)):
        await embedder.embed(["a"])
    assert len(scripted.requests) == 4


async def test_a_refused_request_is_not_repeated_and_neither_key_nor_text_is_told(
    embedder: HttpEmbedder, scripted: Server
) -> None:
    scripted.status = [401]
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(["private words"])
    assert "401" in str(caught.value)
    assert KEY not in str(caught.value)
    assert "private" not in str(caught.value)
    assert len(scripted.requests) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: {"data": rows[:1]},
        lambda rows: {"data": [rows[0], rows[0]]},
        lambda rows: {"data": [rows[0], {"index": 1}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": []}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": [1.0, 2.0]}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": [0.0, 0.0, 0.0]}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": [1.0, float("nan"), 0.0]}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": [1.0, float("inf"), 0.0]}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": ["1", "2", "3"]}]},
        lambda rows: {"data": [rows[0], {"index": 1, "embedding": "AAAA"}]},
        lambda rows: {"object": "list"},
        lambda rows: ["data"],
        lambda rows: "hello",
    ],
)
async def test_a_reply_that_is_not_one_good_vector_a_text_is_refused(
    embedder: HttpEmbedder, scripted: Server, change: Callable[[list[dict[str, Any]]], Any]
) -> None:
    scripted.change = change
    with pytest.raises(EmbedderError, match=r"127\.0\.0\.1"):
        await embedder.embed(["a", "b"])


async def test_a_width_that_changes_between_two_calls_is_told(embedder: HttpEmbedder, scripted: Server) -> None:
    await embedder.embed(["a"])
    scripted.change = lambda rows: {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}
    with pytest.raises(EmbedderError, match=r"widths: \[2, 3\]"):
        await embedder.embed(["a"])


async def test_a_server_that_is_down_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    async with httpx.AsyncClient(trust_env=False) as client:
        down = HttpEmbedder(client, "http://127.0.0.1:9/v1", "m", api_key=KEY)
        with pytest.raises(EmbedderError, match=r"^The embedding endpoint 127.0.0.1:9 is not reachable"):
            await down.embed(["a"])


async def test_a_server_that_hangs_ends_with_the_deadline(server: tuple[Server, str]) -> None:
    server[0].seconds = 0.5
    async with httpx.AsyncClient(trust_env=False) as client:
        slow = HttpEmbedder(client, server[1], "m", seconds=0.1)
        with pytest.raises(EmbedderError, match=r"did not answer within 0\.1 s: .*EMBEDDING_BASE_URL"):
            await slow.embed(["a"])
        patient = HttpEmbedder(client, server[1], "m")
        with pytest.raises(EmbedderError, match=r"did not answer within 0\.1 s"):
            await patient.embed(["a"], seconds=0.1)
        assert len(await patient.embed(["a"], seconds=30)) == 1


async def test_lone_surrogates_and_empty_texts_are_sent_as_valid_text(embedder: HttpEmbedder, scripted: Server) -> None:
    assert len(await embedder.embed(["ok \ud83d", "", " \n", "\x00", "\ufeff"])) == 5
    assert scripted.requests[0][0] == "ok ?"
    assert all(value.strip() for value in scripted.requests[0][:3])
