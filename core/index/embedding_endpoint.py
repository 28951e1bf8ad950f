"""HTTP to the embedding endpoint: one request at a time, bounded in time and in size.

The only file that knows httpx for the embedder; every accident of it leaves as an `EmbedderError`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from core.certificate import advice, why_refused
from core.errors import EmbedderError
from core.exchange import fits_header, http_address
from core.llm_refusal import parse_retry_after

CONNECT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
_LONGEST_PAUSE: Final = 5.0
_RETRIED_STATUS: Final = frozenset({429, 502, 503})
_REFUSAL_BYTES: Final = 64_000


@dataclass(frozen=True, slots=True)
class Reply:
    """A response that was read to its end, or as far as it is of interest."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status == httpx.codes.OK

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as a value. Raises `ValueError` that says what is wrong with it."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ValueError("its reply is no JSON") from None


class EmbeddingEndpoint:
    """Where embeddings are asked for. The client stays the caller's."""

    def __init__(self, client: httpx.AsyncClient, base_url: str, api_key: str = "") -> None:
        """Raises `EmbedderError` if the address or the key can be none."""
        url = http_address(base_url)
        if url is None:
            raise EmbedderError("EMBEDDING_BASE_URL is not an address such as http://localhost:8001/v1.")
        key = api_key.strip()
        if not fits_header(key):
            # Refused here, because the error of the HTTP library would quote it.
            raise EmbedderError("EMBEDDING_API_KEY holds characters that no key has.")
        self._client = client
        self.base = base_url.strip().rstrip("/")
        # Uncompressed: what is small on the wire may be large in memory.
        self._headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        # Without the user and password that the address may hold.
        self._name = f"The embedding endpoint {url.host}{f':{url.port}' if url.port else ''}"

    def __str__(self) -> str:
        return self._name

    def late(self, seconds: float) -> EmbedderError:
        """The error for an answer that is not there in time."""
        return EmbedderError(
            f"{self} did not answer within {seconds:g} s: is it overloaded, or still loading? Check EMBEDDING_BASE_URL."
        )

    def refused(self, status: int) -> EmbedderError:
        """The error for a reply with another status than 200. Its body is not repeated: it may hold what was sent."""
        if status in (401, 403):
            what = "it refuses the key, set EMBEDDING_API_KEY"
        elif status in (404, 405, 410) or 300 <= status < 400:
            what = "check EMBEDDING_BASE_URL, which usually ends in /v1, and EMBEDDING_MODEL"
        elif status in _RETRIED_STATUS:
            what = "it is busy or not ready, try again later"
        elif status >= 500:
            what = "look into its log"
        else:
            what = "check EMBEDDING_MODEL and EMBEDDING_MAX_TOKENS"
        return EmbedderError(f"{self} answered with status {status}: {what}.")

    def garbage(self, reason: object) -> EmbedderError:
        """The error for a reply that makes no sense."""
        return EmbedderError(f"{self} does not answer like an embedding endpoint ({reason}): check EMBEDDING_BASE_URL.")

    async def post(self, url: str, body: Mapping[str, Any], *, seconds: float, limit: int) -> Reply:
        """The reply, of `limit` bytes at most; one more try when the server was not there, or busy.

        `seconds` are for all of it: headers and body may come a byte at a time. Raises `EmbedderError`.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._tried_twice(url, body, limit)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise self.late(CONNECT_SECONDS if isinstance(error, httpx.ConnectTimeout) else seconds) from None

    async def _tried_twice(self, url: str, body: Mapping[str, Any], limit: int) -> Reply:
        for last in (False, True):
            pause = _RETRY_SECONDS
            try:
                reply, retry_after = await self._once(url, body, limit)
                if last or reply.status not in _RETRIED_STATUS:
                    return reply
                pause = min(retry_after or pause, _LONGEST_PAUSE)
            except httpx.TimeoutException:
                raise
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                if (why := why_refused(error)) is not None:
                    raise EmbedderError(f"{self} cannot be used: {advice(why, 'EMBEDDING_BASE_URL')}") from None
                if last:
                    raise EmbedderError(
                        f"{self} is not reachable ({type(error).__name__}): is it running? Check EMBEDDING_BASE_URL."
                    ) from None
            await asyncio.sleep(pause)
        raise AssertionError

    async def _once(self, url: str, body: Mapping[str, Any], limit: int) -> tuple[Reply, float | None]:
        # No limit of httpx but for connecting: the others start anew with every byte.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        request = self._client.build_request("POST", url, json=body, headers=self._headers, timeout=timeout)
        response = await self._client.send(request, stream=True, follow_redirects=False)
        try:
            reply = Reply(response.status_code, await self._body(response, limit))
        finally:
            await response.aclose()
        return reply, parse_retry_after(response.headers.get("retry-after"))

    async def _body(self, response: httpx.Response, limit: int) -> bytes:
        ok = response.status_code == httpx.codes.OK
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            if ok:
                raise self.garbage("it compresses although it was asked not to")
            return b""
        collected = bytearray()
        async for chunk in response.aiter_raw():
            collected += chunk
            if not ok and len(collected) >= _REFUSAL_BYTES:
                break
            if len(collected) > limit:
                raise self.garbage(f"it sent over {limit} bytes")
        return bytes(collected)
