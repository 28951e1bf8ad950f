"""A running `vector_process`, asked from the event loop: requests out, replies in, both as frames."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.index.database import make_directory

SCRIPT: Final = Path(__file__).with_name("vector_process.py")
GONE: Final = "its process ended"
_CLOSE_SECONDS: Final = 5.0


class WorkerFailed(Exception):
    """What the process answered instead of a result, or that it is gone. Stays inside `core.index`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        """"refused", "locked", "failed" or "gone"."""
        self.reason = reason


@dataclass(slots=True)
class _Pending:
    reply: asyncio.Future[tuple[dict[str, Any], bytes]]
    due: float
    """On the monotonic clock."""


class WorkerProcess:
    """Requests are answered in the order in which they were made."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, directory: Path) -> WorkerProcess:
        """Starts the process for `directory`, which is created."""
        make_directory(directory)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(directory),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=directory,  # Chroma reads `.env` where it is started
            # Neither settings for Chroma nor our secrets. The safe path leaves out the script's own folder.
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # Ctrl-C in the terminal is for the chat
        )
        return cls(process)

    @property
    def running(self) -> bool:
        return not self._reader.done() and self._process.returncode is None

    @property
    def ended(self) -> bool:
        """True when the process is gone and was waited for."""
        return self._process.returncode is not None

    async def call(
        self, call: str, header: Mapping[str, Any], blob: bytes, *, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """The reply to one request. Raises `WorkerFailed`; waits as long as the caller does."""
        if not self.running or self._process.stdin is None:
            raise WorkerFailed("gone", GONE)
        self._last_id += 1
        encoded = json.dumps({**header, "call": call, "id": self._last_id, "seconds": seconds}).encode()
        reply: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = _Pending(reply, time.monotonic() + seconds)
        # One write, so that a cancelled caller leaves no half of a frame behind.
        self._process.stdin.write(struct.pack("<II", len(encoded), len(blob)) + encoded + blob)
        with suppress(ConnectionError):  # the reader notices as well
            await self._process.stdin.drain()
        result, data = await reply
        if "failure" in result:
            raise WorkerFailed(result["failure"], result["reason"])
        return result, data

    def kill_if_stuck(self) -> None:
        """Kills the process if the request it works on is overdue. One that only waits behind a slow one is not."""
        first = next(iter(self._pending.values()), None)
        if first is not None and time.monotonic() >= first.due - 0.01:
            self.kill()

    def kill(self) -> None:
        """Ends the process at once. What it had acknowledged is on disk."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """Lets the process finish and end; after some seconds it is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _CLOSE_SECONDS)
        except TimeoutError:
            self.kill()
            await self._process.wait()
        await asyncio.wait({self._reader})

    async def _read(self) -> None:
        output = self._process.stdout
        assert output is not None
        try:
            while True:
                sizes = struct.unpack("<II", await output.readexactly(8))
                header = json.loads(await output.readexactly(sizes[0]))
                blob = await output.readexactly(sizes[1])
                pending = self._pending.pop(header.pop("id"), None)
                if pending is not None and not pending.reply.done():
                    pending.reply.set_result((header, blob))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for pending in self._pending.values():
                if not pending.reply.done():
                    pending.reply.set_exception(WorkerFailed("gone", GONE))
                    pending.reply.exception()  # its caller may have given up
            self._pending.clear()
