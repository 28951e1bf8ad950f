"""Two measures of the time that goes to a model and an embedder while a turn runs.

    loop = asyncio.SelectorEventLoop(meter := Meter())
    with meter.call():
        ...                                  # a call, or the wait for the next piece of a stream
    meter.in_calls                           # seconds for which at least one call was awaited
    meter.asleep                             # of these, the seconds in which the event loop had nothing to do

The difference is what was computed meanwhile: HTTP and JSON of the call itself, and whatever ran beside it.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from core.ports import ChatModel, Embedder
from core.types import ChatRequest, Delta


class Meter(selectors.DefaultSelector):
    """The selector of an event loop; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self.in_calls = 0.0
        self.asleep = 0.0
        self._calls = 0
        self._since = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._calls or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        start = time.perf_counter()
        try:
            return super().select(timeout)
        finally:
            self.asleep += time.perf_counter() - start

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call to a model is awaited; several may be at once."""
        if not self._calls:
            self._since = time.perf_counter()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self.in_calls += time.perf_counter() - self._since


class MeteredModel:
    """A `ChatModel` whose calls are metered."""

    def __init__(self, model: ChatModel, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        async with aclosing(self._model.stream(request)) as deltas:
            while True:
                with self._meter.call():
                    delta = await anext(deltas, None)
                if delta is None:
                    return
                yield delta


class MeteredEmbedder:
    """An `Embedder` whose calls are metered."""

    def __init__(self, embedder: Embedder, meter: Meter) -> None:
        self._embedder = embedder
        self._meter = meter

    @property
    def model(self) -> str:
        return self._embedder.model

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._meter.call():
            return await self._embedder.embed(texts)
