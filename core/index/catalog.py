"""What is in the index, as text: documents, their passages, and keyword search over them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sqlalchemy import Row, Select, bindparam, func, select, text, update
from sqlalchemy.dialects.sqlite import insert as upsert

from core.errors import DataDirError
from core.index import schema
from core.index.database import Database, damaged, make_directory
from core.index.keyword_search import KeywordSearch, passage_of
from core.index.records import Entry, Known, Root, State, Stored
from core.index.schema import documents, passages, roots
from core.index.statements import read_meta, replace_documents, write_meta
from core.types import Passage
from core.unbroken import unbroken

FILE: Final = "passages.db"
_PAGE: Final = 500
_QUOTED: Final = "bytes:"
"""In front of a path that is no text; other paths begin with a slash."""


class Catalog:
    """One open `passages.db`. Every method raises `DataDirError` if the file or its disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.unbroken = database.unbroken
        self.keywords = KeywordSearch(database)
        self._state: tuple[int, State] | None = None

    @classmethod
    async def open(cls, directory: Path) -> Catalog:
        """The catalog in `directory`, created if it is not there. Refuses a newer one and a damaged one."""
        make_directory(directory)
        catalog = cls(Database(directory / FILE))
        try:
            await catalog._prepare()
        except BaseException:  # cancelled as well: nobody else knows of these connections
            await catalog.close()
            raise
        return catalog

    @unbroken
    async def _prepare(self) -> None:
        async with self._database.write() as connection:
            tables = await connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
            if "meta" not in set(tables.scalars()):
                await connection.run_sync(schema.metadata.create_all)
                for statement in schema.FULL_TEXT:
                    await connection.execute(text(statement))
                await write_meta(connection, {"schema": str(schema.VERSION)})
            version = (await read_meta(connection)).get("schema", "")
        if not version.isdigit():
            raise damaged(self._database.path, "it does not say which version made it")
        if int(version) > schema.VERSION:
            raise DataDirError(
                f"{self._database.path} was made by a newer Threadwise: update Threadwise, "
                f"or delete {self._database.path.parent} and run `threadwise ingest` again"
            )

    async def close(self) -> None:
        await self._database.close()

    @unbroken
    async def integrity(self) -> None:
        """Reads the whole file; raises `DataDirError` if a page of it is damaged."""
        async with self._database.read() as connection:
            found = (await connection.execute(text("PRAGMA quick_check(1)"))).scalar()
        if found != "ok":
            raise damaged(self._database.path, str(found))

    async def state(self) -> State:
        """What the index holds now."""
        # Each search asks; only this process writes (`core.index.lock`).
        writes = self._database.writes
        if self._state is None or self._state[0] != writes:
            self._state = (writes, await self._read_state())
        return self._state[1]

    @unbroken
    async def _read_state(self) -> State:
        by_scope = select(documents.c.scope, func.sum(documents.c.passages), func.count()).group_by(documents.c.scope)
        async with self._database.read() as connection:
            values = await read_meta(connection)
            counts = (await connection.execute(by_scope)).all()
        return State(
            model=values.get("model", ""),
            width=int(values.get("width", "0")),
            generation=values.get("generation", ""),
            unfinished=values.get("unfinished") == "1",
            passages={str(scope): int(number) for scope, number, _ in counts if number},
            documents=sum(int(files) for _, _, files in counts),
        )

    @unbroken
    async def known(self) -> dict[str, Known]:
        """Every document by its source."""
        columns = select(documents.c.source, documents.c.content_hash, documents.c.root_id)
        async with self._database.read() as connection:
            rows = (await connection.execute(columns)).all()
        return {source: Known(source=source, content_hash=digest, root_id=root) for source, digest, root in rows}

    @unbroken
    async def titles(self, scopes: frozenset[str], limit: int) -> list[str]:
        """Titles of documents within `scopes`, those with most passages first."""
        longest = (
            select(documents.c.title)
            .where(documents.c.scope.in_(scopes), documents.c.passages > 0)
            .group_by(documents.c.title)
            .order_by(func.sum(documents.c.passages).desc(), documents.c.title)
            .limit(limit)
        )
        async with self._database.read() as connection:
            return list((await connection.execute(longest)).scalars())

    @unbroken
    async def roots(self) -> list[Root]:
        """Every folder that documents came from."""
        async with self._database.read() as connection:
            rows = (await connection.execute(select(roots).order_by(roots.c.id))).all()
        return [Root(id=row.id, path=_path_of(row.path), label=row.label, whole=row.whole) for row in rows]

    @unbroken
    async def ids(self) -> dict[str, set[str]]:
        """The ids of all passages, by scope."""
        found: dict[str, set[str]] = {}
        async with self._database.read() as connection:
            for scope, id_ in await connection.execute(select(passages.c.scope, passages.c.id)):
                found.setdefault(scope, set()).add(id_)
        return found

    @unbroken
    async def sections(self, ids: Iterable[str]) -> dict[str, str]:
        """The heading each passage stands under, as written, with " (2)" where its document repeats it."""
        query = select(passages.c.id, passages.c.section).where(passages.c.id.in_(list(ids)))
        async with self._database.read() as connection:
            return {row.id: row.section for row in await connection.execute(query)}

    async def stored(self, ids: Iterable[str] | None = None) -> AsyncIterator[list[Stored]]:
        """All passages, or those in `ids`, a few hundred at a time."""
        columns = select(*(passages.c[name] for name in ("number", "id", "scope", "title", "heading", "text")))
        chosen = columns if ids is None else columns.where(passages.c.id.in_(list(ids)))
        last = 0
        while True:
            rows = await self._rows(chosen.where(passages.c.number > last).order_by(passages.c.number).limit(_PAGE))
            if not rows:
                return
            last = rows[-1].number
            yield [Stored(id=r.id, scope=r.scope, title=r.title, heading=r.heading, text=r.text) for r in rows]

    @unbroken
    async def _rows(self, query: Select[Any]) -> list[Row[Any]]:
        async with self._database.read() as connection:
            return list((await connection.execute(query)).all())

    @unbroken
    async def passages(self, ids: Sequence[str], scopes: frozenset[str]) -> dict[str, Passage]:
        """Passages by id. Unknown ids, and passages outside of `scopes` or without one, are left out."""
        async with self._database.read() as connection:
            rows = await connection.execute(_PASSAGES.where(passages.c.id.in_(list(ids))))
            return {row.id: passage_of(row, 0.0) for row in rows if row.scope and row.scope in scopes}

    @unbroken
    async def set_meta(self, /, **values: str) -> None:
        """Notes something about the whole index: see `State`."""
        async with self._database.write() as connection:
            await write_meta(connection, values)

    @unbroken
    async def add_root(self, path: str, label: str, *, whole: bool) -> Root:
        """The root at `path`, new or known; a known one may become a whole one, or get another path."""
        row = upsert(roots).values(path=_as_text(path), label=label, whole=whole)
        kept = {"path": row.excluded.path, "whole": row.excluded.whole | roots.c.whole}
        async with self._database.write() as connection:
            await connection.execute(row.on_conflict_do_update(index_elements=["label"], set_=kept))
            found = (await connection.execute(select(roots).where(roots.c.label == label))).one()
        return Root(id=found.id, path=_path_of(found.path), label=found.label, whole=found.whole)

    @unbroken
    async def replace(self, entries: Sequence[Entry], *, removed: Iterable[str] = ()) -> dict[str, list[str]]:
        """Puts `entries` in, each instead of the document with its source, and takes `removed` sources out.

        One transaction. Returns the ids of the passages that are no more, by scope.
        """
        self.keywords.forget_counts()
        async with self._database.write() as connection:
            return await replace_documents(connection, entries, list(removed))

    @unbroken
    async def move(self, moved: Mapping[str, int | None]) -> None:
        """Notes the roots of documents that are unchanged otherwise, by source."""
        if not moved:
            return
        statement = update(documents).where(documents.c.source == bindparam("which"))
        async with self._database.write() as connection:
            rows = [{"which": source, "root_id": root} for source, root in moved.items()]
            await connection.execute(statement, rows)

    @unbroken
    async def tidy(self) -> None:
        """Merges the full-text index, so that removed words are gone from it, and empties the log."""
        async with self._database.write() as connection:
            await connection.execute(text("INSERT INTO passages_fts (passages_fts) VALUES ('optimize')"))
        await self._database.empty_log()


def _as_text(path: str) -> str:
    """An absolute path as SQLite takes it: a name on the disk need not be UTF-8, a text in the database must be."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return _QUOTED + quote_from_bytes(os.fsencode(path))
    return path


def _path_of(text: str) -> str:
    return os.fsdecode(unquote_to_bytes(text.removeprefix(_QUOTED))) if text.startswith(_QUOTED) else text


_PASSAGES = select(
    passages.c.id,
    passages.c.text,
    passages.c.title,
    passages.c.heading,
    passages.c.scope,
    documents.c.source,
).join(documents)
