"""Stage 5, in the background: the turns that leave the window are condensed into the running summary.

A summary is written over the one before it, so a bad one would cost what the conversation knew. What the
model says is therefore cleaned like an answer, bounded, and thrown away when it is blank or about
something else; the caller then keeps the old summary and all turns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from core import words
from core.errors import ModelGarbage
from core.output import Hygiene, repeats
from core.ports import ChatModel
from core.prompts import one_line
from core.sanitize import prompt as sanitize_prompt
from core.types import ChatRequest, FinishReason, Turn, Usage

MAX_SUMMARY_CHARS: Final = 1_200
MAX_REPLY_CHARS: Final = 6_000
"""Reading stops here, whatever `max_tokens` was."""
MAX_NOVEL_SHARE: Final = 0.8
"""Of a summary's content words, how many may be in nothing that was said: more is a refusal or nonsense."""
MAX_EXTRACT_CHARS: Final = 600
MAX_EXTRACT_LINE: Final = 90

_QUOTE_MARK: Final = re.compile(r"^(?:>[ \t]?)+", re.MULTILINE)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|\Z)|[。！？]|\n")
_LABELS: Final = ("Notes", "New notes", "Updated notes", "Summary")


async def summarize(model: ChatModel, request: ChatRequest, earlier: str, turns: Sequence[Turn]) -> tuple[str, Usage]:
    """The summary of `earlier` and `turns`, at most `MAX_SUMMARY_CHARS` long; `request` asks the model for it.

    All texts are sanitized. Raises `ModelError`, also when what came back is no summary.
    """
    reply, usage = "", Usage()
    finish: FinishReason | None = None
    async with aclosing(model.stream(request)) as stream:
        async for delta in stream:
            reply += delta.text
            usage, finish = delta.usage or usage, delta.finish or finish
            if len(reply) > MAX_REPLY_CHARS or (surplus := repeats(reply)):
                reply = reply[:MAX_REPLY_CHARS] if len(reply) > MAX_REPLY_CHARS else reply[:-surplus]
                finish = FinishReason.LENGTH
                break
    if finish is FinishReason.FILTERED:
        raise ModelGarbage("The endpoint's content filter cut the summary.")
    said = "\n".join([earlier, *(f"{turn.author}\n{turn.question}\n{turn.answer}" for turn in turns)])
    return _checked(_bounded(_cleaned(reply, said), whole=finish is FinishReason.STOP), said), usage


def extract(earlier: str, turns: Sequence[Turn]) -> str:
    """What a base model gets for a summary, made without it: the earlier questions, a line each.

    What a model of 270 million parameters writes as a summary is noise, and would replace what was said;
    its questions at least say what was talked about. Long ones are shortened, the oldest dropped for room.
    """
    lines = [*earlier.splitlines(), *(one_line(turn.question, MAX_EXTRACT_LINE) for turn in turns)]
    while lines and len("\n".join(lines)) > MAX_EXTRACT_CHARS:
        del lines[0]
    return "\n".join(lines)


def without_citations(turn: Turn) -> Turn:
    """`turn` without the `[1]` in its answer: the numbers belong to passages that no later prompt has."""
    hygiene = Hygiene(passages=(), question=turn.answer, trusts_markers=False)
    return replace(turn, answer=hygiene.visible(turn.answer, final=True))


def _cleaned(reply: str, said: str) -> str:
    # Links that were talked about may stay: they are held by what was said.
    hygiene = Hygiene(passages=(), question=said, names=_LABELS, stops=("\nNew messages:",), trusts_markers=False)
    text = _QUOTE_MARK.sub("", hygiene.visible(reply, final=True))
    lines = [line.strip() for line in sanitize_prompt(text).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        del lines[0]
    return "\n".join(lines)


def _bounded(text: str, *, whole: bool) -> str:
    """`text` up to the last sentence that fits, if it is too long or broke off in the middle of one."""
    if whole and len(text) <= MAX_SUMMARY_CHARS:
        return text
    room = min(len(text), MAX_SUMMARY_CHARS)
    # One character more is looked at: the point of "1.5" ends no sentence.
    ends = [match.end() for match in _SENTENCE_END.finditer(text[: room + 1]) if match.end() <= room]
    if ends and ends[-1] > room // 2:
        return text[: ends[-1]].rstrip()
    return text[:room].rsplit(None, 1)[0] if text else ""


def _checked(text: str, said: str) -> str:
    stems = words.stems(text)
    if not stems:
        raise ModelGarbage("The summary is blank.")
    if words.script(text) in words.SPACED_SCRIPTS and len(stems - words.stems(said)) > MAX_NOVEL_SHARE * len(stems):
        raise ModelGarbage("The summary is about something else.")
    return text
