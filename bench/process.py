"""`threadwise chat` as a process of its own, and what a tree of processes holds of the memory."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from bench.scripted import MODEL

COMMAND: Final = Path(sys.executable).with_name("threadwise")
LAST_OF_HELP: Final = "Ctrl-C stops an answer"
_SECONDS: Final = 120.0
_PROC: Final = Path("/proc")


class Chat:
    """A running chat that is spoken to by its pipes."""

    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        self._process = process
        self._started = started
        self._said = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def until(self, text: str) -> float:
        """Reads on until `text` was said; how many seconds after the start that was."""
        assert self._process.stdout is not None
        async with asyncio.timeout(_SECONDS):
            while text not in self._said:
                piece = await self._process.stdout.read(65_536)
                if not piece:
                    raise RuntimeError(f"the chat ended before it said {text!r}: {self._said[-200:]}")
                self._said += piece.decode(errors="replace")
        seconds = time.perf_counter() - self._started
        self._said = self._said.partition(text)[2]
        return seconds


@asynccontextmanager
async def chat(directory: Path, settings: Mapping[str, str], *said: str) -> AsyncIterator[Chat]:
    """A chat in `directory`, with `said` in its input from the first moment on."""
    reader, writer = os.pipe()
    os.write(writer, "".join(f"{line}\n" for line in said).encode())
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "chat",
        cwd=directory,
        env=environment(directory, settings),
        stdin=asyncio.subprocess.PIPE if not said else reader,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.close(reader)
    try:
        yield Chat(process, started)
    finally:
        os.close(writer)
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.communicate(), 20)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ingested(directory: Path, settings: Mapping[str, str], *paths: Path) -> None:
    """Runs `threadwise ingest` for `paths`."""
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "ingest",
        *paths,
        cwd=directory,
        env=environment(directory, settings),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the ingest failed: {errors.decode(errors='replace')[-300:]}")


def scripted_settings(url: str) -> dict[str, str]:
    """Settings for a bot without embedded models."""
    return {
        "LLM_BASE_URL": url,
        "REWRITER": "endpoint",
        "EMBEDDING_BASE_URL": url,
        "EMBEDDING_MODEL": MODEL,
        "RETRIEVAL_MIN_SIMILARITY": "0.05",  # the scripted embedder counts words: texts that share few are far apart
    }


def environment(directory: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Nothing of our own environment but what programs need."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    return kept | {"HOME": str(directory), "DATA_DIR": str(directory / "data")} | dict(settings)


def resident_megabytes(root: int | None = None) -> dict[str, float]:
    """Resident memory of the process `root` (this one, if none is given) and all below it, in MB.

    The first is called "itself", others by their program's or script's name. Linux only.
    """
    root = os.getpid() if root is None else root
    found = {"itself": _resident(root)}
    for pid in _below(root):
        name = _name(pid)
        found[name] = found.get(name, 0.0) + _resident(pid)
    return found


def own_megabytes() -> float:
    """Resident memory of this process alone, in MB. Linux only."""
    return _resident(os.getpid())


def _below(root: int) -> list[int]:
    """The ids of all processes that descend from `root`."""
    parents = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in brackets may hold anything; the parent is the second field behind it.
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _name(pid: int) -> str:
    words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return next((Path(word).stem for word in words if word.endswith(".py")), Path(words[0]).name)


def _resident(pid: int) -> float:
    """Megabytes (of 1,000,000 bytes) of `pid` that are in memory, pages shared with others among them."""
    rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
    found = re.search(r"^Rss:\s+(\d+) kB", rollup, re.MULTILINE)
    return int(found.group(1)) * 1024 / 1e6 if found else 0.0
