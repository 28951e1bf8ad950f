"""Token ids from the embedded llama.cpp itself, so that training reads a text as the bot will."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx

from bot import engine

BOS: Final = 2
"""The token that opens every prompt; the server adds it."""


class Server:
    """The embedded chat server, by its own endpoints. A context manager."""

    def __init__(self, data_dir: Path, **options: Any) -> None:
        self._engine = asyncio.run(engine.start(data_dir, embeddings=False, **options))
        assert self._engine.chat is not None
        self._client = httpx.Client(
            base_url=self._engine.chat.base_url.removesuffix("/v1"),
            headers={"Authorization": f"Bearer {self._engine.chat.api_key}"},
            timeout=120,
            trust_env=False,
        )
        self._known: dict[str, list[int]] = {}

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        asyncio.run(self._engine.close())

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without BOS; a control token that is spelled out stays text."""
        if text not in self._known:
            body = {"content": text, "add_special": False, "parse_special": False}
            self._known[text] = self.post("/tokenize", body)["tokens"]
        return self._known[text]

    def text(self, tokens: list[int]) -> str:
        """The text of tokens."""
        return str(self.post("/detokenize", {"tokens": tokens})["content"])

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, as JSON. Raises `httpx.HTTPError`."""
        response = self._client.post(path, json=body)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer
