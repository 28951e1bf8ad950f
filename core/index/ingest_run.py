"""Files -> the index. Incremental by content; a document is old or new in full, whatever happens.

The order that makes it so: vectors are written under new ids, which nobody knows yet; one transaction of
the catalog makes them known and the old ids unknown; then the old vectors are deleted. Killed in between,
an ingest leaves vectors without a passage, which no search returns and the next ingest deletes.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from core.errors import DataDirError, IngestError
from core.index import chunker
from core.index.document import Chunk, Document
from core.index.embedding import Item, VectorWriter, WidthChanged, embedded_text
from core.index.index import Index
from core.index.readers import parse, read_bytes
from core.index.records import Entry, IngestReport, Known, Progress
from core.index.sources import Found, Scan, readable
from core.index.upkeep import collect_orphans, delete_vectors, embedder_width, switch_model, use_model

LEAST_FREE: Final = 200_000_000
"""Bytes that must be free on the disk before anything is written."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """A document on its way into the index."""

    document: Document
    root_id: int | None
    content_hash: str
    chunks: list[tuple[str, Chunk]]
    left: int
    """Chunks without a vector."""


class IngestRun:
    """One ingest."""

    def __init__(self, index: Index, scope: str, on_progress: Callable[[Progress], None], least_free: int) -> None:
        if not scope.strip():
            raise IngestError("a document needs a scope, or nobody may see it")
        self._index = index
        self._catalog = index.catalog
        self._scope = scope
        self._on_progress = on_progress
        self._least_free = least_free
        self._report = IngestReport()
        self._known: dict[str, Known] = {}
        self._moved: dict[str, int | None] = {}
        self._model_noted = self._writing = False
        self._files = self._done = 0

    async def files(self, found: Scan) -> IngestReport:
        self._report.failed, self._report.skipped = found.failed, found.skipped
        self._files = len(found.files)
        roots = await self._root_ids(found)
        await self._put(lambda: self._read(found.files, roots))
        report = self._report
        if not report.added and not report.changed and not report.unchanged:
            raise nothing_read(report.failed)
        await self._catalog.move(self._moved)
        await self._remove(found)
        await self._finish()
        return report

    async def _root_ids(self, found: Scan) -> dict[str, int]:
        known = {root.label: root for root in await self._catalog.roots()}
        ids: dict[str, int] = {}
        for label, (path, whole) in found.roots.items():
            root = known.get(label)
            if root is None or root.path != path or (whole and not root.whole):
                root = await self._catalog.add_root(path, label, whole=whole)
            ids[label] = root.id
        return ids

    async def documents(self, documents: Sequence[Document]) -> IngestReport:
        self._files = len(documents)
        cleaned = [_clean(document) for document in documents]
        (source, count), *_ = Counter(document.source for document in cleaned).most_common(1) or [("", 0)]
        if count > 1:
            raise IngestError(f"{count} documents have the source {source!r}: give each its own")

        async def works() -> AsyncIterator[_Work]:
            for document in cleaned:
                digest = self._digest(repr(document).encode())
                if not self._is_known(document.source, digest, None):
                    yield _work(document, None, digest, chunker.chunk(document))

        await self._put(works)
        await self._finish()
        return self._report

    async def _put(self, works: Callable[[], AsyncIterator[_Work]]) -> None:
        """Embeds and commits `works`; once more from the start if the model turns out to have changed."""
        model = self._index.embedder.model
        state = await self._catalog.state()
        if state.unfinished:
            await collect_orphans(self._index, state)
            self._writing = True
        # The width is asked for: a name such as "default" may stand for another model than it did.
        if state.total and (state.model != model or state.width != await embedder_width(self._index)):
            await self._switch(state.total)
        for last in (False, True):
            state = await self._catalog.state()
            self._known = await self._catalog.known()
            self._model_noted = state.model == model
            writer = VectorWriter(
                self._index.embedder, self._index.vectors, width=state.width if self._model_noted else 0
            )
            try:
                await writer.write(self._items(works()), partial(self._stored, writer))
                return
            except WidthChanged as error:
                if last:
                    raise IngestError(f"the embedding model {model!r} keeps changing: {error}") from None
            await self._switch(state.total)
            report = self._report
            report.added = report.changed = report.unchanged = self._done = 0

    async def _switch(self, total: int) -> None:
        await self._begin_writing()
        self._report.passages += await switch_model(
            self._index, lambda done: self._on_progress(Progress(stage="passages", done=done, total=total))
        )

    async def _read(self, files: Sequence[Found], roots: dict[str, int]) -> AsyncIterator[_Work]:
        for file in files:
            root_id = roots[file.label]
            try:
                data = await asyncio.to_thread(read_bytes, file.path)
                digest = self._digest(data)
                if self._is_known(file.source, digest, root_id):
                    continue
                document, chunks = await asyncio.to_thread(_parsed, data, file.source)
            except IngestError as error:
                failure = (readable(str(file.path)), str(error))
                if failure not in self._report.failed:
                    self._report.failed.append(failure)
                self._advance(1)
                continue
            yield _work(document, root_id, digest, chunks)

    def _digest(self, data: bytes) -> str:
        made = f"{chunker.VERSION}\n{self._scope}\n".encode("utf-8", "replace")
        return hashlib.sha256(made + data).hexdigest()

    def _is_known(self, source: str, digest: str, root_id: int | None) -> bool:
        known = self._known.get(source)
        if known is None or known.content_hash != digest:
            return False
        if known.root_id != root_id:
            self._moved[source] = root_id
        self._report.unchanged += 1
        self._advance(1)
        return True

    async def _items(self, works: AsyncIterator[_Work]) -> AsyncIterator[Item[_Work]]:
        async for work in works:
            await self._begin_writing()
            for id_, chunk in work.chunks:
                text = embedded_text(work.document.title, chunk.heading, chunk.text)
                yield Item(id=id_, scope=self._scope, text=text, owner=work)

    async def _begin_writing(self) -> None:
        if self._writing:
            return
        free = shutil.disk_usage(self._index.directory).free
        if free < self._least_free:
            raise DataDirError(
                f"only {free // 1_000_000} MB are free where {self._index.directory} is: "
                f"free {self._least_free // 1_000_000} MB, then run `threadwise ingest` again"
            )
        # Before the first vector: from here on there may be some without a passage.
        await self._catalog.set_meta(unfinished="1")
        self._writing = True

    async def _stored(self, writer: VectorWriter, items: Sequence[Item[_Work]]) -> None:
        """Commits the documents whose last vectors these are."""
        self._report.passages += len(items)
        done: list[_Work] = []
        for item in items:
            item.owner.left -= 1
            if not item.owner.left:
                done.append(item.owner)
        if not done:
            return
        if not self._model_noted:
            await use_model(self._index, writer.width)
            self._model_noted = True
        retired = await self._catalog.replace([self._entry(work) for work in done])
        for work in done:
            if work.document.source in self._known:
                self._report.changed += 1
            else:
                self._report.added += 1
        self._advance(len(done))
        await delete_vectors(self._index, writer.generation, retired)

    def _entry(self, work: _Work) -> Entry:
        return Entry(
            source=work.document.source,
            root_id=work.root_id,
            title=work.document.title,
            scope=self._scope,
            content_hash=work.content_hash,
            chunks=work.chunks,
        )

    def _advance(self, files: int) -> None:
        self._done += files
        self._on_progress(Progress(stage="files", done=self._done, total=self._files))

    async def _remove(self, found: Scan) -> None:
        here = {file.source for file in found.files}
        covered, unlisted = tuple(found.covered), tuple(found.unlisted)
        gone = [
            source
            for source in self._known
            if source not in here and source.startswith(covered) and not source.startswith(unlisted)
        ]
        if gone:
            await self._begin_writing()
            retired = await self._catalog.replace([], removed=gone)
            self._report.removed = len(gone)
            await delete_vectors(self._index, (await self._catalog.state()).generation, retired)

    async def _finish(self) -> None:
        if self._writing:
            await self._catalog.tidy()
            await self._catalog.set_meta(unfinished="0")


def _clean(document: Document) -> Document:
    """`document` without lone surrogates, which neither the catalog nor an embedder takes."""
    blocks = tuple(replace(block, text=_valid(block.text), label=_valid(block.label)) for block in document.blocks)
    return Document(title=_valid(document.title), source=_valid(document.source), blocks=blocks)


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _parsed(data: bytes, source: str) -> tuple[Document, list[Chunk]]:
    document = parse(data, source=source)
    return document, chunker.chunk(document)


def _work(document: Document, root_id: int | None, digest: str, chunks: Sequence[Chunk]) -> _Work:
    named = [(secrets.token_hex(12), chunk) for chunk in chunks]
    return _Work(document=document, root_id=root_id, content_hash=digest, chunks=named, left=len(named))


def nothing_read(failed: Sequence[tuple[str, str]]) -> IngestError:
    """The error for an ingest without a file to read; `failed` are those that could not be."""
    if not failed:
        return IngestError("there is no Markdown, HTML or text file to ingest: nothing was changed")
    path, reason = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return IngestError(f"no file could be read, nothing was changed: {path}: {reason}{more}")
