"""Lines from a pipe or a file, read beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import AsyncGenerator
from typing import Final, TextIO

from core.errors import ThreadwiseError

LINES_AHEAD: Final = 16
"""Read before they are asked for; whoever writes more has to wait."""
LONGEST_LINE: Final = 100_000
"""Characters; the rest of a longer line is passed over."""


async def piped_lines(stdin: TextIO) -> AsyncGenerator[str]:
    """The lines of `stdin` without blanks around them, until its end; what cannot be decoded is replaced.

    May be left at any time, even while `stdin` stays open and silent. Raises `ThreadwiseError` if it cannot be read.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | OSError] = asyncio.Queue(LINES_AHEAD)

    def read() -> None:
        # The loop may be gone when a line comes: then nobody wants it.
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):
            line: str | OSError = "more"
            while line and isinstance(line, str):
                try:
                    line = _line(source)
                except OSError as error:
                    line = error
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    source = _unlocked(stdin)
    # No thread of the executor: asyncio waits for those at the end, and a read that has begun cannot be ended.
    threading.Thread(target=read, name="standard input", daemon=True).start()
    while line := await lines.get():
        if isinstance(line, OSError):
            raise ThreadwiseError(f"Standard input cannot be read: {line.strerror}.") from line
        yield line.strip()


def _unlocked(stdin: TextIO) -> TextIO:
    """The same file without a buffer's lock: one that a daemon thread holds aborts the interpreter at its end."""
    try:
        descriptor = stdin.fileno()
    except OSError:  # no file of the system's
        return stdin
    return io.TextIOWrapper(io.FileIO(descriptor, closefd=False), encoding=stdin.encoding, errors="replace")


def _line(source: TextIO) -> str:
    """With its end; empty at the end of the file."""
    line = rest = source.readline(LONGEST_LINE)
    while len(rest) == LONGEST_LINE and not rest.endswith("\n"):
        rest = source.readline(LONGEST_LINE)
    return line
