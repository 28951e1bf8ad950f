"""Addresses in what a model says: live where a source or the question holds them, plain text elsewhere.

A chat platform fetches an address to preview it, without anybody's click. So a model that was talked into
writing one must not be able to carry anything out: no images, and no link that it made up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

MayLink = Callable[[str], bool]
"""Whether an address may be live."""

REMOVED_LINK: Final = "(link removed)"

_URL_CHARS: Final = r"[^\s<>\[\](){}\"'`|]"
_URL_TAIL: Final = ".,;:!?*_"
_SCHEME: Final = r"[a-z][a-z0-9+.-]{1,20}:[/\\]{1,3}"
# Possessive throughout: what does not end as a link is given up at once, not shortened sign by sign.
_IMAGE: Final = re.compile(
    r"!\[([^\]\n]{0,300}+)\](?:\([^)\n]{0,2000}+\)|\[[^\]\n]{0,100}+\])|<img\b[^>]{0,2000}+>", re.IGNORECASE
)
_MARKDOWN_LINK: Final = re.compile(
    r"\[([^\]\n]{0,300}+)\]\(\s{0,20}+<?((?:[^()\s>][^)\s>]{0,1999}+)?)>?(?:\s[^)\n]{0,300}+)?\)"
)
_SLACK_LINK: Final = re.compile(
    rf"<((?:{_SCHEME}|(?:mailto|tel|data|javascript):|[/\\]{{2}})[^\s<>|]{{0,2000}}+)\|([^<>\n]{{0,300}}+)>",
    re.IGNORECASE,
)
_BARE_URL: Final = re.compile(
    rf"<?(?:{_SCHEME}|(?<![^\W_])www\.){_URL_CHARS}++>?|(?<![:\w/\\])[/\\]{{2}}[\w-]++\.{_URL_CHARS}++", re.IGNORECASE
)
_BARE_HOST: Final = re.compile(
    rf"(?<![\w@/.:`-])(?:[\w-]{{1,63}}\.){{1,6}}[a-z]{{2,12}}[/?]{_URL_CHARS}*+", re.IGNORECASE
)
# Without one of these there is no address, and each piece of an answer is looked through.
_WORTH_LOOKING: Final = re.compile(r"[:/\\][/\\]|www\.", re.IGNORECASE)

# What makes an address a part of another: "docs.example.co" in "mydocs.example.com", a host in a longer one's name.
_GOES_ON_BEFORE: Final = re.compile(r"[\w.@-]")
_GOES_ON: Final = re.compile(r"[\w@-]|[.:]\w")


def no_link(url: str) -> bool:
    """No address may be live."""
    return False


def held_by(*texts: str) -> MayLink:
    """An address may be live if one of `texts` holds this very address."""

    def may_link(url: str) -> bool:
        address = url.strip("<>").rstrip(_URL_TAIL).removesuffix("/")
        return bool(address) and any(_stands_in(address, text) for text in texts)

    return may_link


def without_named_links(prose: str, may_link: MayLink) -> str:
    """`prose` with images as their description, and with each link that may not be live as its label."""
    prose = _IMAGE.sub(lambda m: m.group(1) or "", prose)
    prose = _SLACK_LINK.sub(lambda m: m.group() if may_link(m.group(1)) else m.group(2), prose)
    return _MARKDOWN_LINK.sub(lambda m: m.group() if may_link(m.group(2)) else m.group(1), prose)


def without_bare_links(prose: str, may_link: MayLink, write_host: Callable[[str], str]) -> str:
    """`prose` without the addresses that may not be live; one without a scheme stays, as `write_host` writes it."""

    def bare_url(match: re.Match[str]) -> str:
        url = match.group().strip("<>")
        return match.group() if may_link(url) else REMOVED_LINK + url[len(url.rstrip(_URL_TAIL)) :]

    if _WORTH_LOOKING.search(prose):
        prose = _BARE_URL.sub(bare_url, prose)
    if "/" not in prose and "?" not in prose:
        return prose
    return _BARE_HOST.sub(lambda m: m.group() if may_link(m.group()) else write_host(m.group()), prose)


def _stands_in(address: str, text: str) -> bool:
    """Whether `text` holds `address`, and not only as a part of another one's name."""
    at = text.find(address)
    while at >= 0:
        end = at + len(address)
        if not (_GOES_ON_BEFORE.match(text[max(0, at - 1) : at]) or _GOES_ON.match(text[end : end + 2])):
            return True
        at = text.find(address, at + 1)
    return False
