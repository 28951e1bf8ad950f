"""Counts of tokens for the budget: the model's own where its endpoint tells them, else the estimate.

A prompt that is far from full by the estimate is not counted. Else the texts of a turn that were not counted
before are, by one request; what only a cut brings up (a shorter passage) takes another.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, TypeVar

from core.fail_open import fail_open
from core.ports import Tokenizer
from core.window import estimate_tokens

T = TypeVar("T")
Count = Callable[[str], int]

WORTH_COUNTING: Final = 0.6
"""Share of the budget, by the estimate, from which on texts are counted."""
ROUNDS: Final = 3
"""Requests for one prompt."""
MOST_CHARS: Final = 200_000
"""Of one request."""
REMEMBERED: Final = 4_096
"""Texts whose counts are kept."""
TELLING: Final = 20
"""Tokens, by the estimate, from which on a text tells how dense its kind is."""
_SECONDS: Final = 3.0
"""A net: the tokenizer has a shorter deadline."""


class Counts:
    """Counts of texts, shared by all turns. Keeps digests, no texts."""

    def __init__(self, tokenizer: Tokenizer | None = None, *, remembered: int = REMEMBERED) -> None:
        """Without a `tokenizer` all is estimated."""
        self._tokenizer = tokenizer
        self._remembered = remembered
        self._known: OrderedDict[bytes, int] = OrderedDict()

    async def settled(self, make: Callable[[Count], T], texts: Sequence[str], budget: int) -> tuple[T, bool]:
        """What `make` makes with a count, and whether each text that it looked at was really counted.

        `texts`, the most important ones first, are all that may go into the prompt, `budget` the tokens it may have.
        Fails open to the estimate.
        """
        if self._tokenizer is None or sum(map(estimate_tokens, texts)) < WORTH_COUNTING * budget:
            return make(estimate_tokens), False
        wanted: Iterable[str] = texts
        made: T | None = None
        for _ in range(ROUNDS):
            if not await self._learn(self._tokenizer, wanted):
                break
            look = _Look(self._known, texts)
            made = make(look)
            if not look.missed:
                return made, True
            wanted = look.missed
        return (make(estimate_tokens) if made is None else made), False

    async def _learn(self, tokenizer: Tokenizer, texts: Iterable[str]) -> bool:
        """Counts those of `texts` that are not known; whether that could be done."""
        unknown: dict[bytes, str] = {}
        room = MOST_CHARS
        for text in texts:
            key = _key(text)
            if key in self._known:
                self._known.move_to_end(key)
            elif text and key not in unknown and len(text) <= room:
                unknown[key] = text
                room -= len(text)
        if not unknown:
            return True

        async def work() -> list[int] | None:
            return await tokenizer.count(list(unknown.values()))

        counts, _mark = await fail_open("tokenize", work, fallback=None, seconds=_SECONDS)
        if counts is None:
            return False
        self._known.update(zip(unknown, counts, strict=True))
        while len(self._known) > self._remembered:
            self._known.popitem(last=False)
        return True


class _Look:
    """A count that notes what it had to guess."""

    def __init__(self, known: OrderedDict[bytes, int], texts: Sequence[str]) -> None:
        self._known = known
        self.missed: dict[str, None] = {}
        shares = [1.0]
        for text in texts:
            estimate = estimate_tokens(text)
            if estimate >= TELLING and (count := known.get(_key(text))) is not None:
                shares.append(count / estimate)
        self._densest = max(shares)

    def __call__(self, text: str) -> int:
        if not text:
            return 0
        count = self._known.get(_key(text))
        if count is None:
            self.missed[text] = None
            # As dense as the densest text beside it.
            return math.ceil(estimate_tokens(text) * self._densest)
        return count


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
