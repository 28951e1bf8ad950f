"""The last look at a text on its way to a chat platform: nobody is pinged, nothing foreign is linked.

Applied to what a model said, and to whatever else goes out, on every post and on every edit. The functions
are pure, take linear time and may be applied again: what they made they leave alone. Code is no exception,
since platforms do not agree on what is code; it stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from core.code_spans import code_spans
from core.links import MayLink, no_link, without_bare_links, without_named_links
from core.sanitize import assembled, broken

PASSES: Final = 4
"""Taking one link off can lay another one open; a text that needs more looks than this has its rest broken."""

_DISCORD_MENTION: Final = re.compile(
    r"@(?=everyone|here)|<(?=@[!&]?[0-9]{1,25}>|#[0-9]{1,25}>|/[^<>:\n]{1,100}:[0-9]{1,25}>|id:[a-z]{1,20}[>:])",
    re.IGNORECASE,
)
_SLACK_LINK: Final = re.compile(r"<((?:https?://|mailto:)[^\s<>|`]{1,2000})(?:\|([^<>\n`]{0,300}))?>", re.IGNORECASE)
_SLACK_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SLACK_ESCAPED: Final = re.compile(r"&(?:amp|lt|gt);")
_SLACK_SIGN: Final = re.compile(r"[&<>]")


def discord_out(text: str, may_link: MayLink = no_link) -> str:
    """Text for Discord: mentions are broken by a visible space, links that may not be live are gone.

    Send `allowed_mentions` that allow none all the same, on every create and every edit.
    """

    def look(text: str) -> str:
        return broken(_unlinked(broken(text, _DISCORD_MENTION), may_link), _DISCORD_MENTION)

    return _until_stable(look, assembled(text))


def slack_out(text: str, may_link: MayLink = no_link) -> str:
    """Text for Slack: `&`, `<` and `>` are escaped, and with them every mention; links that may be live work.

    What is escaped already stays as it is, so that a text may come by twice.
    """
    plain = _SLACK_ESCAPED.sub(lambda m: _PLAIN[m.group()], assembled(text))
    plain = _until_stable(lambda text: _unlinked(text, may_link), plain)
    return _by_code(plain, lambda prose: _slack_prose(prose, may_link), _slack_escaped)


_PLAIN: Final = {escape: sign for sign, escape in _SLACK_ESCAPES.items()}


def _slack_escaped(text: str) -> str:
    return _SLACK_SIGN.sub(lambda m: _SLACK_ESCAPES[m.group()], text)


def _slack_prose(prose: str, may_link: MayLink) -> str:
    pieces: list[str] = []
    at = 0
    for link in _SLACK_LINK.finditer(prose):
        if may_link(link.group(1)):
            pieces += [_slack_escaped(prose[at : link.start()]), f"<{_slack_escaped(link.group()[1:-1])}>"]
            at = link.end()
    return "".join([*pieces, _slack_escaped(prose[at:])])


def _unlinked(text: str, may_link: MayLink) -> str:
    """`text` without the links that may not be live. Addresses in code are not live anywhere."""

    def clean(prose: str) -> str:
        # "evil[.]example/x" is how an address is written that is meant to be read and not followed.
        return without_bare_links(without_named_links(prose, may_link), may_link, _defanged)

    return _by_code(text, clean, lambda code: code)


def _defanged(address: str) -> str:
    host, slash, rest = re.split(r"([/?])", address, maxsplit=1)
    return "[.]".join(host.rsplit(".", 1)) + slash + rest


def _by_code(text: str, prose: Callable[[str], str], code: Callable[[str], str]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in code_spans(text):
        pieces += [prose(text[at:start]), code(text[start:end])]
        at = end
    return "".join([*pieces, prose(text[at:])])


def _until_stable(look: Callable[[str], str], text: str) -> str:
    for _ in range(PASSES):
        seen = look(text)
        if seen == text:
            return text
        text = seen
    return look(text.replace("](", "] ("))
