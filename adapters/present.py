"""An answer as lines of text, the same for every channel: notice, text, mark, sources."""

from __future__ import annotations

from adapters import notices
from core.sanitize import label
from core.types import CARRIED_OVER, Answer, Citation, titled

CUT_OFF = "(cut off: the model stopped in the middle)"
AT_LIMIT = "(cut at the longest answer allowed)"
FILTERED = "(cut by the model's content filter)"
NO_SOURCE = "(no source was cited: check this answer)"
CARRIED = "(nothing new was found for this: the passages are those of the question before)"
STOPPED = "(stopped)"
TOO_LONG = "(your message was long: only its beginning was read)"


def remarks(answer: Answer) -> list[str]:
    """What the asker has to know about `answer` besides its text; never part of the memory."""
    lines = []
    reasons = {(mark.stage, mark.reason) for mark in answer.degraded}
    if ("question", "too_long") in reasons:
        lines.append(TOO_LONG)
    if answer.unread:
        lines.append(f"(not read, since only text files are: {', '.join(map(label, answer.unread))})")
    if ("generate", notices.STOPPED) in reasons:
        return [*lines, STOPPED]
    if answer.stand_in:
        return lines
    if not answer.complete:
        lines.append(CUT_OFF)
    elif ("generate", "length") in reasons:
        lines.append(AT_LIMIT)
    elif ("generate", "content_filter") in reasons:
        lines.append(FILTERED)
    if ("retrieve", CARRIED_OVER) in reasons:
        lines.append(CARRIED)
    if answer.query.text and not answer.citations and not answer.says_nothing_found:
        lines.append(NO_SOURCE)
    return lines


def source_lines(citations: tuple[Citation, ...]) -> list[str]:
    """One line a source: number, title, heading, where it is."""
    return [f"[{c.number}] {titled(c.title, c.heading)} ({c.source})" for c in citations]
