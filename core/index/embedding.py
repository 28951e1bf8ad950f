"""Passages -> vectors in the store, many at a time, so that the embedder always has its next batch."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from core.errors import EmbedderError
from core.index.records import scope_key
from core.index.vectors import VectorStore
from core.ports import Embedder

BATCH: Final = 64
IN_FLIGHT: Final = 3
"""Batches between the embedder and the store: one embedded, one waiting for it, one being stored."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Generic[T]):
    """A passage to be embedded; `owner` is for the caller."""

    id: str
    scope: str
    text: str
    owner: T


class WidthChanged(EmbedderError):
    """The embedder sends vectors of another width than the index has."""

    def __init__(self, width: int) -> None:
        super().__init__(f"The embedding model sends vectors of another width now: {width}.")
        self.width = width


def embedded_text(title: str, heading: str, text: str) -> str:
    """What of a passage is embedded: a heading often holds the word that the question asks for."""
    return f"{title} > {heading}\n{text}" if heading else f"{title}\n{text}"


def generation_of(model: str, width: int) -> str:
    """First part of the names of the collections with this model's vectors."""
    return "g" + hashlib.sha256(f"{model}\n{width}".encode()).hexdigest()[:16]


def collection_of(generation: str, scope: str) -> str:
    """A collection a scope: the filter that cannot be forgotten, and 50 times as fast as Chroma's `where`."""
    return f"{generation}-{scope_key(scope)}"


class VectorWriter:
    """Embeds and stores. Every vector has the same width, or `WidthChanged` is raised."""

    def __init__(self, embedder: Embedder, store: VectorStore, *, width: int = 0) -> None:
        self._embedder = embedder
        self._store = store
        self.width = width
        """0 until the first vector is there."""

    @property
    def generation(self) -> str:
        return generation_of(self._embedder.model, self.width)

    async def write(
        self, items: AsyncIterable[Item[T]], stored: Callable[[Sequence[Item[T]]], Awaitable[None]]
    ) -> None:
        """Embeds all `items`; `stored` is awaited with those whose vectors have just become searchable.

        Raises `EmbedderError`, `RetrievalError` or `DataDirError`; batches that were stored stay so.
        """
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def batch(group: list[Item[T]]) -> None:
            try:
                await self._store_vectors(group, await self._embedded(group))
                await stored(group)
            finally:
                slots.release()

        try:
            async with asyncio.TaskGroup() as tasks:
                async for group in _groups(items):
                    await slots.acquire()
                    tasks.create_task(batch(group))
        except BaseExceptionGroup as failures:
            raise _first(failures) from failures

    async def _embedded(self, group: Sequence[Item[T]]) -> list[bytes]:
        vectors = await self._embedder.embed([item.text for item in group])
        widths = {len(vector) for vector in vectors}
        if len(vectors) != len(group) or len(widths) != 1:
            raise EmbedderError("The embedder did not send one vector a text, all of one width.")
        if self.width and widths != {self.width}:
            raise WidthChanged(widths.pop())
        self.width = widths.pop()
        return [array("f", vector).tobytes() for vector in vectors]

    async def _store_vectors(self, group: Sequence[Item[T]], vectors: Sequence[bytes]) -> None:
        by_scope: dict[str, list[int]] = {}
        for position, item in enumerate(group):
            by_scope.setdefault(item.scope, []).append(position)
        for scope, positions in by_scope.items():
            await self._store.add(
                collection_of(self.generation, scope),
                [group[position].id for position in positions],
                [vectors[position] for position in positions],
                metadata={"model": self._embedder.model, "width": self.width, "scope": scope},
            )


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _groups(items: AsyncIterable[Item[T]]) -> AsyncIterator[list[Item[T]]]:
    group: list[Item[T]] = []
    async for item in items:
        group.append(item)
        if len(group) >= BATCH:
            yield group
            group = []
    if group:
        yield group
