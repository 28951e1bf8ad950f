"""One answer -> parts that fit a chat message, each of them whole Markdown.

A part ends where the text has its own joint: a paragraph, then a line, then a sentence, then a word. Code, links
and emphasis are cut only where they are longer than a message; cut code is closed in the one part and opened in
the next one, with its language. Nothing is lost: the parts joined are the text, but for white space at a cut and
for the fences that were added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from wcwidth import iter_graphemes

from core.code_spans import code_spans

LEAST: Final = 200
"""The shortest limit that can be kept: fences and their language have to fit as well."""
MAX_LANGUAGE_CHARS: Final = 20
MAX_INDENT: Final = 20
"""A block that stands further in is text: its indent would come again in each part and leave no room."""
MAX_TICKS: Final = 12
"""Longer runs of back-ticks are no code that anybody wrote."""

RESERVE: Final = MAX_TICKS + 1
"""Characters kept free in each part for a fence that closes it."""

_FENCE_LINE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(?!.*```)(.*)", re.MULTILINE)
_OPENING: Final = re.compile(r" {0,3}(`+|~+)[ \t]*([^\s`]*)")
_FENCE: Final = re.compile(r" {0,3}(?:`{3}|~{3})")
"""What would open a block at the start of a part, and did not inside its line."""
_TOGETHER: Final = re.compile(
    r"!?\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|https?://\S{1,2000}|(\*\*|__|~~)(?=\S)[^\n]{1,300}?\1"
)
_JOINTS: Final = tuple(map(re.compile, (r"\n[ \t]*\n+", r"\n", r"(?<=[.!?:;])[ \t]+|(?<=[。！？])", r"[ \t]+")))


@dataclass(frozen=True, slots=True)
class _Span:
    """What should stay in one part; `close` and `reopen` are put around a cut that cannot be avoided."""

    start: int
    end: int
    close: str = ""
    reopen: str = ""
    body: int = 0
    """Of a fenced block: where the line break behind its opening line is."""
    closing: int = 0
    """Of a fenced block: where its closing line begins."""


def split(text: str, limit: int) -> tuple[str, ...]:
    """The parts of `text`, in order, none blank and none longer than `limit` characters (at least `LEAST`).

    Lengths are in Unicode code points, as Discord and Slack count them. Takes linear time.
    """
    assert limit >= LEAST
    spans = _spans(text)
    parts: list[str] = []
    at, prefix, first = 0, "", 0
    while at < len(text):
        while first < len(spans) and spans[first].end <= at:
            first += 1
        room = limit - len(prefix)
        if len(text) - at > room or _closing(prefix + text[at:]):
            room -= RESERVE
        cut, suffix, after, again = _cut(text, at, room, spans, first)
        body = text[at:cut] if prefix else text[at:cut].lstrip("\n")
        body = body if suffix else body.rstrip()
        if body.strip():
            part = f"{prefix}{body}{suffix}"
            parts.append(part + _closing(part))
        at, prefix = after, again
    return tuple(parts)


def _closing(part: str) -> str:
    """What closes the block that `part` leaves open: an answer may break off, and a cut line may look like a fence."""
    fence = ""
    for found in _FENCE_LINE.finditer(part):
        ticks, rest = found.groups()
        if not fence:
            fence = ticks
        elif ticks.startswith(fence) and not rest.strip():
            fence = ""
    return f"\n{fence}" if 0 < len(fence) <= MAX_TICKS else ""


def _cut(text: str, at: int, room: int, spans: list[_Span], first: int) -> tuple[int, str, int, str]:
    """Where the part that begins at `at` ends and what closes it; where the next one begins and what opens it."""
    if len(text) - at <= room:
        return len(text), "", len(text), ""
    near = list(_reaching(spans, first, at + room))
    for joint in _JOINTS:
        found = [match for match in joint.finditer(text, at, at + room) if match.start() > at + room // 2]
        for match in reversed(found):
            span = next((span for span in near if span.start < match.end() and match.start() < span.end), None)
            if span is None and ("\n" in match.group() or not _FENCE.match(text, match.end())):
                return match.start(), "", match.end(), ""
    # No joint outside of what belongs together: in front of it, if that leaves a part worth sending.
    end = at + room
    span = next((span for span in near if span.start < end < span.end), None)
    if span is not None and span.start > at + room // 2:
        return span.start, "", span.start, ""
    if span is None or not span.close:
        end = _grapheme(text, at, end)
        return end, "", end, ""
    end -= len(span.close)
    line = text.rfind("\n", max(at, span.body + 1), end + 1)
    if not span.body or line <= at:
        end = _grapheme(text, at, end)
        return end, span.close, end, span.reopen
    if line + 1 == span.closing:
        return line, span.close, span.end, ""
    return line, span.close, line + 1, span.reopen


def _reaching(spans: list[_Span], first: int, end: int) -> Iterator[_Span]:
    for index in range(first, len(spans)):
        if spans[index].start >= end:
            return
        yield spans[index]


def _grapheme(text: str, at: int, end: int) -> int:
    """The last boundary of what a reader sees as one character, in (`at`, `end`]; `end` where there is none."""
    boundaries = [at]
    for grapheme in iter_graphemes(text[at : end + 1]):
        if boundaries[-1] + len(grapheme) > end:
            break
        boundaries.append(boundaries[-1] + len(grapheme))
    calm = (
        cut for cut in reversed(boundaries[1:]) if "`" not in text[cut - 1 : cut + 1] and not _FENCE.match(text, cut)
    )
    return next(calm, boundaries[-1] if len(boundaries) > 1 else end)


def _spans(text: str) -> list[_Span]:
    """What should stay together, in order, without overlap."""
    code = [_code(text, start, end) for start, end in code_spans(text)]
    spans: list[_Span] = []
    at = 0
    for span in chain(code, [_Span(len(text), len(text))]):
        spans += [_Span(found.start(), found.end()) for found in _TOGETHER.finditer(text, at, span.start)]
        spans.append(span)
        at = span.end
    return spans[:-1]


def _code(text: str, start: int, end: int) -> _Span:
    opening = _OPENING.match(text, start, end)
    if opening is None or len(opening.group(1)) > MAX_TICKS:
        return _Span(start, end)
    ticks, language = opening.groups()
    body = text.find("\n", start, end)
    on_one_line = body < 0 and end - start >= 2 * len(ticks) and text.endswith(ticks, start, end)
    if len(ticks) < 3 or on_one_line:
        return _Span(start, end, ticks, ticks)
    last_line = text.rfind("\n", start, end) + 1
    last = text[last_line:end].strip()
    closes = body >= 0 and last.startswith(ticks) and not last.strip(ticks[0])
    indent = text[text.rfind("\n", 0, start) + 1 : start]
    if len(indent) > MAX_INDENT or (indent and not (closes and indent.isspace())):
        return _Span(start, end)  # Inside a line: it could be opened again only as a block, which it does not close.
    return _Span(
        start,
        end,
        close=f"\n{indent}{ticks}",
        reopen=f"{indent}{ticks}{language[:MAX_LANGUAGE_CHARS]}\n",
        body=body if body >= 0 else end,
        closing=last_line if closes else 0,
    )
