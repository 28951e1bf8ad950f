"""Standard Markdown -> Slack's mrkdwn, in which `&`, `<` and `>` are escaped and nobody is notified.

markdown-it parses; what Slack has no sign for becomes the nearest thing that it has: headings bold, tables code.
A link that is already written as Slack writes it stays one, and so does the bold text of a line that has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from wcwidth import wcswidth

from core.egress import slack_out

_LINKED: Final = ("http://", "https://", "mailto:")
_JOINT: Final = "\u200b"
"""Slack takes `*` and the like for signs only beside a blank or punctuation; this counts, and cannot be seen."""
_MARKS: Final = {"strong": "*", "em": "_", "s": "~"}
_RULE: Final = "———"
_INDENT: Final = "    "
_MOST_PADDING: Final = 4
"""A table whose columns would make it longer than this many times its text is not padded."""

_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("html_inline")


def mrkdwn(text: str) -> str:
    """`text` as Slack shows it. What was made by this function is changed no more where it only holds links."""
    out = "\n\n".join(_blocks(_PARSER.disable("html_block").parse(text)))
    return slack_out(out, lambda url: url.lower().startswith(_LINKED))


def escaped(text: str) -> str:
    """`text` as words for Slack, whatever it holds."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _blocks(tokens: Sequence[Token]) -> list[str]:
    """The blocks among `tokens`, which are whole."""
    blocks: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        end = _end(tokens, at)
        inside = tokens[at + 1 : end]
        match token.type:
            case "heading_open":
                blocks.append(_bold(_inline(inside[0].children or [], bold=True)))
            case "paragraph_open":
                blocks.append(_inline(inside[0].children or []))
            case "bullet_list_open" | "ordered_list_open":
                blocks.append(_list(token, inside))
            case "blockquote_open":
                quoted = "\n\n".join(_blocks(inside))
                blocks.append("\n".join(f"> {line}".rstrip() for line in quoted.split("\n")))
            case "fence" | "code_block":
                blocks.append(_code(token.content))
            case "table_open":
                blocks.append(_code(_table(inside)))
            case "hr":
                blocks.append(_RULE)
            case _:
                blocks.append(escaped(token.content))
        at = end + 1
    return [block for block in blocks if block.strip()]


def _end(tokens: Sequence[Token], start: int) -> int:
    """Where the block that begins at `start` ends."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += tokens[at].nesting
        if depth == 0:
            return at
    return len(tokens) - 1


def _list(token: Token, inside: Sequence[Token]) -> str:
    number = int(token.attrs.get("start", 1)) if token.type == "ordered_list_open" else None
    lines: list[str] = []
    at = 0
    while at < len(inside):
        end = _end(inside, at)
        sign = "•" if number is None else f"{number}."
        item = "\n".join(_blocks(inside[at + 1 : end])).split("\n")
        lines += [f"{sign} {item[0]}", *(f"{_INDENT}{line}" if line else "" for line in item[1:])]
        number = number + 1 if number is not None else None
        at = end + 1
    return "\n".join(lines)


def _code(content: str) -> str:
    # Slack ends a block at the next three back-ticks, wherever they stand.
    return f"```\n{escaped(content.rstrip().replace('```', f'``{_JOINT}`'))}\n```"


def _table(inside: Iterable[Token]) -> str:
    rows: list[list[str]] = []
    for token in inside:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_plain(token.children or []))
    columns = list(zip(*rows, strict=False))
    widths = [max(_width(cell) for cell in column) for column in columns]
    text = sum(len(cell) for row in rows for cell in row)
    padded = sum(widths) * len(rows) <= _MOST_PADDING * text + 200
    if not padded:
        widths = [0] * len(widths)
    lines = [_row(row, widths) for row in rows]
    if padded and lines:
        lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * max(0, width - _width(cell)) for cell, width in zip(cells, widths, strict=False)]
    return " | ".join(padded).rstrip()


def _width(cell: str) -> int:
    return max(0, wcswidth(cell))


def _plain(tokens: Iterable[Token]) -> str:
    """The words alone, as in a cell of a table."""
    pieces = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
        else:
            pieces.append(_plain(token.children) if token.type == "image" and token.children else token.content)
    return "".join(pieces)


def _inline(tokens: Sequence[Token], *, bold: bool = False) -> str:
    """Text within a line. `bold`: all of it is bold already."""
    pairs = pairwise(tokens)
    slack_form = any(link.markup == "autolink" and "|" in text.content for link, text in pairs)
    out: list[str] = []
    opened: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        kind = token.type.removesuffix("_open").removesuffix("_close")
        if kind in _MARKS:
            mark = "*" if kind == "em" and slack_form and token.markup == "*" else _MARKS[kind]
            if token.nesting == 1:
                opened.append("" if (mark == "*" and bold) or mark in opened else mark)
                _join(out, opened[-1], opening=True)
            else:
                _join(out, opened.pop(), opening=False)
        elif token.type == "link_open":
            end = next(i for i in range(at, len(tokens)) if tokens[i].type == "link_close")
            _add(out, _link(token, tokens[at + 1 : end]))
            at = end
        elif token.type == "code_inline":
            # Slack knows no other sign for code, and no way to write this one inside.
            _join(out, f"`{escaped(token.content.replace('`', 'ˋ'))}`", opening=True)
            out.append("")
        elif token.type in ("softbreak", "hardbreak"):
            _add(out, "\n")
        else:
            _add(out, escaped(_plain([token])))
        at += 1
    return "".join(out)


def _join(out: list[str], mark: str, *, opening: bool) -> None:
    """Adds a sign, told apart from the word before it where it opens."""
    if not mark:
        return
    last = "".join(out[-2:])[-1:]
    out.append(_JOINT + mark if opening and last.isalnum() else mark)
    if not opening or mark.startswith("`"):
        out.append("")


def _add(out: list[str], text: str) -> None:
    """Adds text, told apart from the sign before it if that has just closed."""
    closed = len(out) > 1 and out[-1] == ""
    out.append(_JOINT + text if closed and text[:1].isalnum() else text)


def _link(token: Token, inside: Sequence[Token]) -> str:
    url, label = str(token.attrs.get("href", "")), _plain(inside)
    if token.markup == "autolink":
        # Its text is as it was written, maybe for Slack already; its address is encoded.
        url, _, label = (part.replace("&amp;", "&") for part in label.partition("|"))
        if not url.lower().startswith(_LINKED):
            return escaped(f"<{_plain(inside)}>")
    if not url.lower().startswith(_LINKED):
        return escaped(label or url)
    url = url.replace("|", "%7C").replace(">", "%3E").replace("<", "%3C")
    label = " ".join(label.replace("|", "¦").replace("<", "‹").replace(">", "›").replace("`", "ˋ").split())
    return f"<{escaped(url)}|{escaped(label)}>" if label and label != url else f"<{escaped(url)}>"


def _bold(text: str) -> str:
    return f"*{text}*" if text and "\n" not in text else text
