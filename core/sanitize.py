"""Stage 1: untrusted text becomes text that is safe to put in a prompt.

A tokenizer turns `<start_of_turn>` into a control token wherever it stands, so text from outside must
not hold one: not in a question, a history message, a passage, a name, a title or a summary. Control
tokens are *broken*, never deleted: one visible space after their first character. What is not deleted
cannot re-assemble to another token, and a genuine question about `<start_of_turn>` still makes sense.

Tokens are looked for in a folded view of the text (entities and percent escapes decoded, NFKC,
invisible characters dropped, look-alikes mapped) and broken in the text itself; whatever holds none
comes out byte for byte. One pass, linear time. Everything here is pure and never fails open.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from html.entities import html5
from typing import Final, NamedTuple

MAX_LABEL: Final = 80
"""Longest display name, title or file name, in characters."""

MAX_DECODE_LEVELS: Final = 4
"""`&amp;amp;lt;` and `%25253C` are followed this deep."""

_TOKEN_FAMILIES: Final = (
    # Any <|word|>, <|word> and <word|>: ChatML, Llama 3, Phi, Harmony, Qwen, Gemma 4 (its turn, channel,
    # think, tool, image, audio and quote tokens); DeepSeek's full-width bars fold to these.
    r"<\|[^\s|<>]{1,64}\|?>",
    r"<[^\s|<>]{1,64}\|>",
    # Gemma 2 and 3, and the sentence marks that SentencePiece vocabularies share.
    r"</?(?:start|end)_of_(?:turn|image|audio)>",
    r"</?(?:image|audio)_soft_token>",
    r"<(?:bos|eos|pad|unk|mask)>",
    r"<unused\d{1,4}>",
    # Llama 2 and Mistral. [INST] counts only when no word character follows: "[INST]itute" is prose.
    r"\[/?INST\](?!\w)",
    r"<</?SYS>>",
    r"\[/?(?:TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|SYSTEM_PROMPT|TOOL_CONTENT|IMG|IMG_BREAK|IMG_END)\]",
)
_OPENING: Final = re.compile(r"[<\[]")
"""What each of the tokens and delimiters begins with."""
_DELIMITERS: Final = (r"<{3}\s{0,8}(?:END\s{1,8})?CONTEXT\b[^<>\n]{0,40}>{3}",)

# Look-ahead, so that a token which begins inside another one is found too.
_TOKENS: Final = re.compile(rf"(?=({'|'.join(_TOKEN_FAMILIES)}))", re.IGNORECASE)
_TOKENS_AND_DELIMITERS: Final = re.compile(rf"(?=({'|'.join(_TOKEN_FAMILIES + _DELIMITERS)}))", re.IGNORECASE)

_LOOK_ALIKES: Final = {
    "‹": "<",
    "〈": "<",
    "⟨": "<",
    "›": ">",
    "〉": ">",
    "⟩": ">",
    "│": "|",
    "∣": "|",
    "ǀ": "|",
    "❘": "|",
    "⎸": "|",
}

_IGNORABLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

# Never legitimate in a message: controls other than tab and line ends, bidirectional overrides and
# isolates, tag characters (text that only a model can read).
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Only text with one of these can hold a token, an escape of one, or something that folds to one.
_WORTH_FOLDING: Final = re.compile(r"[<\[&%]|[^\x00-\x7f]")

_ESCAPE: Final = re.compile(
    r"&(?:#[xX][0-9a-fA-F]{1,8};?|#[0-9]{1,8};?|[A-Za-z][A-Za-z0-9]{1,31};?)|(?:%[0-9a-fA-F]{2})+"
)
_ESCAPED_ASCII_ENTITIES: Final = {name: value for name, value in html5.items() if len(value) == 1}


class _Folded(NamedTuple):
    """A folded view: character i stands for `text[starts[i]:ends[i]]`."""

    chars: str
    starts: list[int]
    ends: list[int]


def prompt(text: str) -> str:
    """Text from outside, for a prompt: no control token and no context delimiter of ours is left."""
    return _break(legible(text), _TOKENS_AND_DELIMITERS)


def assembled(text: str) -> str:
    """A whole message of a prompt, delimiters of ours included: no control token is left.

    The pieces are clean by then; this catches a token that only their joining made.
    """
    return _break(legible(text), _TOKENS)


def label(text: str) -> str:
    """A display name, title or file name: one line of at most `MAX_LABEL` characters, no tokens."""
    line = prompt(" ".join(text.split()))
    if len(line) > MAX_LABEL:
        line = line[: MAX_LABEL - 1].rstrip() + "…"
    return line


def legible(text: str) -> str:
    """Text without characters that no message needs; half a surrogate pair becomes U+FFFD."""
    return _FORBIDDEN.sub("", text if text.isascii() else _SURROGATE.sub("\ufffd", text))


def broken(text: str, pattern: re.Pattern[str]) -> str:
    """`text` with one visible space after the first character of each match of `pattern`, disguised ones too.

    Escapes are not followed: what they stand for is not what they are.
    """
    if text.isascii():
        return _cut(text, (match.start() + 1 for match in pattern.finditer(text)))
    plain = _normalize(_Folded(text, list(range(len(text))), list(range(1, len(text) + 1))))
    return _cut(text, (plain.ends[match.start()] for match in pattern.finditer(plain.chars)))


def is_blank(text: str) -> bool:
    """Whether nothing of it can be seen."""
    return not _FORBIDDEN.sub("", _IGNORABLE.sub("", text)).strip()


def has_control_token(text: str) -> bool:
    """Whether any control token, plain or disguised, is in `text`."""
    return bool(_WORTH_FOLDING.search(text)) and _TOKENS.search(_fold(text).chars) is not None


def _break(text: str, tokens: re.Pattern[str]) -> str:
    if not _WORTH_FOLDING.search(text):
        return text
    if text.isascii() and not _ESCAPE.search(text):
        return _cut(text, (at + 1 for at in _begins(tokens, text)))  # It is its own folded view.
    folded = _fold(text)
    return _cut(text, (folded.ends[at] for at in _begins(tokens, folded.chars)))


def _begins(tokens: re.Pattern[str], chars: str) -> Iterator[int]:
    """Where `tokens` match: only there are they tried, since this is done for each piece of an answer."""
    return (at.start() for at in _OPENING.finditer(chars) if tokens.match(chars, at.start()))


def _cut(text: str, places: Iterable[int]) -> str:
    """`text` with a space put in at each of `places`."""
    cuts = sorted(set(places))
    return " ".join(text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True))


def _fold(text: str) -> _Folded:
    folded = _Folded(text, list(range(len(text))), list(range(1, len(text) + 1)))
    for _ in range(MAX_DECODE_LEVELS):
        decoded = _decode_once(folded)
        if decoded is None:
            break
        folded = decoded
    return folded if folded.chars.isascii() else _normalize(folded)


def _decode_once(folded: _Folded) -> _Folded | None:
    """One level of entities and percent escapes decoded; None if there was none."""
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for match in _ESCAPE.finditer(folded.chars):
        replacements = _decode_escape(match.group())
        if not replacements:
            continue
        chars.append(folded.chars[done : match.start()])
        starts += folded.starts[done : match.start()]
        ends += folded.ends[done : match.start()]
        at = match.start()
        for char, width in replacements:
            chars.append(char)
            starts.append(folded.starts[at])
            ends.append(folded.ends[at + width - 1])
            at += width
        done = at
    if done == 0:
        return None
    chars.append(folded.chars[done:])
    return _Folded("".join(chars), starts + folded.starts[done:], ends + folded.ends[done:])


def _decode_escape(escape: str) -> list[tuple[str, int]]:
    """The characters that `escape` stands for, each with the length of its source; [] if none."""
    if escape[0] == "%":
        return _decode_percent(escape)
    if escape[1] == "#":
        digits = escape[2:].rstrip(";")
        code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
        valid = 0 < code < 0x110000 and not 0xD800 <= code < 0xE000
        return [(chr(code), len(escape))] if valid else []
    if (value := _ESCAPED_ASCII_ENTITIES.get(escape[1:])) is not None:
        return [(value, len(escape))]
    # Browsers and Slack's readers take "&ltb" for "<b"; so does whoever decodes after us.
    name = next((name for name in ("amp", "lt", "gt") if escape[1:].lower().startswith(name)), None)
    return [(_ESCAPED_ASCII_ENTITIES[name], 1 + len(name))] if name else []


def _decode_percent(run: str) -> list[tuple[str, int]]:
    """A run like %EF%BC%9C%3C, as far as it is UTF-8; a byte that is not stands for itself."""
    raw = bytes.fromhex(run.replace("%", ""))
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(raw):
        width = 1 if raw[at] < 0x80 else 2 if raw[at] < 0xE0 else 3 if raw[at] < 0xF0 else 4
        try:
            found.append((raw[at : at + width].decode(), 3 * width))
            at += width
        except UnicodeDecodeError:
            found.append(("\ufffd", 3))
            at += 1
    return found


def _normalize(folded: _Folded) -> _Folded:
    """NFKC by character, invisible characters dropped, look-alikes mapped."""
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for char, start, end in zip(*folded, strict=True):
        if char.isascii():
            plain = char
        elif _IGNORABLE.match(char):
            continue
        else:
            plain = "".join(_LOOK_ALIKES.get(c, c) for c in unicodedata.normalize("NFKC", char))
            plain = _IGNORABLE.sub("", plain)
        chars.append(plain)
        starts += [start] * len(plain)
        ends += [end] * len(plain)
    return _Folded("".join(chars), starts, ends)
