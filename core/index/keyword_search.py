"""Keyword search over the full-text index: BM25, within scopes, fast in large indexes too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from core.index.database import Database
from core.index.keywords import any_of
from core.index.records import State, scope_key
from core.types import Passage
from core.unbroken import unbroken

EXACT: Final = 10_000
"""Passages up to which a query is ranked over everything that it matches."""
RANKED: Final = 6_000
"""Above that: matches of the rarest words, about this many, are ranked. With 50,000 passages this takes the
95th percentile from 45 to 15 ms, and Recall@5 from 0.543 to 0.541 (Wikipedia conversations)."""
_KNOWN_COUNTS: Final = 20_000
_WEIGHTS: Final = "2.0, 2.0, 1.0, 0.0"
"""Of title, heading, text and scope key, by the same trial as the tokenizer."""

_SEARCH = text(
    "SELECT p.id, p.text, p.title, p.heading, p.scope, d.source, f.bm25 FROM ("
    f"SELECT rowid AS number, bm25(passages_fts, {_WEIGHTS}) AS bm25 FROM passages_fts "
    "WHERE passages_fts MATCH :match ORDER BY bm25 LIMIT :limit) AS f "
    "JOIN passages AS p ON p.number = f.number JOIN documents AS d ON d.id = p.document_id ORDER BY f.bm25, p.number"
)


class KeywordSearch:
    """Reads `database`. Raises `DataDirError` if the file or its disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.unbroken = database.unbroken
        self._counts: dict[str, int] = {}

    def forget_counts(self) -> None:
        """To be called when passages came or went."""
        self._counts.clear()

    @unbroken
    async def search(self, terms: Sequence[str], scopes: frozenset[str], limit: int, *, state: State) -> list[Passage]:
        """The `limit` best passages within `scopes` that hold any of `terms`, by BM25, best first."""
        if not terms or not scopes or limit < 1:
            return []
        async with self._database.read() as connection:
            match = await self._match(connection, terms, state)
            if not match:
                return []
            if not state.scopes <= scopes:
                match = f"{match} AND (scope_key : {any_of(scope_key(scope) for scope in sorted(scopes))})"
            rows = (await connection.execute(_SEARCH, {"match": match, "limit": limit})).all()
        # Once more in code: whatever the full-text index says, nothing leaves its scope.
        return [passage_of(row, -row.bm25) for row in rows if row.scope and row.scope in scopes]

    async def _match(self, connection: AsyncConnection, terms: Sequence[str], state: State) -> str:
        """The expression to search for: any of `terms`; in a large index only where a rare one is found."""
        if state.total <= EXACT:
            return _in_text(terms)
        counted = [(await self._count(connection, term), term) for term in terms]
        counted = sorted((number, term) for number, term in counted if number)
        rare: list[str] = []
        matches = 0
        for number, term in counted:
            if rare and matches + number > RANKED:
                # The common words still count in the ranking of what the rare ones find.
                return f"{_in_text(rare)} AND {_in_text(term for _, term in counted)}"
            rare.append(term)
            matches += number
        return _in_text(rare) if rare else ""

    async def _count(self, connection: AsyncConnection, term: str) -> int:
        """In how many passages `term` occurs. Kept until something is written; it need not be exact."""
        if term not in self._counts:
            if len(self._counts) >= _KNOWN_COUNTS:
                self._counts.clear()
            query = text("SELECT count(*) FROM passages_fts WHERE passages_fts MATCH :match")
            self._counts[term] = (await connection.execute(query, {"match": _in_text([term])})).scalar_one()
        return self._counts[term]


def _in_text(terms: Iterable[str]) -> str:
    return f"({{title heading text}} : {any_of(terms)})"


def passage_of(row: Any, score: float) -> Passage:
    """A row with the columns of `Passage`, as one."""
    return Passage(
        id=row.id,
        text=row.text,
        title=row.title,
        source=row.source,
        heading=row.heading,
        scope=row.scope,
        score=score,
    )
