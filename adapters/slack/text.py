"""What somebody typed on Slack -> what a person would read: entities decoded once, links and mentions readable."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

Name = Callable[[str], Awaitable[str]]
"""From the id of a user or channel to its name, without `@` or `#`."""

_MARKUP: Final = re.compile(r"<([^<>\n]*)>")
_ENTITY: Final = re.compile(r"&(amp|lt|gt);")
_SIGNS: Final = {"amp": "&", "lt": "<", "gt": ">"}
_USER: Final = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")


def mentioned(text: str) -> list[str]:
    """The ids of the people that are mentioned, in order."""
    return _USER.findall(text)


async def readable(text: str, me: str, user: Name, channel: Name) -> str:
    """`text` as it reads, without mentions of the bot, whose id is `me`."""
    text = _without(text, me)
    pieces: list[str] = []
    at = 0
    for found in _MARKUP.finditer(text):
        pieces += [decoded(text[at : found.start()]), await _read(found.group(1), user, channel)]
        at = found.end()
    return "".join([*pieces, decoded(text[at:])]).strip()


def decoded(text: str) -> str:
    """The three entities that Slack writes, decoded once."""
    return _ENTITY.sub(lambda found: _SIGNS[found.group(1)], text)


def _without(text: str, me: str) -> str:
    """One blank or none is left where a mention was."""
    mention = rf"<@{re.escape(me)}(?:\|[^<>]*+)?>"
    text = re.sub(rf"^[ \t]*+(?:{mention}[ \t]*+(?:[,:][ \t]*+)?)+", "", text, flags=re.MULTILINE)
    return re.sub(rf"(?<![ \t])[ \t]*+{mention}(?=[ \t.,;:!?)]|$)|{mention}", "", text, flags=re.MULTILINE)


async def _read(markup: str, user: Name, channel: Name) -> str:
    target, bar, label = markup.partition("|")
    label = decoded(label)
    kind, id_ = target[:1], target[1:]
    if kind == "@":
        return f"@{label.lstrip('@') or await user(id_)}"
    if kind == "#":
        return f"#{label.lstrip('#') or await channel(id_)}"
    if kind == "!":
        # Broadcasts, groups, dates.
        return label or f"@{id_.split('^')[0]}"
    address = decoded(target)
    if not bar or label in (address, address.removeprefix("mailto:")):
        return address.removeprefix("mailto:")
    return f"{label} ({address})"
