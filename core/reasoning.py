"""What a model thinks aloud, told from what it says: the one place that knows the tags of reasoning.

Families differ in their tags, servers strip one half of a pair, and a stream may end inside of it. What
is not surely said is taken for thought: showing too little is a nuisance, showing a thought is a leak.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from core.code_spans import code_spans

MAX_CODE_LOOKS: Final = 32
"""Pieces between thoughts in which code is looked for; in a reply with more of them no tag counts as code."""

_NAME: Final = r"(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad|inner_monologue)"
_FINAL_CHANNEL: Final = r"<\|channel\|?>\s{0,8}final\b(?:\s{0,8}<\|message\|>)?"
_CLOSE: Final = (
    rf"</{_NAME}\s{{0,8}}>|<channel\|>|{_FINAL_CHANNEL}"
    r"|\[/THINK\]|◁/think▷|<unused95>|<\|(?:END_THINKING|end_of_thought)\|>"
)
_OPEN: Final = (
    rf"<{_NAME}(?:\s[^<>\n]{{0,80}})?>|<\|channel\|?>|\[THINK\]|◁think▷|<unused94>"
    r"|<\|(?:START_THINKING|begin_of_thought)\|>"
)
_TAG: Final = re.compile(rf"(?P<close>{_CLOSE}|<\|message\|>)|(?P<open>{_OPEN})", re.IGNORECASE)
_CLOSING: Final = re.compile(_CLOSE, re.IGNORECASE)
# Some servers strip the opening marker of Gemma 4's thinking and leave its name.
_BARE_NAME: Final = re.compile(r"\s*thought[ \t]*\r?\n", re.IGNORECASE)
_BARE_NAME_END: Final = "<channel|>"


class Spoken(NamedTuple):
    """A reply without its thoughts."""

    text: str
    unfinished: bool
    """Whether a thought was begun and not ended."""


def spoken(raw: str, *, final: bool = True, in_code: bool = True) -> Spoken:
    """What of `raw` is said. `final` is False while more may come.

    With `in_code` a tag inside of Markdown code is a quotation and stays: "`<think>` opens the thinking".
    """
    while header := _BARE_NAME.match(raw):
        end = raw.find(_BARE_NAME_END, header.end())
        if end < 0:
            if not final or "thought" in header.group():
                return Spoken("", True)
            break
        raw = raw[end + len(_BARE_NAME_END) :]
    kept: list[str] = []
    at = searched = 0
    code = _Code(raw) if in_code and ("`" in raw or "~~~" in raw) else None
    while tag := _TAG.search(raw, searched):
        if code is not None:
            if (end_of_code := code.end_of_span(at, tag.start())) is not None:
                searched = end_of_code
                continue
            if not final and (tick := code.open_tick(at, tag.start())) is not None:
                # The next back-tick, or the end of the line, will tell whether this is code.
                return Spoken("".join([*kept, raw[at:tick]]), False)
        if tag.group("open"):
            kept.append(raw[at : tag.start()])
            closing = _CLOSING.search(raw, tag.end())
            if closing is None:
                return Spoken("".join(kept), True)
            at = searched = closing.end()
        else:
            # An end without its beginning: the server cut the beginning off, all before it is thought.
            kept = []
            at = searched = tag.end()
    return Spoken("".join([*kept, raw[at:]]), False)


class _Code:
    """The code in the pieces of a reply between its thoughts, each looked at when it is asked for."""

    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._at = -1
        self._looks = 0
        self._spans: list[tuple[int, int]] = []

    def end_of_span(self, at: int, position: int) -> int | None:
        """Where the code that `position` is in ends, in the piece that begins at `at`."""
        spans = self._look(at)
        index = bisect_right(spans, (position, len(self._raw) + 1)) - 1
        return spans[index][1] if index >= 0 and position < spans[index][1] else None

    def open_tick(self, at: int, position: int) -> int | None:
        """Where a back-tick stands before `position`, in its line, that nothing has closed yet."""
        spans = self._look(at)
        index = bisect_right(spans, (position, len(self._raw) + 1)) - 1
        start = max(at, self._raw.rfind("\n", at, position) + 1, spans[index][1] if index >= 0 else 0)
        tick = self._raw.find("`", start, position)
        return tick if tick >= 0 and "\n" not in self._raw[position:] else None

    def _look(self, at: int) -> list[tuple[int, int]]:
        if at != self._at:
            self._at = at
            self._looks += 1
            found = code_spans(self._raw[at:]) if self._looks <= MAX_CODE_LOOKS else []
            self._spans = [(at + start, at + end) for start, end in found]
        return self._spans
