"""How a turn ends: with an answer, or with words of our own in its place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from core import words
from core.clock import Clock
from core.fail_open import record
from core.generate import Generated
from core.metrics import STAGE_SECONDS, TURNS
from core.output import Hygiene
from core.types import (
    NOT_BORNE_OUT,
    NOT_IN_DOCUMENTS,
    Answer,
    Citation,
    Degradation,
    FinishReason,
    Kept,
    Passage,
    Query,
)

EXCERPT_CHARS: Final = 500
"""Of each passage that stands in for an answer."""
MAX_STAND_INS: Final = 3

SEARCH_FAILED: Final = (
    "The documents could not be searched just now, so I cannot answer from them. Please ask again in a minute."
)
MODEL_DOWN: Final = "The model is not available right now. These passages fit your question best:"
MODEL_DOWN_NOTHING: Final = "The model is not available right now. Please ask again in a minute."
NO_ANSWER: Final = "I have no answer to that. Please ask it in other words."
NOTHING_ASKED: Final = "Ask me something about the documents."

Marks = tuple[Degradation, ...]


def stand_in(text: str, query: Query, clock: Clock, degraded: Marks = ()) -> Answer:
    """A sentence of ours where no answer could be made."""
    return Answer(text=text, query=query, degraded=degraded, timings=clock.timings(), complete=False, stand_in=True)


def passages_instead(asked: str, query: Query, passages: tuple[Passage, ...], degraded: Marks, clock: Clock) -> Answer:
    """The best passages, labelled and linked, where the model failed before it said anything."""
    if not passages:
        return stand_in(MODEL_DOWN_NOTHING, query, clock, degraded)
    text, citations = _quoted(MODEL_DOWN, asked, passages)
    return replace(stand_in(text, query, clock, degraded), passages=passages[:MAX_STAND_INS], citations=citations)


def borne_out(answer: Answer, asked: str) -> Answer:
    """`answer`, or the best passages in its place where those that a weak model cites do not bear out what it said.

    What the documents say is an answer too: it stays in the conversation, marked.
    """
    if answer.stand_in or not answer.complete or answer.says_nothing_found:
        return answer
    if answer.citations and not _made_up(answer, asked):
        return answer
    if not answer.passages:
        return replace(answer, text=NOT_IN_DOCUMENTS)
    text, citations = _quoted(NOT_BORNE_OUT, asked, answer.passages)
    mark = Degradation(stage="generate", reason="not_borne_out")
    # Marks on the text that is thrown away ("cut at the limit") say nothing about the passages.
    kept = tuple(degradation for degradation in answer.degraded if degradation.stage != "generate")
    return replace(answer, text=text, citations=citations, degraded=(*kept, mark))


def _made_up(answer: Answer, asked: str) -> bool:
    """Whether a code, a number or a name of the answer is neither in the question nor in a passage that it cites."""
    cited = [(citation.source, citation.heading) for citation in answer.citations]
    told = [
        f"{p.title} {p.heading} {p.text}"
        for p in answer.passages
        if any(p.source == source and p.heading in heading for source, heading in cited)
    ]
    held = " ".join([asked, *told])
    codes = [code for code in words.identifiers(answer.text) if code not in _markers(answer)]
    if not all(re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(code)}(?!\w|[.,]\d)", held) for code in codes):
        return True  # As a part of a longer one it says something else: 0.8 is not in 10.8.
    # In German every noun would be a name.
    names = frozenset[str]() if words.language(answer.text) == "de" else words.names(answer.text)
    # Of a name the beginning is compared: its stem.
    return not all(re.search(rf"(?<!\w){re.escape(name)}", held.casefold()) for name in names)


def _markers(answer: Answer) -> frozenset[str]:
    return frozenset(str(citation.number) for citation in answer.citations)


def _quoted(opening: str, asked: str, passages: tuple[Passage, ...]) -> tuple[str, tuple[Citation, ...]]:
    best = passages[:MAX_STAND_INS]
    quotes = [f"{_excerpt(passage.text)} [{number}]" for number, passage in enumerate(best, 1)]
    return Hygiene(passages=best, question=asked).settle("\n\n".join([opening, *quotes]))


def finished(made: Generated, query: Query, hygiene: Hygiene, degraded: Marks, kept: Kept, clock: Clock) -> Answer:
    """What the model said, whole or cut off."""
    if made.error is not None:
        degraded = (*degraded, record("generate", made.error))
    elif made.finish in (FinishReason.LENGTH, FinishReason.FILTERED):
        degraded = (*degraded, Degradation(stage="generate", reason=made.finish.value))
    return Answer(
        text=made.text or NO_ANSWER,
        query=query,
        passages=hygiene.passages,
        citations=made.citations,
        degraded=degraded,
        usage=made.usage,
        timings=clock.timings(made.first_token_seconds),
        kept=kept,
        complete=bool(made.text) and made.error is None,
        stand_in=not made.text,
    )


def count(answer: Answer) -> Answer:
    """`answer`, counted by its outcome."""
    for stage, seconds in answer.timings.items():
        STAGE_SECONDS.labels(stage=stage).observe(seconds)
    if answer.stand_in:
        outcome = "failed"
    elif not answer.complete:
        outcome = "cut"
    elif answer.degraded:
        outcome = "degraded"
    else:
        outcome = "nothing_found" if answer.says_nothing_found else "answered"
    TURNS.labels(outcome=outcome).inc()
    return answer


def _excerpt(text: str) -> str:
    """The beginning of a passage as a quotation, its lines kept, a code block closed again."""
    kept = text.strip()
    if len(kept) > EXCERPT_CHARS:
        kept = kept[:EXCERPT_CHARS].rsplit(None, 1)[0] + " …"
        if kept.count("```") % 2:
            kept += "\n```\n"
    return "\n".join(f"> {line}".rstrip() for line in kept.splitlines())
