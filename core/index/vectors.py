"""Vectors by id, searched by cosine similarity. Asked from the event loop, kept by a process of its own.

Nothing here ever blocks the loop: see `vector_process` for why. A query that takes too long fails, and
the process that hangs on it is killed and started anew; after a few such failures in a row, queries fail
at once for a while. Only vectors, opaque ids and names of collections are stored: no text.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from core.errors import DataDirError, RetrievalError
from core.index.vector_worker import WorkerFailed, WorkerProcess

log = logging.getLogger(__name__)

DIRECTORY: Final = "vectors"
QUERY_SECONDS: Final = 3.0
START_SECONDS: Final = 60.0
WRITE_SECONDS: Final = 60.0
FAILURES: Final = 3
PAUSE_SECONDS: Final = 30.0
BATCH: Final = 250
"""Vectors in one request: keeps a write short, so that queries get in between."""


class VectorStore:
    """The vectors under `directory`. The process starts with the first call, or with `warm_up`."""

    def __init__(
        self,
        directory: Path,
        *,
        query_seconds: float = QUERY_SECONDS,
        start_seconds: float = START_SECONDS,
        write_seconds: float = WRITE_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.directory = directory
        self._query_seconds = query_seconds
        self._start_seconds = start_seconds
        self._write_seconds = write_seconds
        self._pause_seconds = pause_seconds
        self._worker: WorkerProcess | None = None
        self._workers: list[WorkerProcess] = []
        """All that may still run, killed ones among them: a killed process is to be waited for as well."""
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._failures = 0
        self._closed_until = 0.0

    def warm_up(self) -> None:
        """Starts the process, if it does not run, without waiting for it."""
        self._start()

    async def query(self, collections: Sequence[str], vector: Sequence[float], limit: int) -> list[tuple[str, float]]:
        """The `limit` nearest ids in `collections` with their similarities, -1 to 1, best first.

        Collections that do not exist hold nothing. Raises `RetrievalError`, after `query_seconds` at most.
        """
        if time.monotonic() < self._closed_until:
            raise RetrievalError("The vector index failed several times in a row; it is asked again soon.")
        try:
            reply, _ = await self._call(
                "query",
                {"collections": list(collections), "limit": limit},
                array("f", vector).tobytes(),
                seconds=self._query_seconds,
            )
        except (RetrievalError, DataDirError) as error:
            if self._starting is None or self._starting.done():
                self._failed()
            # Otherwise the process is still starting, which may take a while on a busy machine.
            raise error if isinstance(error, RetrievalError) else RetrievalError(str(error)) from error
        self._failures = 0
        return [(str(id_), float(similarity)) for id_, similarity in reply["hits"]]

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES:
            # Half open afterwards: one more failure closes it again at once.
            self._closed_until = time.monotonic() + self._pause_seconds
            log.warning("The vector index failed %d times in a row.", self._failures)

    async def add(
        self, collection: str, ids: Sequence[str], vectors: Iterable[bytes], *, metadata: Mapping[str, str | int]
    ) -> None:
        """Stores float32 vectors, one an id. The collection is created, with `metadata`, if it is not there."""
        data = list(vectors)
        for start in range(0, len(ids), BATCH):
            await self._write(
                "add",
                {"collection": collection, "ids": list(ids[start : start + BATCH]), "metadata": dict(metadata)},
                b"".join(data[start : start + BATCH]),
            )

    async def delete(self, collection: str, ids: Iterable[str]) -> None:
        """Removes ids; unknown ones are no error."""
        gone = list(ids)
        for start in range(0, len(gone), BATCH):
            await self._write("delete", {"collection": collection, "ids": gone[start : start + BATCH]})

    async def drop(self, collection: str) -> None:
        """Removes a collection, if it is there."""
        await self._write("drop", {"collection": collection})

    async def collections(self) -> dict[str, int]:
        """Number of vectors by collection, as Chroma counts them; it may be unable to find them all."""
        reply, _ = await self._write("collections", {})
        return {str(name): int(count) for name, count in reply["counts"].items()}

    async def ids(self, collection: str) -> set[str]:
        reply, _ = await self._write("ids", {"collection": collection})
        return set(reply["ids"])

    async def vectors(self, collection: str, ids: Sequence[str]) -> dict[str, list[float]]:
        """The stored vectors of those `ids` that are there."""
        reply, blob = await self._write("vectors", {"collection": collection, "ids": list(ids)})
        flat = array("f", blob)
        width = len(flat) // len(reply["ids"]) if reply["ids"] else 0
        return {id_: list(flat[i * width : (i + 1) * width]) for i, id_ in enumerate(reply["ids"])}

    async def close(self) -> None:
        """Ends the process; one that does not end by itself is killed."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        for worker in self._workers:
            await worker.close()
        self._workers = []
        self._worker = self._starting = None
        self._failures, self._closed_until = 0, 0.0

    async def _write(self, call: str, header: Mapping[str, Any], blob: bytes = b"") -> tuple[dict[str, Any], bytes]:
        return await self._call(call, header, blob, seconds=self._write_seconds)

    async def _call(
        self, call: str, header: Mapping[str, Any], blob: bytes, *, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        try:
            async with asyncio.timeout(seconds):
                worker = self._worker
                if worker is None or not worker.running:
                    worker = await asyncio.shield(self._start())
                return await worker.call(call, header, blob, seconds=seconds)
        except TimeoutError:
            if self._worker is not None:
                self._worker.kill_if_stuck()
            raise RetrievalError(f"The vector index did not answer within {seconds:g} s.") from None
        except WorkerFailed as error:
            raise self._explained(error) from error

    def _start(self) -> asyncio.Task[WorkerProcess]:
        """The start of the process: one for all who wait for it, and not ended by their deadlines."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._started())
            # A failure may find nobody waiting any more.
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._starting

    async def _started(self) -> WorkerProcess:
        if self._worker is not None and self._worker.running:
            return self._worker
        worker = await WorkerProcess.start(self.directory)
        self._workers = [*(other for other in self._workers if not other.ended), worker]
        try:
            async with asyncio.timeout(self._start_seconds):
                await worker.call("open", {}, b"", seconds=self._start_seconds)
        except TimeoutError:
            worker.kill()
            raise WorkerFailed("locked", "it could not be opened in time") from None
        except BaseException:
            worker.kill()
            raise
        self._worker = worker
        return worker

    def _explained(self, error: WorkerFailed) -> RetrievalError | DataDirError:
        if error.kind == "refused":
            return DataDirError(
                f"{self.directory} is refused ({error.reason}): it was changed by somebody else. "
                f"Delete {self.directory.parent} and run `threadwise ingest` again; conversations are not touched"
            )
        if error.kind == "locked":
            return RetrievalError(f"{self.directory} is locked by another program: close it, then try again")
        return RetrievalError(f"The vector index in {self.directory} failed ({error.reason}).")
