"""Values that go in and out of the catalog. No I/O here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.index.document import Chunk


def scope_key(scope: str) -> str:
    """`scope` as one word of letters and digits, so that no scope can be part of another."""
    return "s" + hashlib.sha256(scope.encode("utf-8", "replace")).hexdigest()[:20]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the index holds at one moment."""

    model: str = ""
    """Name of the embedding model that made the vectors; empty before the first ingest."""
    width: int = 0
    """Numbers in a vector."""
    generation: str = ""
    """First part of the names of the vector collections."""
    unfinished: bool = False
    """True while an ingest runs, or after one that did not reach its end."""
    passages: Mapping[str, int]
    """Number of passages by scope."""
    documents: int = 0

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(self.passages)

    @property
    def total(self) -> int:
        return sum(self.passages.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A document as it is in the index."""

    source: str
    content_hash: str
    root_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder that documents came from."""

    id: int
    path: str
    label: str
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A document to be put into the index, with the ids of its chunks."""

    source: str
    root_id: int | None
    title: str
    scope: str
    content_hash: str
    chunks: Sequence[tuple[str, Chunk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A passage with what its vector is made of."""

    id: str
    scope: str
    title: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an ingest is."""

    stage: str
    """"files", or "passages" while known text is embedded with another model."""
    done: int
    total: int


@dataclass(slots=True, kw_only=True)
class IngestReport:
    """What an ingest did, in documents."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0
    """Files of other kinds, and links that lead out of the folder."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason of each file that could not be read; what the index held of it stays."""
    passages: int = 0
    """Passages embedded, those for a change of the model included."""
