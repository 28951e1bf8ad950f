"""What people may look at of their own conversation, as lines of text, the same on every platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from adapters.notices import STOPPED
from adapters.ports import StoredTurn, TurnState
from core.errors import (
    ContextTooLong,
    ModelCut,
    ModelError,
    ModelGarbage,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    NoSlot,
    Preempted,
    PromptCut,
)
from core.types import QueryStatus

NOTHING_ASKED: Final = "Nothing has been asked in this thread yet."
DELETED: Final = "This question was deleted."

_STATUS_WORDS: Final = {
    QueryStatus.SKIPPED: "skipped: no model was asked",
    QueryStatus.REWRITTEN: "rewritten",
    QueryStatus.REJECTED: "rejected: the model's rewrite was not usable, the typed words were searched",
    QueryStatus.FAILED: "failed: the rewrite could not be made, the typed words were searched",
    QueryStatus.COMPLETE: "not rewritten: the typed words were searched",
    QueryStatus.SHED: "left out under load: the typed words were searched",
}

_WHY: Final = {
    "timeout": "it took too long",
    "bug": "an unexpected error, which the log tells",
    ModelError.__name__: "the model failed",
    ModelUnavailable.__name__: "the model could not be reached",
    ModelTimeout.__name__: "the model took too long",
    ModelRejected.__name__: "the model's server refused it",
    ContextTooLong.__name__: "the conversation is too long for the model",
    PromptCut.__name__: "the conversation is too long for the model",
    ModelCut.__name__: "the model's reply was cut off",
    ModelGarbage.__name__: "the model's reply could not be read",
    NoSlot.__name__: "others wait for the model",
    Preempted.__name__: "others wait for the model",
}
"""What `core.fail_open.reason_of` calls a failure, as people say it."""


def rewrite_lines(turn: StoredTurn) -> list[str]:
    """What was searched for a question, and why."""
    if turn.state is TurnState.DELETED:
        return [DELETED]
    lines = [f"You typed:    {shortened(turn.typed, 300)}"]
    if turn.query_reason == STOPPED and not turn.searched:
        when = "in the middle of its answer" if turn.answered else "before it was searched, or before its answer began"
        return [*lines, "Searched for: (not kept)", f"Status:       stopped {when}"]
    status = _STATUS_WORDS[turn.query_status] if turn.query_status else "not searched yet"
    reason = f" ({_WHY.get(turn.query_reason, turn.query_reason)})" if turn.query_reason else ""
    if reason and turn.query_status is QueryStatus.REWRITTEN:
        reason = f" ({turn.query_reason}: your own words were searched as well and count as much)"
    return [*lines, f"Searched for: {turn.searched or '(nothing)'}", f"Status:       {status}{reason}"]


def context_lines(turns: Sequence[StoredTurn]) -> list[str]:
    """What the model was given for the last question of a conversation."""
    if not turns:
        return [NOTHING_ASKED]
    last = turns[-1]
    if last.state is TurnState.DELETED:
        return [DELETED]
    kept = last.kept
    answered = sum(turn.state is TurnState.ANSWERED for turn in turns)
    about = "" if kept.counted else "about "
    counted = f"; the model counted {last.prompt_tokens}" if last.prompt_tokens else ""
    if counted and last.cached_tokens is not None:
        counted += f", {last.cached_tokens} of them computed before"
    return [
        f"Turns:    {kept.turns} in the last prompt, {answered} answered in this thread",
        f"          {kept.turns_dropped} left out for room, {about}{kept.turn_tokens} tokens",
        f"Notes:    {kept.turns_summarized} turns condensed, {about}{kept.summary_tokens} tokens",
        f"Passages: {kept.passages} in the last prompt, {kept.passages_dropped} left out for room, "
        f"{about}{kept.passage_tokens} tokens",
        f"Memory:   {kept.facts} facts about the asker from other threads",
        f"Tokens:   {about}{kept.prompt_tokens} of {kept.budget} for the prompt{counted}",
    ]


def shortened(text: str, limit: int = 70) -> str:
    """`text` on one line, at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
