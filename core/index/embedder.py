"""Texts -> unit vectors, over an OpenAI-style `POST {base}/embeddings`.

Texts over the model's limit are cut, never refused: by the model's own tokenizer where the server offers
llama.cpp's `POST /tokenize`, by characters where it does not.
"""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, Literal

import httpx

from core.errors import EmbedderError
from core.index.embedding_endpoint import EmbeddingEndpoint
from core.metrics import EMBEDDINGS

MAX_TOKENS: Final = 512
BATCH_TEXTS: Final = 32
BATCH_CHARACTERS: Final = 40_000
CONCURRENCY: Final = 2
"""Requests at a time: the server works on one while the next one is on its way."""
BATCH_SECONDS: Final = 60.0
"""For the answer to one request, whatever it is made of."""
_TEXT_BYTES: Final = 500_000
"""Of the answer, a text: a vector of 4096 numbers has 90,000."""
_MOST_BYTES: Final = 64_000_000
_TOKENS_BYTES: Final = 8_000_000
_SURE_BYTES: Final = 3.2
"""Bytes a token, above which a text is taken to fit: English has four and more, YAML three."""
_CUT_BYTES: Final = 2.0
"""Bytes a token where nothing can count them: dense text has two; what is still too long is halved."""
_LENGTH: Final = re.compile(r"too (?:large|long|many)|length|context|token|exceed|physical batch", re.IGNORECASE)
_LENGTH_STATUS: Final = frozenset({400, 413, 422, 500})

Input = str | list[int]
"""A text, or a text as tokens."""


class TooLong(EmbedderError):
    """A text is over the model's limit."""


class HttpEmbedder:
    """Implements `core.ports.Embedder`. The client stays the caller's: `trust_env=False`, closed by them."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        max_tokens: int = MAX_TOKENS,
        batch_texts: int = BATCH_TEXTS,
        concurrency: int = CONCURRENCY,
        seconds: float = BATCH_SECONDS,
        normal_form: Literal["", "NFD"] = "",
    ) -> None:
        """`normal_form` is what the model's own tokenizer does to a text where its server does not.

        Raises `EmbedderError` if the address or the key can be none.
        """
        self._endpoint = EmbeddingEndpoint(client, base_url, api_key)
        self._normal_form = normal_form
        self._model = model
        self._max_tokens = max_tokens
        self._batch_texts = batch_texts
        self._slots = asyncio.Semaphore(concurrency)
        self._seconds = seconds
        self._width = 0
        self._can_tokenize: bool | None = None

    @property
    def model(self) -> str:
        """Name of the model, as it is kept with the index."""
        return self._model

    async def embed(self, texts: Sequence[str], *, seconds: float | None = None) -> list[list[float]]:
        """One unit vector a text, in order, within `seconds` if they are given. Raises `EmbedderError`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._embed(texts)
        except TimeoutError:
            raise self._endpoint.late(seconds or self._seconds) from None

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        # A lone surrogate cannot be sent; an empty text is refused by most servers.
        clean = [self._normal(text.encode("utf-8", "replace").decode()) if text.strip() else " ." for text in texts]
        vectors: list[list[float]] = []
        tasks = [asyncio.create_task(self._batch(batch)) for batch in _batches(clean, self._batch_texts)]
        try:
            for task in tasks:
                vectors += await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        EMBEDDINGS.inc(len(texts))
        return vectors

    def _normal(self, text: str) -> str:
        return unicodedata.normalize(self._normal_form, text) if self._normal_form else text

    async def _batch(self, texts: list[str]) -> list[list[float]]:
        async with self._slots:
            inputs = [await self._fitted(text) for text in texts]
            try:
                return await self._request(inputs)
            except TooLong:
                # Which of them it was, few servers say: every one that could be is counted.
                inputs = [await self._fitted(text, sure=True) for text in texts]
            return await self._request_halving(inputs)

    async def _request_halving(self, inputs: list[Input]) -> list[list[float]]:
        """Sends `inputs`, cutting the longest in half as long as they are refused for their length."""
        for _ in range(12):
            try:
                return await self._request(inputs)
            except TooLong:
                longest = max(len(value) for value in inputs)
                if longest < 16:
                    raise
                inputs = [value[: longest // 2] if len(value) > longest // 2 else value for value in inputs]
        raise TooLong(f"{self._endpoint} refuses even short texts for their length.")

    async def _fitted(self, text: str, *, sure: bool = False) -> Input:
        """`text`, or what of it the model takes. Unless `sure`, a text of usual density is taken to fit."""
        size = len(text.encode())
        # A token is at least one character, and two are for the model's own marks.
        if len(text) <= self._max_tokens - 2 or (not sure and size <= self._max_tokens * _SURE_BYTES):
            return text
        # The cut text is at most as long as tokens can be; the rest would only cost time.
        tokens = await self._tokenize(text[: self._max_tokens * 16])
        if tokens is None:
            return text.encode()[: int(self._max_tokens * _CUT_BYTES)].decode(errors="ignore")
        if len(tokens) <= self._max_tokens:
            return text
        return [*tokens[: self._max_tokens - 1], tokens[-1]]  # the last one marks the end for the model

    async def _tokenize(self, text: str) -> list[int] | None:
        """Tokens of `text` with the model's own marks, or None where the server does not tell."""
        if self._can_tokenize is False:
            return None
        body = {"content": text, "add_special": True}
        try:
            url = f"{self._endpoint.base.removesuffix('/v1')}/tokenize"
            reply = await self._endpoint.post(url, body, seconds=self._seconds, limit=_TOKENS_BYTES)
            tokens = reply.json().get("tokens") if reply.ok else None
        except (ValueError, AttributeError):
            tokens = None
        counted = isinstance(tokens, list) and bool(tokens) and all(isinstance(token, int) for token in tokens)
        self._can_tokenize = counted
        return tokens if counted else None

    async def _request(self, inputs: list[Input]) -> list[list[float]]:
        body = {"model": self._model, "input": inputs}
        limit = min(len(inputs) * _TEXT_BYTES, _MOST_BYTES)
        reply = await self._endpoint.post(f"{self._endpoint.base}/embeddings", body, seconds=self._seconds, limit=limit)
        if not reply.ok:
            if reply.status in _LENGTH_STATUS and _LENGTH.search(reply.text[:2000]):
                raise TooLong(f"{self._endpoint} refused a text for its length.")
            raise self._endpoint.refused(reply.status)
        try:
            vectors = [_unit(row) for row in _rows(reply.json(), len(inputs))]
        except ValueError as error:
            raise self._endpoint.garbage(error) from None
        widths = {len(vector) for vector in vectors} | ({self._width} if self._width else set())
        if len(widths) > 1:
            raise EmbedderError(
                f"{self._endpoint} sent vectors of different widths: {sorted(widths)}. Check EMBEDDING_MODEL."
            )
        self._width = widths.pop()
        return vectors


def _batches(texts: Sequence[str], most: int) -> list[list[str]]:
    batches: list[list[str]] = []
    size = 0
    for text in texts:
        if not batches or len(batches[-1]) >= most or size + len(text) > BATCH_CHARACTERS:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return batches


def _rows(reply: Any, count: int) -> list[Any]:
    """The vectors of a reply in the order of the request, whatever order the server chose."""
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list) or len(data) != count:
        raise ValueError(f"{count} vectors expected, {len(data) if isinstance(data, list) else 'none'} came")
    by_index: dict[int, Any] = {}
    for position, item in enumerate(data):
        if not isinstance(item, dict):
            raise ValueError("a vector is missing")
        index = item.get("index")
        by_index[position if index is None else index if isinstance(index, int) else -1] = item.get("embedding")
    if by_index.keys() != set(range(count)):
        raise ValueError("the vectors are not numbered like the texts")
    return [by_index[position] for position in range(count)]


def _unit(row: Any) -> list[float]:
    if not isinstance(row, list) or not row:
        raise ValueError("a vector is missing")
    if any(not isinstance(value, (int, float)) for value in row):
        raise ValueError("a vector holds something else than numbers")
    try:
        length = math.sqrt(sum(value * value for value in map(float, row)))
    except OverflowError:  # a whole number of hundreds of digits
        length = math.inf
    if not math.isfinite(length) or length == 0.0:
        raise ValueError("a vector is not a direction: zero, infinite or not a number")
    return [value / length for value in row]
