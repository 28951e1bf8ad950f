"""Which turns stay verbatim, and what of a prompt is left out first when it is over the budget.

Two rules, no model call. The window grows to `MAX_PAIRS` pairs, then drops to `MIN_PAIRS` at once as the
rest moves into the summary, so that the start of the prompt, and with it the server's prefix cache, stays
the same for several turns; until the summary holds them, no turn is gone. The budget then cuts by tokens:
instructions, summary and question are never cut, the best passage and the newest turns go last, the
oldest turns first, whole pairs at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from core.types import Kept, Passage, Turn

MIN_PAIRS: Final = 4
MAX_PAIRS: Final = 8
MAX_TURNS: Final = 24
"""Turns that a prompt may take while their summary is late."""
LONGEST_QUOTE: Final = 1200
"""Characters of a question or an answer that is condensed."""
SHORTEST_QUOTE: Final = 60

MARGIN: Final = 0.10
"""Share of the context kept free, for what an estimate gets wrong and a chat template adds."""

_RUN: Final = re.compile(r"(.)\1{2,}", re.DOTALL)

_MESSAGE_TOKENS: Final = 8
"""What a chat template adds to a message."""


def estimate_tokens(text: str) -> int:
    """A conservative count: it errs to the high side for Gemma's and Llama's tokenizers."""
    ascii_chars = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    wide = sum(1 for char in text if ord(char) > 0xFFFF) if ascii_chars < len(text) else 0
    return math.ceil(ascii_chars / 3 + (len(text) - ascii_chars) + wide)


def fewest_tokens(text: str) -> int:
    """A count that a whole prompt is never under, for a Gemma's or Llama's tokenizer: runs of one character
    (rules, indentation) may be one token, and few words are longer than six characters a token."""
    squeezed = _RUN.sub(r"\1", text)
    wide = sum(1 for char in squeezed if not char.isascii())
    return math.floor((len(squeezed) - wide) / 6.5 + wide / 4)


def leaving(pairs: int, *, tight: bool = False) -> int:
    """How many of the `pairs` that no summary covers, oldest first, are to be condensed now.

    `tight`: the token budget has left some out of the last prompt, so the window drops before it is full.
    At most `MAX_PAIRS` at a time: what one summary reads does not grow with what is behind.
    """
    return min(pairs - MIN_PAIRS, MAX_PAIRS) if pairs > (MIN_PAIRS if tight else MAX_PAIRS) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What goes into the prompt."""

    history: tuple[Turn, ...]
    passages: tuple[Passage, ...]
    kept: Kept


def fit(
    *,
    fixed: str,
    history: Sequence[Turn],
    passages: Sequence[Passage],
    context_tokens: int,
    answer_tokens: int,
    count: Callable[[str], int] = estimate_tokens,
) -> Fitted:
    """The passages and turns that fit beside `fixed` (instructions, summary and question).

    Order of priority: fixed, best passage, newest turn, other passages, other turns from the newest
    back. A best passage that alone is too long is cut at a line.
    """
    budget = budget_of(context_tokens, answer_tokens)
    left = budget - count(fixed) - 2 * _MESSAGE_TOKENS
    turns_left = list(history)
    chosen: list[Passage] = []
    kept_turns: list[Turn] = []
    if passages:
        best = _cut(passages[0], max(left, 0), count)
        chosen.append(best)
        left -= _passage_tokens(best, count)
    if turns_left and _turn_tokens(turns_left[-1], count) <= left:
        kept_turns.append(turns_left.pop())
        left -= _turn_tokens(kept_turns[0], count)
    for passage in passages[1:]:
        if _passage_tokens(passage, count) > left:
            break
        chosen.append(passage)
        left -= _passage_tokens(passage, count)
    while kept_turns and turns_left and _turn_tokens(turns_left[-1], count) <= left:
        kept_turns.insert(0, turns_left.pop())
        left -= _turn_tokens(kept_turns[0], count)
    kept = Kept(
        turns=len(kept_turns),
        turns_dropped=len(history) - len(kept_turns),
        passages=len(chosen),
        passages_dropped=len(passages) - len(chosen),
        turn_tokens=sum(_turn_tokens(turn, count) for turn in kept_turns),
        passage_tokens=sum(_passage_tokens(passage, count) for passage in chosen),
        prompt_tokens=budget - left,
        budget=budget,
    )
    return Fitted(history=tuple(kept_turns), passages=tuple(chosen), kept=kept)


def shortened(
    turns: Sequence[Turn],
    *,
    fixed: str,
    context_tokens: int,
    answer_tokens: int,
    count: Callable[[str], int] = estimate_tokens,
) -> tuple[Turn, ...]:
    """`turns` with their long texts cut alike, so that all of them fit beside `fixed`; none is left out."""
    room = budget_of(context_tokens, answer_tokens) - count(fixed) - _MESSAGE_TOKENS
    limit = LONGEST_QUOTE
    while True:
        quotes = tuple(replace(t, question=t.question[:limit], answer=t.answer[:limit]) for t in turns)
        if limit <= SHORTEST_QUOTE or sum(_turn_tokens(turn, count) for turn in quotes) <= room:
            return quotes
        limit = max(SHORTEST_QUOTE, limit * 3 // 4)


def budget_of(context_tokens: int, answer_tokens: int) -> int:
    """Tokens that a prompt may have."""
    return max(0, math.floor(context_tokens * (1 - MARGIN)) - answer_tokens)


def texts_of(history: Sequence[Turn], passages: Sequence[Passage]) -> list[str]:
    """The texts that `fit` looks at beside what is fixed, those first that are left out last."""
    found: list[str] = []
    turns = list(reversed(history))
    parts: list[Passage | Turn] = [*passages[:1], *turns[:1], *passages[1:], *turns[1:]]
    for part in parts:
        if isinstance(part, Passage):
            found += (part.text, part.title, part.heading)
        else:
            found += (part.question, part.answer, part.author)
            found += [text for said in part.heard for text in (said.author, said.text)]
    return found


def _turn_tokens(turn: Turn, count: Callable[[str], int]) -> int:
    heard = sum(count(said.author) + count(said.text) for said in turn.heard)
    # Where several people ask, each question bears a name.
    return heard + count(turn.author) + count(turn.question) + count(turn.answer) + 2 * _MESSAGE_TOKENS


def _passage_tokens(passage: Passage, count: Callable[[str], int]) -> int:
    return count(passage.text) + count(passage.title) + count(passage.heading) + _MESSAGE_TOKENS


def _cut(passage: Passage, room: int, count: Callable[[str], int]) -> Passage:
    """`passage`, its text cut from the end until it fits; its heading alone where nothing else does."""
    lines = passage.text.splitlines()
    while lines and _passage_tokens(replace(passage, text="\n".join(lines)), count) > room:
        del lines[max(1, len(lines) * 3 // 4) if len(lines) > 1 else 0 :]
    return passage if len(lines) == len(passage.text.splitlines()) else replace(passage, text="\n".join(lines))
