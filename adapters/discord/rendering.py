"""An answer as Discord messages: Markdown in parts, the sources and the buttons on the last one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import discord

from adapters.markdown.splitting import split
from adapters.present import remarks
from core.egress import discord_out
from core.sanitize import label
from core.types import Answer, Citation, titled

LIMIT: Final = 2000
"""Characters of a message."""
MOST_SOURCES: Final = 10
GROWING: Final = "\n-# … still writing"
BLANK: Final = "I have no answer to that."
PREFIX: Final = "tw"
"""Of the ids of our buttons: "tw:what:key"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One message of ours in the end."""

    content: str
    buttons: tuple[str, ...] = ()
    """Keys of `BUTTONS`."""
    notice: bool = False
    """Whether it says that there is no answer."""

    def dumped(self) -> str:
        """As the outbox keeps it."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def loaded(cls, text: str) -> Body:
        kept = json.loads(text)
        # An older version stored no such mark.
        return cls(content=kept["content"], buttons=tuple(kept["buttons"]), notice=kept.get("notice", False))


BUTTONS: Final = {
    "yes": ("Helpful", "👍"),
    "no": ("Not helpful", "👎"),
    "query": ("Show query", "🔎"),
    "again": ("Try again", "🔁"),
    "exact": ("Search my exact words", "🔤"),
    "stop": ("Stop", "⏹️"),
}
WORKING: Final = ("stop",)


def bodies(answer: Answer) -> Sequence[str]:
    """The messages that show `answer`, as the outbox keeps them."""
    text = safe(answer.text).strip() or BLANK
    parts = [*split(text, LIMIT)] or [BLANK]
    tail = "\n".join([*_remarks(answer), *_sources(answer.citations)])
    if tail:
        joined = f"{parts[-1]}\n\n{tail}"
        parts = [*parts[:-1], joined] if len(joined) <= LIMIT else [*parts, *split(tail, LIMIT)]
    buttons = ("query", "again") if answer.stand_in else ("yes", "no", "query", "again")
    last = parts.pop()
    bodies = [Body(content=part, notice=answer.stand_in) for part in parts]
    return [body.dumped() for body in (*bodies, Body(content=last, buttons=buttons, notice=answer.stand_in))]


def waiting(text: str) -> str:
    """A word about what is going on."""
    return f"-# {safe(text)}"


def growing(text: str) -> Sequence[str]:
    """The messages that show an answer that is being written, as `Body`s: split where the final one will be."""
    *whole, last = split(safe(text), LIMIT) or (waiting("…"),)
    last += GROWING if len(last) + len(GROWING) <= LIMIT else ""
    bodies = [Body(content=part) for part in whole] + [Body(content=last, buttons=WORKING)]
    return [body.dumped() for body in bodies]


def safe(text: str) -> str:
    """Without live mentions. Which links may be live was decided where the sources and the question were known."""
    return discord_out(text, lambda url: True)


def view(buttons: Sequence[str], key: str) -> discord.ui.View | None:
    """The buttons; who presses them is told from their ids, also after a restart."""
    if not buttons:
        return None
    shown = discord.ui.View(timeout=None)
    for name in buttons:
        text, emoji = BUTTONS[name]
        shown.add_item(
            discord.ui.Button(
                label=text, emoji=emoji, custom_id=f"{PREFIX}:{name}:{key}", style=discord.ButtonStyle.secondary
            )
        )
    # discord.py would keep each view for ever, to call it.
    shown.stop()
    return shown


def sources(citations: Sequence[Citation]) -> list[str]:
    """A line a source."""
    return [_source(citation) for citation in citations[:MOST_SOURCES]]


def _sources(citations: Sequence[Citation]) -> list[str]:
    return ["**Sources**", *sources(citations)] if citations else []


def _source(citation: Citation) -> str:
    title = safe(discord.utils.escape_markdown(label(titled(citation.title, citation.heading)) or "source"))
    if citation.source.startswith(("https://", "http://")):
        address = "".join(char for char in citation.source if char not in "<>() \n")
        return f"[{citation.number}] [{title.replace('[', '(').replace(']', ')')}](<{address}>)"
    return f"[{citation.number}] {title} (`{label(citation.source).replace('`', '')}`)"


def _remarks(answer: Answer) -> list[str]:
    return [f"-# {safe(line)}" for line in remarks(answer)]
