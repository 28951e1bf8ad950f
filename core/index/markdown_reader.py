"""Markdown -> title and blocks, by the tokens and line maps of markdown-it.

A block is a stretch of whole source lines: what the parser does not name goes with the block before it,
so that nothing is lost. Line breaks are never added or removed before parsing: line numbers stay true.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Final

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.index.document import Block, Kind, fenced
from core.index.html_reader import text_of_html
from core.index.hugo import reduce_shortcodes

_FRONT_MATTER_LIMIT: Final = 16_000
_FENCE_LIMIT: Final = 20
"""Longest row of backticks or tildes taken for a fence."""
_LONGEST_HEADING: Final = 1000
"""Characters; what is longer is some text behind a number sign, and stays as it is."""
_ANCHOR: Final = re.compile(r"\s{0,9}\{#[^{}\s]{0,200}\}\s{0,9}$")
_LEAVES: Final = frozenset({"paragraph_open", "heading_open", "fence", "code_block", "html_block", "hr", "table_open"})


@cache
def _parser() -> MarkdownIt:
    # Blocks are enough: inline parsing is most of the time, and link definitions would swallow lines.
    return MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])


@cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def read_markdown(text: str) -> tuple[str, list[Block]]:
    """The title of the front matter (empty if none) and the blocks of `text`."""
    title, body_line = front_matter(text)
    lines = text.split("\n")
    body = "\n".join([""] * body_line + lines[body_line:])
    return title, list(_blocks(reduce_shortcodes(body)))


def front_matter(text: str) -> tuple[str, int]:
    """Title in the YAML (`---`) or TOML (`+++`) front matter, and the number of lines it takes."""
    mark = text[:4].strip()
    if mark not in ("---", "+++") or not text.startswith(mark + "\n"):
        return "", 0
    found = re.compile(rf"^{re.escape(mark)}[ \t]*$", re.MULTILINE).search(text, 4, _FRONT_MATTER_LIMIT)
    if not found:
        return "", 0
    raw = text[4 : found.start()]
    try:
        data = yaml.safe_load(raw) if mark == "---" else tomllib.loads(raw)
    except (yaml.YAMLError, ValueError, RecursionError):
        data = None  # a slip in the front matter is no reason to lose the page
    title = data.get("title") if isinstance(data, dict) else None
    # Anything but text and numbers is not printed: an alias in YAML can unfold without end.
    readable = isinstance(title, (str, int, float))
    return (" ".join(str(title).split()) if readable else "", text.count("\n", 0, found.end()) + 1)


def plain(inline: str) -> str:
    """Text of a heading without marks, links and anchors."""
    if len(inline) > _LONGEST_HEADING:
        return inline
    tokens = _inline_parser().parseInline(inline)
    children = (tokens[0].children or []) if tokens else []
    text = "".join(
        " " if token.type in ("softbreak", "hardbreak") else token.content
        for token in children
        if token.type != "html_inline"
    )
    return " ".join(text.split())


def _blocks(text: str) -> Iterator[Block]:
    lines = text.split("\n")
    leaves = list(_leaves(_parser().parse(text)))
    starts = [_span(leaf)[0] for leaf, _ in leaves]
    first = starts[0] if starts else len(lines)
    if "".join(lines[:first]).strip():
        yield Block(kind=Kind.TEXT, text="\n".join(lines[:first]), line=1)
    for (leaf, heading), start, following in zip(leaves, starts, [*starts[1:], len(lines)], strict=False):
        if leaf.type == "heading_open" and leaf.level == 0:
            named = _heading(heading, level=int(leaf.tag[1:]), line=start + 1)
            if named.text:  # without a name it is no place to point to
                yield named
            end = _span(leaf)[1]
            block = Block(kind=Kind.TEXT, text="\n".join(lines[end:following]), line=end + 1)
        else:
            tight = start > 0 and bool(lines[start - 1].strip())
            block = _block(leaf, lines[start:following], start, tight=tight)
        if block.text.strip():
            yield block


def _span(token: Token) -> tuple[int, int]:
    assert token.map is not None
    return token.map[0], token.map[1]


def _leaves(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Tokens that hold lines themselves, one a starting line, with the content of the headings."""
    last, table_end = -1, 0
    for index, token in enumerate(tokens):
        if token.type not in _LEAVES or token.map is None or token.map[0] <= last or token.map[0] < table_end:
            continue
        last = token.map[0]
        if token.type == "table_open":
            table_end = token.map[1]
        yield token, tokens[index + 1].content if token.type == "heading_open" else ""


def _heading(content: str, *, level: int, line: int) -> Block:
    label = " ".join(_ANCHOR.sub("", content).split())
    return Block(kind=Kind.HEADING, text=plain(label) or label, line=line, level=level, label=label)


def _block(leaf: Token, lines: list[str], start: int, *, tight: bool) -> Block:
    text = "\n".join(lines).rstrip()
    kind = Kind.TEXT
    if leaf.type == "fence" and len(leaf.markup) <= _FENCE_LIMIT:
        kind, text = Kind.CODE, _closed(leaf, lines)
    elif leaf.type == "code_block":
        # As a fence it stays code wherever it is cut out and shown.
        kind, text = Kind.CODE, fenced(leaf.content)
        text += "\n" + "\n".join(line for line in lines[_span(leaf)[1] - start :] if line.strip())
    elif leaf.type == "table_open":
        kind = Kind.TABLE
    elif leaf.type == "html_block":
        text = text_of_html(text)
    elif leaf.type == "hr":
        text = "\n".join(lines[1:])
    else:
        text = _without_comments(text)
    return Block(kind=kind, text=text.rstrip(), line=start + 1, tight=tight)


def _closed(leaf: Token, lines: list[str]) -> str:
    """The lines of a fence; with a closing line if the document ends, or its list item, before one."""
    first, last = _span(leaf)
    inside = lines[: last - first]
    prefix = re.sub(r"[^\s>]", " ", lines[0][: lines[0].find(leaf.markup)])
    closing = inside[-1].strip(" \t>")
    if len(inside) < 2 or len(closing) < len(leaf.markup) or closing.strip(leaf.markup[0]):
        inside = [*inside, prefix + leaf.markup]
    return "\n".join([*inside, *(line for line in lines[last - first :] if line.strip())])


def _without_comments(text: str) -> str:
    """`text` without `<!-- ... -->`, except between backticks."""
    out: list[str] = []
    position, ticks = 0, 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        line_start = text.rfind("\n", position, start)
        ticks = text.count("`", max(line_start, position), start) + (ticks if line_start < 0 else 0)
        kept = start + 4 if ticks % 2 else start
        out.append(text[position:kept])
        position = kept if ticks % 2 else end + 3
    return "".join(out) + text[position:]
