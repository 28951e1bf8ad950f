"""Stand-ins for the embedding model and, where a test is not about it, for Chroma."""

from __future__ import annotations

import math
import re
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence

from core.errors import EmbedderError


class BagOfWords:
    """Texts that share words get similar vectors. Raises while `error` is set; keeps all texts."""

    def __init__(self, model: str = "bag", width: int = 64, salt: str = "") -> None:
        self.model, self.width, self.texts, self._salt = model, width, list[str](), salt or model
        self.error: EmbedderError | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.error:
            raise self.error
        self.texts += texts
        return [self._vector(re.findall(r"\w+", text.lower())) for text in texts]

    def _vector(self, words: list[str]) -> list[float]:
        vector = [1e-3] * self.width
        for word in words:
            vector[zlib.crc32(f"{self._salt} {word}".encode()) % self.width] += 1.0
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector]


class MemoryVectors:
    """A vector store in a dictionary, for tests of what goes in and out."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, array[float]]] = {}

    async def add(
        self, collection: str, ids: Sequence[str], vectors: Iterable[bytes], *, metadata: Mapping[str, str | int]
    ) -> None:
        rows = {id_: array("f", vector) for id_, vector in zip(ids, vectors, strict=True)}
        self.stored.setdefault(collection, {}).update(rows)

    async def query(self, collections: Sequence[str], vector: Sequence[float], limit: int) -> list[tuple[str, float]]:
        rows = [row for name in collections for row in self.stored.get(name, {}).items()]
        hits = [(id_, sum(a * b for a, b in zip(vector, row, strict=True))) for id_, row in rows]
        return sorted(hits, key=lambda hit: -hit[1])[:limit]

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        for id_ in ids:
            self.stored.get(collection, {}).pop(id_, None)

    async def drop(self, collection: str) -> None:
        self.stored.pop(collection, None)

    async def collections(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self.stored.items()}

    async def ids(self, collection: str) -> set[str]:
        return set(self.stored.get(collection, {}))

    async def vectors(self, collection: str, ids: Sequence[str]) -> dict[str, list[float]]:
        return {id_: list(self.stored[collection][id_]) for id_ in ids}

    async def close(self) -> None: ...
