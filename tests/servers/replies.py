"""What a scripted server may answer, and the bytes that it is made of."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

Json = dict[str, Any]
Fault = Literal["", "hang", "reset", "cut", "close"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One scripted response. The defaults make a good one; each other value is a trait or a fault."""

    pieces: tuple[str | bytes | float, ...] = ("Yes.",)
    """Text becomes a content delta, bytes go out as they are, a number is a pause in seconds."""
    finish: str | None = "stop"
    usage: Literal["counted", "halved"] | Mapping[str, Any] | None = "counted"
    role: bool = True
    """Whether an event with the role comes first."""
    done: bool = True
    """Whether `[DONE]` ends the stream."""
    plain: bool = False
    """Plain JSON, although a stream was asked for."""
    chunk: int = 0
    """Bytes of each write, 0 for whole events."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes | None = None
    """The whole body, in place of pieces and finish."""
    delay: float = 0.0
    """Seconds before the headers."""
    before: Fault = ""
    """What happens in place of headers."""
    end: Fault = ""
    """What happens after the pieces, in place of finish and `[DONE]`: no more bytes, a TCP reset, a body
    without its last chunk, or a clean end of file."""
    drip: float = 0.0
    """Seconds between the comments that follow the pieces for ever; 0 for none."""

    def sound(self) -> Reply:
        """The same reply without its faults."""
        texts = tuple(piece for piece in self.pieces if isinstance(piece, str))
        return Reply(pieces=texts or ("Yes.",), plain=self.plain)


def embedding(text: str, width: int) -> list[float]:
    """A unit vector by the words of a text: texts with common words are near each other."""
    vector = [0.0] * width
    for word in re.findall(r"\w+", text.lower()) or [""]:
        vector[zlib.crc32(word.encode()) % width] += 1.0
    norm = sum(value * value for value in vector) ** 0.5
    return [value / norm for value in vector]


def choice(delta: Json, finish: str | None = None) -> Json:
    """The one choice of a chunk."""
    return {"index": 0, "delta": delta, "finish_reason": finish}


def event(value: Json) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def writer(response: web.StreamResponse, size: int) -> Callable[[bytes], Awaitable[None]]:
    """A function that writes to the response, `size` bytes at a time; 0 for all at once."""

    async def write(data: bytes) -> None:
        step = size or len(data)
        for start in range(0, len(data), step):
            await response.write(data[start : start + step])
            if size:
                await asyncio.sleep(0)

    return write


async def break_off(request: web.Request, fault: Fault) -> None:
    """Ends the connection, or never does."""
    transport = request.transport
    if fault == "hang":
        await asyncio.Event().wait()
    elif transport is not None and fault == "reset":
        # Only without lingering does closing a socket send a reset.
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    elif transport is not None:
        transport.close()
