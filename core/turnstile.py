"""A chat model that takes a few calls at a time and lets the others wait outside, where no deadline runs yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from core.errors import NoSlot
from core.ports import ChatModel
from core.types import ChatRequest, Delta

PATIENCE_SECONDS: Final = 10.0


class Turnstile:
    """`model`, with at most `calls` calls running; one that waited `patience` seconds in vain raises `NoSlot`.

    For a model beside the one GPU, whose calls may all be left out: the typed words are searched then.
    """

    def __init__(self, model: ChatModel, calls: int, patience: float = PATIENCE_SECONDS) -> None:
        self._model = model
        self._free = asyncio.Semaphore(calls)
        self._patience = patience

    def __repr__(self) -> str:
        return repr(self._model)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """`ChatModel.stream`, when its turn comes."""
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError as error:
            raise NoSlot from error
        try:
            async with aclosing(self._model.stream(request)) as stream:
                async for delta in stream:
                    yield delta
        finally:
            self._free.release()
