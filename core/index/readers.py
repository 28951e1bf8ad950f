"""A file -> `Document`. What cannot be read is an `IngestError` with a reason in a few words."""

from __future__ import annotations

import codecs
import stat
from pathlib import Path
from typing import Final

from core.errors import IngestError
from core.index.document import Block, Document, Kind
from core.index.html_reader import read_html
from core.index.markdown_reader import read_markdown

MARKDOWN: Final = frozenset({".md", ".markdown", ".mdx"})
HTML: Final = frozenset({".html", ".htm"})
TEXT: Final = frozenset({".txt", ".text", ".rst"})
SUFFIXES: Final = MARKDOWN | HTML | TEXT
"""What is read inside a folder, in any case of letters."""
LARGEST: Final = 10_000_000
"""Bytes."""
_LONGEST_TITLE: Final = 200


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of at most `LARGEST` bytes. Raises `IngestError`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise IngestError("not a regular file")
        if status.st_size > LARGEST:
            raise IngestError(f"larger than {LARGEST // 1_000_000} MB")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)  # it may have grown since
    except OSError as error:
        raise IngestError((error.strerror or type(error).__name__).lower()) from None
    if len(data) > LARGEST:
        raise IngestError(f"larger than {LARGEST // 1_000_000} MB")
    return data


def parse(data: bytes, *, source: str) -> Document:
    """The document in `data`, by the suffix of `source`. Raises `IngestError`."""
    name = source.rpartition("/")[2]
    suffix = Path(name).suffix.lower()
    text = decode(data)
    if suffix in MARKDOWN:
        title, blocks = read_markdown(_without_imports(text) if suffix == ".mdx" else text)
    elif suffix in HTML:
        title, blocks = read_html(text)
    elif suffix in TEXT:
        title, blocks = "", paragraphs(text)
    else:
        raise IngestError("not Markdown, HTML or text")
    if not any(block.text.strip() for block in blocks):
        raise IngestError("empty")
    heading = next((block.text for block in blocks if block.kind is Kind.HEADING), "")
    title = (title or heading or _name(source))[:_LONGEST_TITLE].strip()
    return Document(title=title, source=source, blocks=tuple(blocks))


def decode(data: bytes) -> str:
    """`data` as text with `\\n` line ends: UTF-8, or UTF-16 with a byte order mark. Raises `IngestError`."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise IngestError("binary" if b"\0" in data else "not UTF-8 text") from None
    if "\0" in text:
        raise IngestError("binary")
    if not text.strip():
        raise IngestError("empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def paragraphs(text: str) -> list[Block]:
    """The blocks of plain text: what stands between empty lines."""
    blocks: list[Block] = []
    held: list[str] = []
    start = 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            start = start if held else number
            held.append(line)
        elif held:
            blocks.append(Block(kind=Kind.TEXT, text="\n".join(held), line=start))
            held = []
    return blocks


def _without_imports(text: str) -> str:
    """MDX without the lines that import components; line numbers stay."""
    return "\n".join(
        "" if line.startswith(("import ", "export ")) and " from " in line else line for line in text.split("\n")
    )


def _name(source: str) -> str:
    """A title for a page without one: the file's name, or its folder's if that says nothing."""
    *folders, name = source.split("/")
    stem = name.rpartition(".")[0] or name
    return folders[-1] if folders and stem.lower() in ("index", "_index", "readme") else stem
