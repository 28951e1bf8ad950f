"""Untrusted text -> the words to look for in a full-text index: never an operator, never a syntax error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from core import words

MOST: Final = 32
"""Words of a query; a pasted log holds thousands, and the first ones say what it is about."""
_LONGEST_TEXT: Final = 4000
_LONGEST_WORD: Final = 80
_WORD: Final = re.compile(r"[^\W_]+(?:[-._/:@+'’][^\W_]+)*")
_PART: Final = re.compile(r"[^\W_]+")


def search_words(text: str) -> list[str]:
    """Words of `text`, at most `MOST`, each once, lower case; `kube-proxy` also as its parts.

    Function words are left out unless there is nothing else: they match nearly every passage, which
    costs most of the time and no recall (0.92 to 0.93 on k8s-followups without them).
    """
    found: dict[str, None] = {}
    for match in _WORD.finditer(text[:_LONGEST_TEXT]):
        whole = match.group()[:_LONGEST_WORD].lower()
        parts = _PART.findall(whole)
        # Parts stay when the word itself is a function word in some language ("it's", "and/or").
        for word in (*parts, whole) if len(parts) > 1 else (whole,):
            found.setdefault(word)
    telling = [word for word in found if words.content_words(word)] or list(found)
    return telling[:MOST]


def any_of(terms: Iterable[str]) -> str:
    """FTS5 expression for passages with at least one of `terms`, each taken literally."""
    return "(" + " OR ".join('"' + term.replace('"', '""') + '"' for term in terms) + ")"
