"""Text files that come with a question, read up to a cap; the same on every platform."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import httpx

from core import certificate

log = logging.getLogger(__name__)

MOST_FILES: Final = 3
CAP: Final = 64_000
"""Bytes of a file that are read; the pipeline takes a part of that, and says so."""
SECONDS: Final = 10.0
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")
_TEXT_ENDS: Final = tuple(
    f".{end}"
    for end in "txt log md rst csv tsv json jsonl yaml yml toml ini cfg conf xml html sh bat ps1 py js ts go rs c h "
    "cpp hpp java kt rb php pl sql css tf env dockerfile diff patch out err".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """As the platform tells of it. All of it is untrusted."""

    name: str
    url: str
    content_type: str
    """Empty: not told."""


def is_text(file: File) -> bool:
    """Whether it is worth reading."""
    kind = file.content_type.lower()
    return (
        kind.startswith(_TEXT_TYPES)
        or (not kind and file.name.lower().endswith(_TEXT_ENDS))
        or (kind.startswith("application/octet-stream") and file.name.lower().endswith(_TEXT_ENDS))
    )


async def with_files(
    text: str,
    files: Collection[File],
    hosts: Collection[str],
    headers: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, tuple[str, ...]]:
    """`text` with what the text files among `files` hold, and the names of the others.

    Only files on `hosts` ("host" or "host:port") are asked for, `headers` go there alone, and no redirect is followed.
    """
    pieces, unread = [text] if text else [], []
    wanted = [file for file in files if is_text(file) and _is_on(file.url, hosts)][:MOST_FILES]
    async with httpx.AsyncClient(
        verify=certificate.context(), trust_env=False, follow_redirects=False, timeout=SECONDS, headers=headers
    ) as client:
        for file in files:
            held = await _held(client, file) if file in wanted else None
            if held is None:
                unread.append(file.name)
            elif held.strip():
                pieces.append(f"{file.name}:\n{held}" if text else held)
    return "\n\n".join(pieces), tuple(unread)


def _is_on(url: str, hosts: Collection[str]) -> bool:
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return False
    return parts.netloc.decode() in hosts and not parts.userinfo


def _is_page(response: httpx.Response, file: File) -> bool:
    """Whether it is a page about the file and not the file: Slack shows its login to whoever may not read it."""
    if not response.headers.get("content-type", "").lower().startswith("text/html"):
        return False
    is_html = "html" in file.content_type.lower() or file.name.lower().endswith((".html", ".htm"))
    return not is_html or "attachment" not in response.headers.get("content-disposition", "").lower()


async def _held(client: httpx.AsyncClient, file: File) -> str | None:
    """The text; None if it is none, or cannot be had."""
    data = b""
    try:
        async with asyncio.timeout(SECONDS), client.stream("GET", file.url) as response:
            if response.status_code != httpx.codes.OK or _is_page(response, file):
                return None
            async for piece in response.aiter_raw():
                data += piece
                if len(data) >= CAP:
                    break
    except (httpx.HTTPError, TimeoutError, OSError) as error:
        log.info("An attached file could not be read: %s", type(error).__name__)
        return None
    data = data[:CAP]
    return None if b"\x00" in data else data.decode("utf-8", "replace")
