"""Where the code is in a Markdown text: what cleaning and splitting must leave alone."""

from __future__ import annotations

import re
from typing import Final

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(?!.*`{3})", re.MULTILINE)
_TICKS: Final = re.compile(r"`+")


def code_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each fenced block and inline code span, in order; an unclosed fence runs to the end.

    Linear in the length of `text`.
    """
    spans: list[tuple[int, int]] = []
    at = 0
    for fence in _FENCE.finditer(text):
        if fence.start() < at:
            continue
        spans += _inline(text, at, fence.start())
        at = _fence_end(text, fence)
        spans.append((fence.start(), at))
    return spans + _inline(text, at, len(text))


def _fence_end(text: str, fence: re.Match[str]) -> int:
    marker = fence.group(1)
    closing = re.compile(rf"^ {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*$", re.MULTILINE)
    line_end = text.find("\n", fence.end())
    if line_end < 0:
        return len(text)
    found = closing.search(text, line_end + 1)
    return found.end() if found else len(text)


def _inline(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Inline code between `start` and `end`: a run of back-ticks up to the next run of the same length."""
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(text, start, end)]
    following: dict[int, list[int]] = {}
    for index, (left, right) in enumerate(runs):
        following.setdefault(right - left, []).append(index)
    spans = []
    index = 0
    while index < len(runs):
        left, right = runs[index]
        same = following[right - left]
        while same and same[0] <= index:
            same.pop(0)
        # A paragraph end stops a span: a lone back-tick must not swallow the rest of the answer.
        if same and "\n\n" not in text[right : runs[same[0]][0]]:
            spans.append((left, runs[same[0]][1]))
            index = same[0]
        index += 1
    return spans
