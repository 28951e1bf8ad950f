"""What a model says becomes what may be shown.

`Hygiene.visible` is a pure function of the raw text so far. While a reply is streaming it holds back
whatever might still turn out to be a turn marker, hidden reasoning, a link or a citation, so nothing
of these is shown even in passing, and what was shown is a beginning of what is shown later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core import words
from core.code_spans import code_spans
from core.links import held_by, without_bare_links, without_named_links
from core.reasoning import spoken
from core.sanitize import assembled
from core.types import Citation, Passage

MIN_ATTRIBUTION: Final = 0.6
"""Share of an answer's content words that a passage must hold to be named as its source."""
MIN_ATTRIBUTED_WORDS: Final = 3
HELD_CHARS: Final = 2_500
"""A tail that could still become a link or a tag is held back up to this length."""

_TURN_MARKER: Final = re.compile(
    r"</?(?:start|end)_of_turn>|<turn\|>|<\|turn>|<eos>"
    r"|<\|(?:im_start|im_end|eot_id|end|endoftext|start|user|assistant|system)\|>",
    re.IGNORECASE,
)
_OWN_TURN: Final = re.compile(
    r"\A\s*(?:<start_of_turn>\s*model|<\|turn>\s*model|<\|im_start\|>\s*assistant)[ \t]*\n", re.IGNORECASE
)
_CONTROL_TOKEN: Final = re.compile(
    r"<\|[^\s|<>]{1,40}\|?>|<[^\s|<>]{1,40}\|>|<unused\d+>|<(?:bos|pad|unk|mask)>", re.IGNORECASE
)

_CITED: Final = re.compile(r"(?:(?<![ \t])[ \t]++)?\[\^?(\d{1,3}(?:\s*[,;]\s*\^?\d{1,3})*)\](?!\()")
_SOURCE_LABELS: Final = ("sources", "references", "citations", "quellen", "bronnen", "fuentes", "fonti")
_SOURCES_LINE: Final = re.compile(
    r"^[ \t*_#>-]*(?:source|reference|citation|quelle|" + "|".join(_SOURCE_LABELS) + r")[ \t*_]*"
    r"(?::[ \t*_]*(?:\[?\d{1,3}\]?[,; \t.]*)*|[ \t]*(?:\[\d{1,3}\][,; \t.]*)+)$\n?"
    r"(?:^[ \t*-]*\[\d{1,3}\][^\n]*$\n?)*",
    re.IGNORECASE | re.MULTILINE,
)
_BLANK: Final = re.compile(r"[\s\u200b-\u200f\u2060\ufeff\u00ad]*")

# What the end of a text that is still growing might become: a tag or <link|label>, a [label] with its
# address to come, inline code.
_UNSETTLED: Final = re.compile(r"(?:<[^\s<>][^<>\n]*|<|!?\[[^\]\n]*|!?\[[^\]\n]*\](?:\([^)\n]*)?|`[^`\n]*|!)\Z")

Cited = dict[str, set[int]]
"""The sources that a text cites, in the order of their numbers, with the indexes of their passages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hygiene:
    """The rules for one reply."""

    passages: tuple[Passage, ...]
    """As they were numbered in the prompt."""
    question: str
    names: tuple[str, ...] = ()
    """Names the bot goes by: it may echo them as a label."""
    trusts_markers: bool = True
    """False for a weak model, whose citations are made from what its text was taken from, not from its word."""
    stops: tuple[str, ...] = ()
    """Texts at which a run-on begins: the prompt's own labels."""

    def visible(self, raw: str, *, final: bool) -> str:
        """What of `raw` may be shown: all of it that is clean when `final`, else what is sure already."""
        return self._numbered(raw, final=final)[0]

    def _numbered(self, raw: str, *, final: bool) -> tuple[str, Cited]:
        """What may be shown, and what it cites."""
        cited: Cited = {}
        text = self._without_echo(self._spoken(raw, final=final), final=final)
        if not final:
            text = _settled(text)
        text = _outside_code(_without_source_lines(text), lambda prose: self._clean_prose(prose, cited))
        text = assembled(text).strip()
        return ("", {}) if _BLANK.fullmatch(text) else (text, cited)

    def settle(self, raw: str, *, whole: bool = True) -> tuple[str, tuple[Citation, ...]]:
        """The reply as it may be shown, and the documents it cites, in the order of their numbers.

        Where the model set no marker in a whole reply, the passage that it was plainly taken from gets one.
        """
        text, cited = self._numbered(raw, final=True)
        if whole and not cited and (plain := self._plain_source(text)) is not None:
            cited = {self.passages[plain].source: {plain}}
            text = f"{text} [1]"
        return text, tuple(self._citation(number, own) for number, own in enumerate(cited.values(), 1))

    def _citation(self, number: int, own: set[int]) -> Citation:
        passages = [self.passages[index] for index in sorted(own)]
        headings = dict.fromkeys(passage.heading for passage in passages if passage.heading)
        first = passages[0]
        return Citation(number=number, title=first.title, source=first.source, heading="; ".join(headings))

    def _plain_source(self, text: str) -> int | None:
        """Which passage holds most of the words of `text`, if it holds enough of them."""
        said = words.stems(text)
        if len(said) < MIN_ATTRIBUTED_WORDS or not self.passages:
            return None
        shares = [len(said & words.stems(f"{p.heading} {p.text}")) / len(said) for p in self.passages]
        return shares.index(max(shares)) if max(shares) >= MIN_ATTRIBUTION else None

    def _spoken(self, raw: str, *, final: bool) -> str:
        """`raw` without reasoning, up to where the model starts to talk to itself."""
        text = _OWN_TURN.sub("", spoken(raw, final=final).text)
        ended = text.rstrip()
        if ended.endswith("</s>") and "<s>" not in ended:  # Else it is HTML: struck-out text.
            text = ended.removesuffix("</s>")
        marker = _TURN_MARKER.search(text)
        ends = [text.find(stop) for stop in self.stops if stop in text] + ([marker.start()] if marker else [])
        return text[: min(ends)] if ends else text

    def _without_echo(self, text: str, *, final: bool) -> str:
        labels = "|".join(re.escape(name) for name in (*self.names, "Bot", "Assistant", "Answer", "Model"))
        label = rf"\s*\**(?:{labels})\**\s*"
        text = re.sub(rf"\A(?:{label}:\**\s*)+", "", text, flags=re.IGNORECASE)
        # While the colon may still come, the name alone is not shown either.
        return "" if not final and re.fullmatch(label, text, re.IGNORECASE) else text

    def _clean_prose(self, prose: str, cited: Cited) -> str:
        # Addresses last: what is taken out before must not join two halves of one.
        may_link = held_by(self.question, *(p.text for p in self.passages), *(p.source for p in self.passages))
        prose = without_named_links(_CONTROL_TOKEN.sub("", prose), may_link)
        prose = _CITED.sub(lambda match: self._marker(match, cited), prose)
        return without_bare_links(prose, may_link, "`{}`".format)

    def _marker(self, match: re.Match[str], cited: Cited) -> str:
        if not self.trusts_markers:
            return ""
        given = [int(number) - 1 for number in re.findall(r"\d+", match.group(1))]
        sources = {}
        for index in given:
            if 0 <= index < len(self.passages):
                source = self.passages[index].source
                cited.setdefault(source, set()).add(index)
                sources[source] = list(cited).index(source) + 1
        space = " " if sources and match.group()[0] in " \t" else ""
        return space + "".join(f"[{number}]" for number in sources.values())


def repeats(text: str) -> int:
    """How many characters at the end of `text` only say a second and third time what stands before them."""
    for period in range(8, min(240, len(text) // 3) + 1):
        unit = text[-period:]
        if unit == text[-2 * period : -period] == text[-3 * period : -2 * period] and unit.strip():
            return 2 * period
    return 0


def _without_source_lines(text: str) -> str:
    """Source lists are built by code from what is cited; the model's own is dropped."""
    spans = code_spans(text)

    def drop(match: re.Match[str]) -> str:
        return match.group() if any(a < match.end() and match.start() < b for a, b in spans) else ""

    return _SOURCES_LINE.sub(drop, text)


def _outside_code(text: str, clean: Callable[[str], str]) -> str:
    pieces = []
    at = 0
    for start, end in code_spans(text):
        pieces += [clean(text[at:start]), text[start:end]]
        at = end
    return "".join([*pieces, clean(text[at:])])


def _settled(text: str) -> str:
    """`text` without a tail that more text could still change."""
    if text and not text[-1].isspace():
        text = text[: -len(text.rsplit(maxsplit=1)[-1])]
    while (held := _UNSETTLED.search(text, max(0, len(text) - HELD_CHARS))) is not None:
        text = text[: held.start()]
    start = text.rfind("\n") + 1
    line = text[start:].lstrip(" \t*_#>-").casefold()
    if line and any(line.startswith(label[:6]) or label.startswith(line.rstrip()) for label in _SOURCE_LABELS):
        text = text[:start]
    return text
