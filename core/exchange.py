"""HTTP to the model: connections to one endpoint, and one request with its response under deadlines.

The only file that knows httpx for the chat model; every accident of it leaves as an error of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from typing import Final, Self

import httpx

from core import certificate
from core.certificate import advice, why_refused
from core.deadlines import Clock, within
from core.errors import ConfigError, ModelCut, ModelError, ModelGarbage, ModelTimeout
from core.llm_place import LLM, Named, Place
from core.llm_refusal import Refusal, parse_retry_after, unavailable

_REFUSAL_BYTES: Final = 64_000
_CLOSE_SECONDS: Final = 1.0
_DRAIN_SECONDS: Final = 0.2
_KEEP_ALIVE: Final = 3.0
"""Seconds an idle connection is used again: less than the 5 after which uvicorn and llama.cpp close it."""
_MOST_IDLE: Final = 8
_SLACK: Final = 5.0
"""httpx's own timeouts come this much later than ours: they are a net, and the two must not race."""


class Connections:
    """Clients of one connection each: taken for an exchange, kept after a whole response, else closed.

    Not one client with its pool: a request that is cancelled before its headers can leave a connection
    in httpcore's pool that is never used, never idle and never closed (1.0.9), until nothing gets through.
    """

    def __init__(self, base_url: str, api_key: str = "", named: Named = LLM) -> None:
        url = _checked_url(base_url, named)
        self._key = _checked_key(api_key, named)
        self.where = Place(f"{url.host}:{url.port}" if url.port else url.host, named)
        """Host and port, for messages."""
        # Without name and password, which httpx would write into every line that it logs.
        self.base = str(url.copy_with(username=None, password=None)).rstrip("/")
        self._auth = (url.username, url.password) if url.username and not self._key else None
        # Made once, since reading the certificates takes a while; plain http needs none.
        self._tls = certificate.context() if url.scheme == "https" else httpx.create_ssl_context(verify=False)
        self._idle: list[httpx.AsyncClient] = []
        self._taken: set[httpx.AsyncClient] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"Connections({self.base!r})"

    def redacted(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key, "***") if self._key else text

    def take(self, *, fresh: bool = False) -> tuple[httpx.AsyncClient, bool]:
        """A client that nobody else uses, and whether it was used before; never so if it is to be `fresh`."""
        kept = bool(self._idle) and not fresh
        client = self._idle.pop() if kept else self._new_client()
        self._taken.add(client)
        return client, kept

    async def give_back(self, client: httpx.AsyncClient, *, whole: bool) -> None:
        """Keeps the client if its last response was read to the end, closes it otherwise."""
        self._taken.discard(client)
        if whole and not self._closed and len(self._idle) < _MOST_IDLE:
            self._idle.append(client)
            return
        # In a task of its own: a second cancellation of the caller must not leave the socket open.
        closing = asyncio.create_task(_close(client))
        await asyncio.wait({closing}, timeout=_CLOSE_SECONDS)

    async def aclose(self) -> None:
        """Closes everything; running exchanges fail."""
        self._closed = True
        clients = [*self._idle, *self._taken]
        self._idle.clear()
        for client in clients:
            await _close(client)

    def _new_client(self) -> httpx.AsyncClient:
        headers = {"accept-encoding": "identity", "content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEEP_ALIVE)
        return httpx.AsyncClient(auth=self._auth, headers=headers, limits=limits, verify=self._tls, trust_env=False)


class Exchange:
    """One HTTP request and its response, an async iterator over the bytes of the body.

    Not an async generator: closing is then at once, whoever holds it and wherever it is.
    """

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._where = connections.where
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._whole = False
        self._tail_ends = math.inf

    async def send(self, method: str, url: str, content: bytes = b"") -> Refusal | None:
        """Sends, and waits for the headers; a status other than 200 is read, closed and returned."""
        try:
            response = await within(self._clock.left(), self._begin(method, url, content))
            if response.status_code == 200:
                return None
            self.finish_soon()  # What it says is of interest, but not worth a long wait.
            text = (await self.body(_REFUSAL_BYTES, cut=True)).decode("utf-8", "replace")
        except TimeoutError:
            await self.close()
            raise self._too_late() from None
        except (httpx.HTTPError, OSError) as error:
            await self.close()
            raise _no_response(error, self._where, self._clock.deadlines.connect) from error
        except BaseException:  # cancelled above all: the server must see that nobody waits
            await self.close()
            raise
        await self.close()
        wait = parse_retry_after(response.headers.get("retry-after"))
        return Refusal(status=response.status_code, text=text, retry_after=wait)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._chunks is None:
            raise StopAsyncIteration
        try:
            chunk = await within(self._left(), _next(self._chunks))
        except (TimeoutError, httpx.HTTPError, OSError) as error:
            await self.close()
            if self._tail_ends < math.inf:
                raise StopAsyncIteration from error
            raise self._broken_off(error) from error
        if chunk is None:
            self._whole = True
            raise StopAsyncIteration
        return chunk

    async def body(self, limit: int, *, cut: bool = False) -> bytes:
        """The whole body; what is over `limit` bytes is cut off, or `ModelGarbage`."""
        collected = bytearray()
        async for chunk in self:
            collected += chunk
            if len(collected) > limit:
                if cut:
                    break
                raise ModelGarbage(f"{self._where} sent a reply of over {limit} bytes.")
        return bytes(collected[:limit])

    def finish_soon(self, seconds: float | None = None) -> None:
        """All that matters has come. What may still follow is awaited a little, and may fail silently."""
        seconds = self._clock.deadlines.tail if seconds is None else seconds
        self._tail_ends = min(self._tail_ends, time.monotonic() + seconds)

    async def drain(self) -> None:
        """Waits a moment for the end of the body, so that the connection can be used again."""
        self.finish_soon(_DRAIN_SECONDS)
        async for _ in self:
            pass

    async def close(self) -> None:
        """Frees the connection; the server sees at once that an unfinished response is no longer wanted."""
        client, self._client, self._chunks = self._client, None, None
        if client is not None:
            await self._connections.give_back(client, whole=self._whole)

    async def _begin(self, method: str, url: str, content: bytes) -> httpx.Response:
        """The headers. A kept connection that the server closed as we reached for it is replaced by a new one."""
        self._client, kept = self._connections.take()
        try:
            return await self._send(self._client, method, url, content)
        except (httpx.NetworkError, httpx.RemoteProtocolError, ConnectionError) as error:
            if not kept or not _is_disconnect(error):
                raise
            await self.close()
        self._client, _ = self._connections.take(fresh=True)
        return await self._send(self._client, method, url, content)

    async def _send(self, client: httpx.AsyncClient, method: str, url: str, content: bytes) -> httpx.Response:
        deadlines = self._clock.deadlines
        late = deadlines.wall + _SLACK
        timeout = httpx.Timeout(connect=deadlines.connect, read=late, write=late, pool=late)
        request = client.build_request(method, url, content=content, timeout=timeout)
        response = await client.send(request, stream=True)
        self._chunks = response.aiter_bytes()
        return response

    def _left(self) -> float:
        return min(self._clock.left(), self._tail_ends - time.monotonic())

    def _too_late(self) -> ModelTimeout:
        return ModelTimeout(f"The model at {self._where} {self._clock.passed()}.")

    def _broken_off(self, error: Exception) -> ModelError:
        if isinstance(error, TimeoutError):
            return self._too_late()
        if isinstance(error, httpx.DecodingError):
            return ModelGarbage(f"{self._where} sent a reply that cannot be decompressed.")
        return ModelCut(f"The connection to the model at {self._where} was lost in the middle of its reply.")


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """The next chunk, or `None`: a task cannot hand on `StopAsyncIteration`."""
    return await anext(chunks, None)


async def _close(client: httpx.AsyncClient) -> None:
    with contextlib.suppress(httpx.HTTPError, OSError):
        await client.aclose()


def _is_disconnect(error: Exception) -> bool:
    return not isinstance(error, httpx.RemoteProtocolError) or "disconnected" in str(error)


def _no_response(error: Exception, where: Place, connect: float) -> ModelError:
    """What a failure before the headers means."""
    if isinstance(error, httpx.ConnectTimeout):
        return ModelTimeout(f"No connection to {where} within {connect:g} s: check {where.named.url}.")
    if isinstance(error, httpx.ConnectError):
        if (why := why_refused(error)) is not None:
            return unavailable(f"Cannot connect to {where}: {advice(why, where.named.url)}")
        if "SSL" in str(error):
            return unavailable(f"No TLS connection to {where}: check http or https in {where.named.url}.")
        return unavailable(f"Cannot connect to {where}: is it running? Check {where.named.url}.", not_taken=True)
    if not _is_disconnect(error):
        return ModelGarbage(f"{where} does not speak HTTP: check {where.named.url}.")
    if isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError, ConnectionError)):
        return unavailable(f"{where} closed the connection without a reply.")
    return unavailable(f"The request to {where} failed ({type(error).__name__}).")


def http_address(text: str) -> httpx.URL | None:
    """`text` as the address of an HTTP server that can be connected to, or `None` if it is none."""
    try:
        url = httpx.URL(text.strip())
        # A host such as "xn--" is decoded, and found to be none, when it is looked at.
        known = url.scheme in ("http", "https") and url.host
        url.host.encode("idna")
    except (httpx.InvalidURL, ValueError):  # all errors of `idna` are ValueErrors
        return None
    return url if known and (url.port is None or 0 < url.port < 65536) else None


def fits_header(key: str) -> bool:
    """Whether `key` can be sent in a header."""
    return key.isascii() and key.isprintable()


def _checked_url(base_url: str, named: Named) -> httpx.URL:
    url = http_address(base_url)
    if url is None:
        raise ConfigError(f"{named.url} is not an address such as http://localhost:8000/v1.")
    return url


def _checked_key(api_key: str, named: Named) -> str:
    key = api_key.strip()
    if not fits_header(key):
        # Refused here, because the error of the HTTP library would quote it.
        raise ConfigError(f"{named.key} holds characters that no key has.")
    return key
