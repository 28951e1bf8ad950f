"""What a file becomes before it is cut: a title and a row of blocks. No I/O here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    HEADING = "heading"
    TEXT = "text"
    CODE = "code"
    """A fenced code block, its two fence lines included."""
    TABLE = "table"
    """A table whose first two lines are its head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A heading, a paragraph, a code block or a table, as text."""

    kind: Kind
    text: str
    """For a heading: its readable text, without marks and links."""
    line: int = 1
    """Where it starts in the file, counted from 1."""
    level: int = 0
    """Of a heading: 1 to 6. 0 for everything else."""
    label: str = ""
    """Of a heading: its text as written, without the anchor."""
    tight: bool = False
    """True if no empty line stands between it and the block before, like in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file as it was read."""

    title: str
    source: str
    """What a citation links to, e.g. `docs/install.md`."""
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a document, small enough for the embedding model, under one heading."""

    ordinal: int
    """Position in the document, from 0."""
    heading: str
    """Heading path, "A > B"; empty above the first heading."""
    section: str
    """The last heading as written, with " (2)" where the document repeats it; empty like `heading`."""
    text: str
    line: int
    """Where it starts in the file, counted from 1."""


def fenced(code: str) -> str:
    """`code` between fences longer than any row of backticks in it."""
    longest = max((len(row) for row in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{code.rstrip()}\n{fence}"
