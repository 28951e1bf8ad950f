"""Stage 2: a follow-up becomes one self-contained search query, or stays what was typed.

The rewrite is the bot's most silent failure: a bad one answers about the wrong thing and looks fine.
So it is validated by plain code, and whatever does not pass is thrown away for the typed words. It
serves the search only; the generator always gets the asker's own words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from core import words
from core.errors import ModelGarbage
from core.ports import ChatModel
from core.reasoning import spoken
from core.sanitize import prompt as sanitize_prompt
from core.types import NOT_IN_DOCUMENTS, ChatRequest, Query, QueryStatus, Turn

MAX_QUERY_CHARS: Final = 300
"""Longer is not a search query."""
MAX_REPLY_CHARS: Final = 4_000
"""Reading stops here: a model that goes on is not rewriting."""
MAX_NOVEL_SHARE: Final = 0.5
"""Of the query's content words, how many may be neither in the conversation nor in the question."""
MIN_KEPT_OF_COMPLETE: Final = 2 / 3
"""Of a complete question's content words, how many a rewrite must keep: its exact terms find best."""

_TURN_MARKER: Final = re.compile(r"</?(?:start|end)_of_turn>.*|<turn\|>.*|<\|turn>.*|<\|im_end\|>.*|<eos>.*", re.DOTALL)
_FENCE: Final = re.compile(r"^```\w*\s*\n?(.*?)\n?```$", re.DOTALL)
_LABEL: Final = re.compile(
    r"^(?:[-*>#]+\s+)*\W{0,3}(?:(?:the\s+)?(?:standalone|self-contained|rewritten|final|search|user'?s?)\s+)*"
    r"(?:search\s+)?(?:query|question|suchanfrage|anfrage|zoekvraag|requête|consulta|pregunta|pergunta)"
    r"\W{0,3}\s*(?:is)?\s*:\W{0,3}\s*",
    re.IGNORECASE,
)
_LEAD_IN: Final = re.compile(
    r"^(?:sure|certainly|of course|okay|ok|here(?:'s| is)|gladly|gerne?|voici|claro)\b.*:\s*$", re.IGNORECASE
)
_WRAPPERS: Final = (
    ("**", "**"),
    ("__", "__"),
    ('"', '"'),
    ("“", "”"),
    ("„", "“"),
    ("«", "»"),
    ("'", "'"),
    ("`", "`"),
    ("*", "*"),
)
_REFUSAL: Final = re.compile(
    r"^(?:i'?m\s+)?(?:sorry|unfortunately|i\s+(?:can(?:no|')t|am\s+(?:not|un)|apologi|do\s*n[o']t\s+(?:have|know))|"
    r"as an ai|"
    r"(?:es )?tut mir leid|leider|entschuldig|désolé|lo siento|mi dispiace|desculp)",
    re.IGNORECASE,
)
_MUSING: Final = re.compile(
    r"^(?:the\s+(?:user|asker|person|last\s+message)\b|this\s+(?:message|question)\s+(?:is|asks)\b|they\s+(?:want|ask|are)\b|"
    r"(?:so\s+)?(?:first|let\s+me|let's|i\s+(?:need|should|will|think|would))\b|we\s+need\b|okay,\s|hmm\b)",
    re.IGNORECASE,
)
_NAME_PREFIX: Final = re.compile(r"^(?:user|bot|assistant|asker|model)\s*:\s*", re.IGNORECASE)
_SENTENCE_END: Final = re.compile(r"[.!。]\s+(?=\S)|[.!。]$")


class Rejected(ValueError):
    """The model's reply is no usable query; the message says why, in a short phrase."""


async def rewrite(
    model: ChatModel, request: ChatRequest, question: str, history: Sequence[Turn], summary: str
) -> Query:
    """The search query for `question`; `request` is what would ask the model for it. All texts are sanitized.

    No history: no model call. Raises `ModelError` when the call fails; the caller falls back.
    """
    if not history and not summary:
        return Query(text=question, status=QueryStatus.SKIPPED, reason="first message")
    reply = ""
    async with aclosing(model.stream(request)) as stream:
        async for delta in stream:
            reply += delta.text
            if len(reply) > MAX_REPLY_CHARS:
                raise ModelGarbage("The rewrite does not end.")
    try:
        text = validate(reply, question, history, summary)
    except Rejected as rejection:
        return Query(text=question, status=QueryStatus.REJECTED, reason=str(rejection))
    lack = left_out(text, question)
    return Query(text=text, status=QueryStatus.REWRITTEN, reason=lack, beside_typed=bool(lack))


def validate(reply: str, question: str, history: Sequence[Turn], summary: str = "") -> str:
    """The query in `reply`, its wrappers taken off. Raises `Rejected`."""
    query = _unwrap(reply)
    if not query:
        raise Rejected("blank")
    if len(query) > MAX_QUERY_CHARS:
        raise Rejected("too long")
    if _REFUSAL.match(query):
        raise Rejected("refusal")
    if _MUSING.match(query):
        raise Rejected("thinking aloud")
    if _is_statement(query, question):
        raise Rejected("an answer, not a query")
    _check_faithful(query, question, history, summary)
    return query


def left_out(query: str, question: str) -> str:
    """What of the typed words a usable query lacks, in a short phrase; empty if nothing that matters.

    Such a query still names the subject, which the typed words leave out: the two are searched side by side.
    """
    if not all(_holds(query, code) for code in words.identifiers(question)):
        return "lost an identifier"
    typed = words.stems(question)
    if typed and words.script(question) in words.SPACED_SCRIPTS and not typed & words.stems(query):
        return "lost what was asked"
    return ""


def _unwrap(reply: str) -> str:
    text, unfinished = spoken(reply, in_code=False)
    if unfinished:
        raise Rejected("unfinished reasoning")
    text = _TURN_MARKER.sub("", text).strip()
    if fenced := _FENCE.match(text):
        text = fenced.group(1).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and (_LEAD_IN.match(lines[0]) or _LABEL.sub("", lines[0]) == ""):
        del lines[0]
    if not lines:
        return ""
    if len(lines) > 1:
        raise Rejected("several lines")
    return " ".join(sanitize_prompt(_peel(lines[0])).split())


def _peel(line: str) -> str:
    """`line` without labels, quotes and emphasis around it, however they are nested."""
    for _ in range(4):
        before = line
        line = _NAME_PREFIX.sub("", _LABEL.sub("", line)).strip()
        for left, right in _WRAPPERS:
            inside = line[len(left) : len(line) - len(right)]
            wrapped = len(line) >= len(left) + len(right) and line.startswith(left) and line.endswith(right)
            if wrapped and left not in inside:
                line = inside.strip()
        if line == before:
            break
    return line


def _is_statement(query: str, question: str) -> bool:
    """Several sentences, where the asker wrote fewer: the model went on with the chat instead."""
    found = len(_SENTENCE_END.findall(query))
    return found > 1 and found > len(_SENTENCE_END.findall(question))


def _check_faithful(query: str, question: str, history: Sequence[Turn], summary: str) -> None:
    said = " ".join([summary, *(f"{turn.question} {turn.answer}" for turn in history)])
    _check_codes(query, question, said)
    _check_language(query, question)
    in_query, in_question = words.stems(query), words.stems(question)
    known = in_question | words.stems(said)
    if not in_query:
        raise Rejected("nothing to search for")
    if len(in_query - known) > MAX_NOVEL_SHARE * len(in_query):
        raise Rejected("drifted from the conversation")
    if words.stands_alone(question) and len(in_question & in_query) < MIN_KEPT_OF_COMPLETE * len(in_question):
        raise Rejected("reworded a complete question")
    if _mixes_in(in_query, in_question, question, query, said):
        raise Rejected("mixed in an earlier subject")
    if _carries_on(in_query, in_question, question, history, summary):
        raise Rejected("carried on what was not found")


def _mixes_in(in_query: frozenset[str], in_question: frozenset[str], question: str, query: str, said: str) -> bool:
    """Whether a name from before was put into a complete question about another one."""
    # People type names in any case; whoever wrote one with a capital, it is a name everywhere.
    names = words.names(question) | words.names(said) | words.names(query)
    before = words.stems(said)
    new_subject = names & in_question - before
    return bool(new_subject and names & before & in_query - in_question and words.stands_alone(question))


def _carries_on(
    in_query: frozenset[str], in_question: frozenset[str], question: str, history: Sequence[Turn], summary: str
) -> bool:
    """Whether words that only a question without an answer held were put into one about something else."""
    not_found = words.stems(" ".join(turn.question for turn in history if turn.answer.startswith(NOT_IN_DOCUMENTS)))
    if not in_query & not_found - in_question or in_question & not_found:
        return False
    found = [f"{turn.question} {turn.answer}" for turn in history if not turn.answer.startswith(NOT_IN_DOCUMENTS)]
    stale = not_found - words.stems(" ".join([summary, *found])) - in_question
    return bool(in_query & stale) and words.stands_alone(question, least=2)


def _check_codes(query: str, question: str, said: str) -> None:
    heard = f"{said} {question}"
    # A CamelCase word is a term of the field and may be put in; a number or a path may not.
    if not all(_holds(heard, code) for code in words.identifiers(query) if not code.isalpha()):
        raise Rejected("invented an identifier")


def _check_language(query: str, question: str) -> None:
    script = words.script(question)
    if script and not words.uses_script(query, script):
        raise Rejected("other script")
    typed, written = words.language(question), words.language(query)
    if typed and written and typed != written and len(words.words(question)) > 3:
        raise Rejected("other language")


def _holds(text: str, identifier: str) -> bool:
    """Whether `text` holds an identifier, whatever its case and spaces; a number only where it ends there too."""
    code = _squeeze(identifier)
    if identifier.isalpha():
        code = code.removesuffix("s")  # A CamelCase word is a noun and has a plural.
    if code not in _squeeze(text):
        return False
    if not code or not (code[0].isdigit() or code[-1].isdigit()):
        return True
    starts = r"(?<![0-9])(?<![0-9]\.)" if code[0].isdigit() else ""
    ends = r"(?![0-9])" + (r"(?!\.[0-9])" if code.isdigit() else "") if code[-1].isdigit() else ""
    return re.search(starts + r"\s*".join(map(re.escape, code)) + ends, text.casefold()) is not None


def _squeeze(text: str) -> str:
    """`text` as codes are compared: no spaces, no case."""
    return "".join(text.casefold().split())
