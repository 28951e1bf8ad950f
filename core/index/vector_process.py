"""The process that holds the vectors, in Chroma. Run as a script by `core.index.vectors`, never imported.

Why a process: measured with chromadb 1.5.9, all its calls but `query` hold Python's global lock while they
work or wait. In a thread of the bot, an `add` of 1,000 vectors would stop the event loop for 0.7 s, and a
database file locked by another program would stop it for good, with no timeout able to fire. A process
can be waited for, and killed. It also keeps Chroma's native code, which may crash on damaged files, its
slow import and its reading of `.env` out of the bot.

Frames in both directions: length of a JSON header and of a blob (two little-endian uint32), the header,
the blob (float32 vectors). Each request gets one reply with its id. The process ends with its input.
"""

from __future__ import annotations

import faulthandler
import fcntl
import json
import os
import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

_PAGE = 1000
# With Chroma's own values (100, 100, 16), of vectors in tight groups one in five did not find itself.
_GRAPH = {"space": "cosine", "ef_construction": 200, "ef_search": 200, "max_neighbors": 32}
_GRACE = 10.0


class Refused(Exception):
    """The stored collections ask for something that must not be done."""


def check_configuration(directory: Path) -> None:
    """Raises `Refused` if a stored collection names an embedding function.

    Opening such a collection makes Chroma import and call what is named there (chroma#6717), so it is read
    here before Chroma sees it. Raises `sqlite3.Error` if the file is damaged or locked.
    """
    file = directory / "chroma.sqlite3"
    if not file.exists():
        return
    uri = f"file:{quote(str(file.absolute()))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=0.5)) as connection:
        connection.row_factory = sqlite3.Row
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = connection.execute("SELECT * FROM collections").fetchall() if "collections" in tables else []
    for row in rows:
        for column in ("config_json_str", "configuration_json_str", "schema_str"):
            stored = row[column] if column in row.keys() else None  # noqa: SIM118 - of columns, not of values
            if stored and _names_function(json.loads(stored)):
                raise Refused(f"collection {str(row['name'])[:80]!r} names an embedding function")


def _names_function(value: object) -> bool:
    """Whether an embedding function is configured anywhere in `value`; "legacy" and "unknown" mean none."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            for key, inner in current.items():
                if "embedding_function" in str(key) and inner:
                    allowed = isinstance(inner, dict) and inner.get("type") in ("legacy", "unknown")
                    if not allowed or "name" in inner or "config" in inner:
                        return True
                pending.append(inner)
        elif isinstance(current, list):
            pending.extend(current)
    return False


class Store:
    """Chroma's client and its collections. One method a request, named like it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._client: Any = None
        self._open: dict[str, Any] = {}

    def open(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Checks and opens the directory. Only here chromadb is imported."""
        check_configuration(self._directory)
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False, allow_reset=False)
        self._client = chromadb.PersistentClient(str(self._directory), settings=settings)
        for collection in self._client.list_collections():
            self._open[collection.name] = self._client.get_collection(collection.name, embedding_function=None)
        return {}, b""

    def collections(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        return {"counts": {name: collection.count() for name, collection in self._open.items()}}, b""

    def query(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """The nearest ids of the named collections with their cosine similarities, best first."""
        vectors = _vectors(blob, 1)
        hits: list[tuple[str, float]] = []
        for name in header["collections"]:
            if name in self._open:
                found = self._open[name].query(
                    query_embeddings=vectors, n_results=header["limit"], include=["distances"]
                )
                hits += zip(found["ids"][0], (1.0 - d for d in found["distances"][0]), strict=True)
        hits.sort(key=lambda hit: -hit[1])
        return {"hits": hits[: header["limit"]]}, b""

    def add(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Stores vectors under ids, in place of those that are there."""
        name = header["collection"]
        if name not in self._open:
            self._open[name] = self._client.get_or_create_collection(
                name,
                metadata=header["metadata"],
                embedding_function=None,
                configuration={"hnsw": _GRAPH},
            )
        if header["ids"]:
            self._open[name].upsert(ids=header["ids"], embeddings=_vectors(blob, len(header["ids"])))
        return {}, b""

    def delete(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Removes ids; unknown ones are no error."""
        if header["collection"] in self._open:
            self._open[header["collection"]].delete(ids=header["ids"])
        return {}, b""

    def drop(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        if self._open.pop(header["collection"], None) is not None:
            self._client.delete_collection(header["collection"])
        return {}, b""

    def ids(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """All ids of a collection."""
        found: list[str] = []
        if header["collection"] in self._open:
            while page := self._open[header["collection"]].get(include=[], limit=_PAGE, offset=len(found))["ids"]:
                found += page
        return {"ids": found}, b""

    def vectors(self, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """The stored vectors of some ids, those that are there."""
        import numpy

        if header["collection"] not in self._open:
            return {"ids": []}, b""
        found = self._open[header["collection"]].get(ids=header["ids"], include=["embeddings"])
        return {"ids": found["ids"]}, numpy.asarray(found["embeddings"], dtype="<f4").tobytes()


def _vectors(blob: bytes, count: int) -> Any:
    import numpy

    return numpy.frombuffer(blob, dtype="<f4").reshape(count, -1)


def _failure(error: BaseException) -> dict[str, str]:
    kind = "failed"
    if isinstance(error, Refused):
        kind = "refused"
    elif isinstance(error, sqlite3.Error) and "locked" in str(error):
        kind = "locked"
    return {"failure": kind, "reason": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def _read(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    prefix = stream.read(8)
    if len(prefix) < 8:
        return None
    sizes = struct.unpack("<II", prefix)
    header, blob = stream.read(sizes[0]), stream.read(sizes[1])
    return (json.loads(header), blob) if len(blob) == sizes[1] else None


def main() -> None:
    directory = Path(sys.argv[1])
    # Chroma's code may print; what it prints must not end up between the frames.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # One owner at a time: after a killed bot, the process it left behind may still be writing.
    lock = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    store = Store(directory)
    while (request := _read(sys.stdin.buffer)) is not None:
        header, blob = request
        # Stuck in native code and with nobody left to kill it, the process still ends.
        faulthandler.dump_traceback_later(header["seconds"] + _GRACE, exit=True)
        try:
            reply, data = getattr(store, header["call"])(header, blob)
        except Exception as error:  # noqa: BLE001 - every failure is the caller's to judge
            reply, data = _failure(error), b""
        faulthandler.cancel_dump_traceback_later()
        encoded = json.dumps({"id": header["id"], **reply}).encode()
        output.write(struct.pack("<II", len(encoded), len(data)) + encoded + data)
        output.flush()
    # What was acknowledged is on disk; taking Chroma apart would only take time.
    os._exit(0)


if __name__ == "__main__":
    main()
