"""What an embedding endpoint, its address and its key can do wrong; bytes on the wire as they are scripted."""

from __future__ import annotations

import asyncio
import gzip
import json
import traceback
import tracemalloc
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

import core.index.embedding_endpoint as module
from core.errors import EmbedderError
from core.index.embedder import HttpEmbedder

KEY = "sk-very-secret"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
Parts = Callable[[], AsyncIterator[bytes]]


class RawServer:
    """Sends the bytes of `parts` to whoever asks, and keeps the requests."""

    def __init__(self) -> None:
        self.parts: Parts = _all(b"")
        self.requests: list[bytes] = []
        self.sent = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            async for part in self.parts():
                writer.write(part)
                await writer.drain()
                self.sent += len(part)
        except OSError:
            pass
        finally:
            writer.close()


def _all(*parts: bytes) -> Parts:
    async def send() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return send


def answer(body: bytes, *headers: str) -> Parts:
    return _all(HEAD + "".join(f"{header}\r\n" for header in headers).encode() + b"\r\n" + body)


@pytest.fixture
async def server() -> AsyncIterator[tuple[RawServer, str]]:
    raw = RawServer()
    listening = await asyncio.start_server(raw.answer, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    yield raw, f"http://{host}:{port}/v1"
    listening.close()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as opened:
        yield opened


@pytest.fixture
def raw(server: tuple[RawServer, str]) -> RawServer:
    return server[0]


@pytest.fixture
def embedder(server: tuple[RawServer, str], client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> HttpEmbedder:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    return HttpEmbedder(client, server[1], "m", api_key=KEY)


async def refusal(embedder: HttpEmbedder) -> str:
    """The one line that `embed` ends with."""
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(["private words"])
    message = str(caught.value)
    assert "\n" not in message
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert "private words" not in message
    return message


def row(vector: str, index: str = "0") -> bytes:
    return f'{{"data": [{{"index": {index}, "embedding": {vector}}}]}}'.encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * 100_000, "its reply is no JSON"),
        (b"\xff\xfe\xfd", "its reply is no JSON"),
        (b"", "its reply is no JSON"),
        (row("[" + "9" * 5000 + "]"), "its reply is no JSON"),
        (row("[" + "9" * 400 + ", 1.0]"), "not a direction"),
        (row("[1.0, 0.0]", "Infinity"), "not numbered like the texts"),
        (row("[1.0, 0.0]", "NaN"), "not numbered like the texts"),
        (row("[1.0, 0.0]", "[]"), "not numbered like the texts"),
        (row("[1.0, null]"), "something else than numbers"),
        (row("null"), "a vector is missing"),
        (b'{"data": [null]}', "a vector is missing"),
        (b'{"data": null}', "1 vectors expected, none came"),
        (b"null", "1 vectors expected, none came"),
    ],
)
async def test_a_reply_that_makes_no_sense_is_one_line_in_our_words(
    embedder: HttpEmbedder, raw: RawServer, body: bytes, reason: str
) -> None:
    raw.parts = answer(body)
    message = await refusal(embedder)
    assert reason in message
    assert "EMBEDDING_BASE_URL" in message


async def test_an_index_of_null_is_none_and_the_order_that_of_the_reply(embedder: HttpEmbedder, raw: RawServer) -> None:
    raw.parts = answer(row("[3, 4]", "null"))
    assert await embedder.embed(["a"]) == [[0.6, 0.8]]


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(row("[1.0]"), mtime=0)])
async def test_compressed_replies_are_not_asked_for_and_not_unpacked(
    embedder: HttpEmbedder, raw: RawServer, body: bytes
) -> None:
    raw.parts = answer(body, "Content-Encoding: gzip")
    assert "compresses although it was asked not to" in await refusal(embedder)
    (request,) = raw.requests
    assert b"accept-encoding: identity" in request.lower()


async def test_a_body_without_end_is_left_alone_after_what_a_vector_can_take(
    embedder: HttpEmbedder, raw: RawServer
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield HEAD + b"\r\n"
        for _ in range(1000):
            yield b"[" * 1_000_000

    raw.parts = endless
    tracemalloc.start()
    try:
        assert "it sent over 500000 bytes" in await refusal(embedder)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert raw.sent < 100_000_000


@pytest.mark.parametrize("beginning", [b"", HEAD, HEAD + b"\r\n", HEAD.replace(b"200 OK", b"500 No") + b"\r\n"])
async def test_bytes_that_come_one_at_a_time_are_not_waited_for_without_end(
    server: tuple[RawServer, str], client: httpx.AsyncClient, beginning: bytes
) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        yield beginning
        for _ in range(200):
            yield b"H"
            await asyncio.sleep(0.05)

    server[0].parts = dripping
    embedder = HttpEmbedder(client, server[1], "m", api_key=KEY, seconds=0.5)
    message = await asyncio.wait_for(refusal(embedder), 5)
    assert "did not answer within 0.5 s" in message
    assert "EMBEDDING_BASE_URL" in message


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (401, "EMBEDDING_API_KEY"),
        (403, "EMBEDDING_API_KEY"),
        (404, "EMBEDDING_BASE_URL"),
        (302, "EMBEDDING_BASE_URL"),
        (400, "EMBEDDING_MODEL"),
        (500, "look into its log"),
        (503, "try again later"),
    ],
)
async def test_a_status_tells_what_to_look_at(embedder: HttpEmbedder, raw: RawServer, status: int, what: str) -> None:
    raw.parts = _all(
        f"HTTP/1.1 {status} No\r\nLocation: /elsewhere\r\nRetry-After: nan\r\nConnection: close\r\n\r\n".encode()
        + json.dumps({"error": "private words"}).encode()
    )
    message = await refusal(embedder)
    assert f"status {status}" in message
    assert what in message


async def test_what_does_not_speak_http_is_one_line(embedder: HttpEmbedder, raw: RawServer) -> None:
    raw.parts = _all(b"220 mail.example ESMTP\r\n")
    assert "EMBEDDING_BASE_URL" in await refusal(embedder)
    assert len(raw.requests) == 2


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://xn--/v1", "http://h:99999/v1", "http://h:x/v1", "http://", "localhost/v1", "http://h\x7f/"],
)
def test_an_address_that_is_none_is_told_before_anything_is_sent(client: httpx.AsyncClient, url: str) -> None:
    with pytest.raises(EmbedderError, match=r"^EMBEDDING_BASE_URL is not an address such as [^\n]*$"):
        HttpEmbedder(client, url, "m")


@pytest.mark.parametrize("key", ["sk-secr\xe9t", "sk-two\nlines", "sk-\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_quoting_it(client: httpx.AsyncClient, key: str) -> None:
    with pytest.raises(EmbedderError, match="EMBEDDING_API_KEY") as caught:
        HttpEmbedder(client, "http://127.0.0.1:9/v1", "m", api_key=key)
    assert "sk-" not in "".join(traceback.format_exception(caught.value))
