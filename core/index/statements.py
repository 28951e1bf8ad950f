"""Writes to the catalog, each inside a transaction of the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import delete, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from core.index.records import Entry, scope_key
from core.index.schema import documents, meta, passages

_AT_ONCE: Final = 500
"""Values in one statement: SQLite takes some 32,000."""


async def replace_documents(
    connection: AsyncConnection, entries: Sequence[Entry], removed: Sequence[str]
) -> dict[str, list[str]]:
    """Puts `entries` in the place of what has their sources, takes `removed` out; the retired ids by scope."""
    retired: dict[str, list[str]] = {}
    sources = [*removed, *(entry.source for entry in entries)]
    for start in range(0, len(sources), _AT_ONCE):
        chosen = documents.c.source.in_(sources[start : start + _AT_ONCE])
        old = select(passages.c.scope, passages.c.id).join(documents).where(chosen)
        for scope, id_ in await connection.execute(old):
            retired.setdefault(scope, []).append(id_)
        await connection.execute(delete(documents).where(chosen))
    for entry in entries:
        await _insert(connection, entry)
    return retired


async def read_meta(connection: AsyncConnection) -> dict[str, str]:
    """All of `meta`."""
    return {row.key: row.value for row in await connection.execute(select(meta.c.key, meta.c.value))}


async def write_meta(connection: AsyncConnection, values: Mapping[str, str]) -> None:
    """Sets `values` in `meta`; what else is there stays."""
    row = upsert(meta)
    statement = row.on_conflict_do_update(index_elements=["key"], set_={"value": row.excluded.value})
    await connection.execute(statement, [{"key": key, "value": value} for key, value in values.items()])


async def _insert(connection: AsyncConnection, entry: Entry) -> None:
    document = {
        "source": entry.source,
        "root_id": entry.root_id,
        "title": entry.title,
        "scope": entry.scope,
        "content_hash": entry.content_hash,
        "passages": len(entry.chunks),
        "ingested_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    result = await connection.execute(insert(documents).values(document))
    (number,) = result.inserted_primary_key or (None,)
    rows = [
        {
            "id": id_,
            "document_id": number,
            "ordinal": chunk.ordinal,
            "title": entry.title,
            "heading": chunk.heading,
            "section": chunk.section,
            "text": chunk.text,
            "line": chunk.line,
            "scope": entry.scope,
            "scope_key": scope_key(entry.scope),
        }
        for id_, chunk in entry.chunks
    ]
    if rows:
        await connection.execute(insert(passages), rows)
