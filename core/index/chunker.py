"""Blocks -> chunks: each under one heading, small enough for the embedding model. Pure.

A chunk never reaches over a heading, so that the heading path in its citation is true of all of it. A
code block is cut only if it is over the limit by itself; each part then has its fences again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from markdown_it import MarkdownIt

from core.index.document import Block, Chunk, Document, Kind

VERSION: Final = 1
"""Part of each document's hash: a new number makes the next ingest cut everything again."""
TARGET: Final = 1000
"""Characters of a usual chunk: some 250 tokens of English, 400 of code."""
LIMIT: Final = 1600
"""Characters of the longest one: 400 tokens of English; the embedding model takes 512."""
SMALL: Final = 300
"""A chunk shorter than this takes in what follows, up to the limit."""
_TELLING: Final = 5
"""Words of a heading that may be an answer by itself ("No refunds after thirty days")."""
_LONGEST_HEADING: Final = 150
_LONGEST_PATH: Final = 400
_LONGEST_HEAD: Final = 200
"""A table's or code block's first lines are repeated in its parts up to this length."""
_ESCAPES: Final = 20
"""Characters kept free in a chunk for what `_balanced` may add."""


def chunk(document: Document) -> list[Chunk]:
    """The chunks of `document` in order; every word of it is in the text or the heading of one of them.

    Except a short heading with nothing under it, which answers nothing and is found for everything: leaving
    those out took Recall@5 of the vectors from 0.711 to 0.740 (k8s-followups, gold rewrites).
    """
    chunks: list[Chunk] = []
    sections = [section for section in _sections(document) if section.blocks]
    telling = [section for section in sections if not section.bare or len(section.label.split()) >= _TELLING]
    for section in telling or sections:
        for blocks in _packed([part for block in section.blocks for part in _parts(block)]):
            chunks.append(
                Chunk(
                    ordinal=len(chunks),
                    heading=section.heading,
                    section=section.label,
                    text=_balanced(_joined(blocks)),
                    line=blocks[0].line,
                )
            )
    return chunks


@dataclass(slots=True)
class _Section:
    heading: str
    label: str
    level: int
    blocks: list[Block]
    bare: bool = False
    """A heading and nothing else."""


def _sections(document: Document) -> Iterator[_Section]:
    path: list[Block] = []
    seen: dict[str, int] = {}
    section = _Section("", "", 0, [])
    for block in document.blocks:
        if block.kind is not Kind.HEADING:
            section.blocks.append(block)
            continue
        if section.blocks or not section.label or block.level <= section.level:
            yield _with_text(section, path)
        path = [above for above in path if above.level < block.level] + [block]
        seen[block.label] = seen.get(block.label, 0) + 1
        label = block.label if seen[block.label] == 1 else f"{block.label} ({seen[block.label]})"
        section = _Section(_heading_path(path, document.title), label, block.level, _overlong(block))
    yield _with_text(section, path)


def _with_text(section: _Section, path: list[Block]) -> _Section:
    """`section`; one that is a heading and nothing else gets its heading as its text."""
    if section.label and not section.blocks:
        section.blocks.append(replace(path[-1], kind=Kind.TEXT))
        section.bare = True
    return section


def _heading_path(path: Sequence[Block], title: str) -> str:
    names = [heading.text[:_LONGEST_HEADING] for heading in path]
    if len(names) > 1 and names[0] == title:
        names = names[1:]  # the title is named beside the path anyway
    while len(names) > 1 and len(" > ".join(names)) > _LONGEST_PATH:
        names.pop(0)
    return " > ".join(names)


def _overlong(heading: Block) -> list[Block]:
    """A heading that does not fit into the path in full is text as well."""
    return [replace(heading, kind=Kind.TEXT)] if len(heading.text) > _LONGEST_HEADING else []


def _packed(blocks: Sequence[Block]) -> list[list[Block]]:
    """`blocks` in groups of about `TARGET` characters, none over `LIMIT`."""
    groups: list[list[Block]] = []
    group: list[Block] = []
    size = 0
    for block in blocks:
        length = len(block.text) + 2
        if group and size + length > (LIMIT - _ESCAPES if size < SMALL else TARGET):
            carried = _introduction(group, length)
            groups.append(group[: len(group) - len(carried)])
            group, size = carried, sum(len(kept.text) + 2 for kept in carried)
        group.append(block)
        size += length
    if group:
        groups.append(group)
    if len(groups) > 1 and _size(groups[-1]) < SMALL and _size(groups[-2]) + _size(groups[-1]) <= LIMIT - _ESCAPES:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _size(group: Sequence[Block]) -> int:
    return sum(len(block.text) + 2 for block in group)


def _introduction(group: list[Block], following: int) -> list[Block]:
    """The last block of `group` if it only introduces what follows ("Run this:"), and goes with it."""
    last = group[-1]
    fits = len(last.text) < SMALL and len(last.text) + 2 + following <= LIMIT - _ESCAPES
    return [last] if len(group) > 1 and fits and last.text.rstrip().endswith(":") else []


def _joined(blocks: Sequence[Block]) -> str:
    """The text of `blocks`, without the indentation of the list that they were cut out of."""
    out: list[str] = []
    base = 1000
    for block in blocks:
        lines = block.text.split("\n")
        base = min(base, min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=base))
        if out:
            out.append("\n" if block.tight else "\n\n")
        out.append("\n".join(line[base:] if line[:base].isspace() else line for line in lines))
    return "".join(out).strip("\n")


def _parts(block: Block) -> Iterator[Block]:
    """`block` itself, or if it is over the limit, parts of about `TARGET` characters."""
    if len(block.text) <= LIMIT - _ESCAPES:
        yield block
        return
    lines = block.text.split("\n")
    head, tail = "", ""
    if block.kind is Kind.CODE:
        head, tail, lines = lines[0], lines[-1], lines[1:-1]
        if len(head) > _LONGEST_HEAD:
            head, lines = tail, [head, *lines]
    elif block.kind is Kind.TABLE and len(lines[0]) + len(lines[1]) < _LONGEST_HEAD * 2:
        head, lines = "\n".join(lines[:2]), lines[2:]
    for offset, text in _cut(lines, TARGET - len(head) - len(tail)):
        whole = "\n".join(piece for piece in (head, text, tail) if piece)
        yield replace(block, text=whole, line=block.line + offset, tight=False)


def _cut(lines: Sequence[str], room: int) -> Iterator[tuple[int, str]]:
    """(line offset, text) of stretches of `lines` of at most `room` characters each."""
    held: list[str] = []
    size, start = 0, 0
    for number, line in enumerate(lines):
        for piece in _cut_line(line, room):
            if held and size + len(piece) + 1 > room:
                yield start, "\n".join(held)
                held, size, start = [], 0, number
            held.append(piece)
            size += len(piece) + 1
    if held:
        yield start, "\n".join(held)


def _cut_line(line: str, room: int) -> Iterator[str]:
    """`line` in pieces of at most `room`: after a sentence, else at a space, else anywhere."""
    position = 0
    while len(line) - position > room:
        end = max(line.rfind(mark, position + room // 2, position + room) for mark in (". ", "? ", "! ", "。"))
        if end < 0:
            end = line.rfind(" ", position + room // 2, position + room)
        end = end + 1 if end >= 0 else position + room
        yield line[position:end].rstrip()
        position = end
    yield line[position:]


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])


def _balanced(text: str) -> str:
    """`text` with a backslash before each fence that nothing closes, or it would swallow what follows."""
    for _ in range(5):
        if "```" not in text and "~~~" not in text:
            return text
        lines = text.split("\n")
        stray = False
        for token in _parser().parse(text):
            if token.type != "fence" or token.map is None:
                continue
            first, last = token.map
            closing = lines[min(last, len(lines)) - 1].strip(" \t>")
            if last - first < 2 or len(closing) < len(token.markup) or closing.strip(token.markup[0]):
                lines[first] = lines[first].replace(token.markup, "\\" + token.markup, 1)
                stray = True
        text = "\n".join(lines)
        if not stray:
            return text
    return text.replace("```", "\\```").replace("~~~", "\\~~~")[:LIMIT]
