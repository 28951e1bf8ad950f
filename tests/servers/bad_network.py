"""A bad line to a server: what is sent arrives late, and some of it as late as if it had been lost and sent again.

    async with bad_network(server.port) as line:
        ...                                     # everything for that server goes to `line.port`

TCP hides a lost packet: what is seen of it is a pause, while all that follows waits.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

PIECE: Final = 1400
"""Bytes of a packet."""
LATE: Final = 0.15
"""Seconds one way: 300 ms there and back."""
LOST: Final = 0.05
"""Share of the packets."""
SENT_AGAIN: Final = 0.4
"""Seconds until a lost packet is sent again."""


@dataclass
class Line:
    """One that is open."""

    port: int = 0
    pieces: int = 0
    lost: int = 0


@asynccontextmanager
async def bad_network(to_port: int, host: str = "127.0.0.1", *, seed: int = 0) -> AsyncIterator[Line]:
    """A line from a port of `host` to `to_port`."""
    rng = random.Random(seed)
    line, lines = Line(), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", to_port)
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        try:
            await asyncio.gather(_carry(reader, back, line, rng), _carry(there, writer, line, rng))
        finally:
            lines.discard(task)

    server = await asyncio.start_server(connected, host, 0)
    try:
        line.port = int(server.sockets[0].getsockname()[1])
        yield line
    finally:
        server.close()
        for task in lines:
            task.cancel()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: Line, rng: random.Random) -> None:
    loop = asyncio.get_running_loop()
    on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while True:
            at, piece = await on_its_way.get()
            await asyncio.sleep(at - loop.time())
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
        writer.close()

    arriving = asyncio.create_task(arrive())
    try:
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                lost = rng.random() < LOST
                line.pieces, line.lost = line.pieces + 1, line.lost + lost
                on_its_way.put_nowait((loop.time() + LATE + lost * SENT_AGAIN, piece))
        on_its_way.put_nowait((loop.time() + LATE, b""))
        with suppress(OSError):
            await arriving
    finally:
        arriving.cancel()
        writer.close()
