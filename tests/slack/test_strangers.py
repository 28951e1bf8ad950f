"""Whoever reaches the address for Slack and is not Slack: refused, told in no more than a line, and in nobody's way."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import pytest

from adapters.slack import address
from adapters.slack_http import PATH
from tests.slack.conftest import Quill
from tests.slack.test_http import asks, mention, quill, taken
from tests.slack_server import SlackServer

__all__ = ["quill"]

WORDS = b"Kestrel-private-words"
POST = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n".encode()
ODD = {
    "header": (b"GET / HTTP/1.1\r\nAuthorization: " + WORDS + b" \x00\r\n\r\n", 400),
    "request line": (b"POST " + PATH.encode() + b" " + WORDS + b"\r\n\r\n", 400),
    "long header": (b"GET / HTTP/1.1\r\nX: " + WORDS * 5000 + b"\r\n\r\n", 400),
    "chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + WORDS + b"\r\n", 400),
    "gzip": (POST + b"Content-Encoding: gzip\r\nContent-Length: 21\r\n\r\n" + WORDS, 400),
    "deflate": (POST + b"Content-Encoding: deflate\r\nContent-Length: 21\r\n\r\n" + WORDS, 400),
    "end in the middle": (POST + b"Content-Length: 500\r\n\r\n" + WORDS, 0),
    "charset": (POST + b"Content-Type: text/plain; charset=" + WORDS + b"\r\nContent-Length: 1\r\n\r\n\xff", 401),
    "expectation": (POST + b"Expect: " + WORDS + b"\r\nContent-Length: 0\r\n\r\n", 417),
    "no page": (b"GET /" + WORDS + b" HTTP/1.1\r\nHost: x\r\n\r\n", 404),
}


async def said_to(quill: Quill, request: bytes, *, hang_up: bool) -> bytes:
    """The first line of the reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)
    writer.write(request)
    if hang_up:
        writer.write_eof()
    line = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    return line


@pytest.mark.parametrize("kind", ODD)
async def test_a_request_that_makes_no_sense_is_refused_in_one_line_without_its_words(
    slack: SlackServer, quill: Quill, caplog: pytest.LogCaptureFixture, kind: str
):
    caplog.set_level(logging.INFO)
    request, status = ODD[kind]
    reply = await said_to(quill, request, hang_up=not status)
    assert reply[9:12] == (str(status).encode() if status else b""), reply
    assert WORDS.decode() not in caplog.text
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING]
    assert len(caplog.records) <= 1
    assert await taken(quill) == 0


@pytest.mark.parametrize("error", [KeyError("ours"), ConnectionError("ours")])
async def test_a_fault_of_our_own_is_told_with_its_trace(
    slack: SlackServer,
    quill: Quill,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
):
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(quill.socket._verifier, "is_valid", broken)
    assert (await slack.requests.post(json.dumps(mention())))[0] == 500
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= logging.ERROR] == [True]
    assert type(error).__name__ in caplog.text


async def test_one_that_is_torn_off_in_the_middle_of_a_body_is_not_told_of(
    slack: SlackServer, quill: Quill, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    _, writer = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)
    writer.write(POST + b"Content-Length: 500\r\n\r\n" + WORDS)
    await asyncio.sleep(0.3)
    writer.transport.abort()
    await asyncio.sleep(0.3)
    assert not caplog.records


async def test_a_connection_over_which_no_request_comes_is_closed(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(address, "HEAD_SECONDS", 0.3)
    silent = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)
    slow = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)

    async def endless() -> None:
        slow[1].write(POST)
        while True:
            slow[1].write(b"X: y\r\n")
            await asyncio.sleep(0.05)

    writing = asyncio.create_task(endless())
    for reader, _ in (silent, slow):
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
    writing.cancel()
    for _, writer in (silent, slow):
        writer.close()
    await asks(quill)


async def test_one_over_which_requests_came_is_kept_for_the_next(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(address, "HEAD_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)
    for _ in range(2):
        writer.write(POST + b"Content-Length: 0\r\n\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(b"HTTP/1.1 401")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        await asyncio.sleep(0.4)
    writer.close()


async def test_a_crowd_of_idle_connections_is_in_nobodys_way(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(address, "MOST_CONNECTIONS", 5)
    await quill.restart()
    crowd = []
    for _ in range(20):
        crowd.append(await asyncio.open_connection("127.0.0.1", quill.setup.http_port))
        crowd[-1][1].write(POST)
    closed = 0
    for reader, _ in crowd[:15]:
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 4) == b""
        closed += 1
    assert closed == 15
    assert not crowd[-1][0].at_eof()
    await asks(quill)
    assert not caplog.records
    for _, writer in crowd:
        writer.close()
