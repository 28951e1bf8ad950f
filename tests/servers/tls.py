"""A server whose certificate nobody vouches for. It and its key are in `self_signed.pem`, made for these tests:

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj "/CN=127.0.0.1" \\
    -addext "subjectAltName=IP:127.0.0.1" -keyout key.pem -out certificate.pem
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

PEM: Final = Path(__file__).with_name("self_signed.pem")


@asynccontextmanager
async def self_signed() -> AsyncIterator[str]:
    """Its address, "https://127.0.0.1:PORT"."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
