"""Class E: the wire, from the socket to what is shown and stored."""

from __future__ import annotations

import json
import math

import pytest

from adapters.ports import TurnState
from adapters.present import AT_LIMIT, CUT_OFF, remarks
from core.outcome import MODEL_DOWN
from core.pipeline import Limits
from core.types import FinishReason, Usage
from core.window import MARGIN, estimate_tokens
from tests.cases.conftest import MakeQuill
from tests.cases.gemma import SUMMARY, context_of, generations_in, is_gemma_safe, messages_of, summaries_in, text_of
from tests.fakes import ScriptedRetriever, passage
from tests.servers.openai import OpenAIServer, Reply
from tests.servers.replies import Fault

OIL = "What oil does the Kestrel take?"


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


ROLE, ONE, TWO = delta(role="assistant", content=""), delta(content="It takes "), delta(content="0.8 L [1].")
USAGE = {"choices": [], "usage": {"prompt_tokens": 431, "completion_tokens": 7}}
DONE = b"data: [DONE]\n\n"
WHOLE = sse(ONE, TWO, delta("stop"), USAGE) + DONE
STREAMS = {
    "usage alone in a last event without choices": WHOLE,
    "a first piece with the role only": sse(ROLE) + WHOLE,
    "comment lines": b": ping\n\n" + WHOLE.replace(b"\n\n", b"\n\n: ping\n\n"),
    "CRLF line ends": WHOLE.replace(b"\n", b"\r\n"),
    "no final done line": WHOLE.removesuffix(DONE),
    "all of it at once": b": ping\r\n\r\n" + (sse(ROLE) + WHOLE.removesuffix(DONE)).replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("chunk", [0, 1], ids=["whole events", "one byte at a time"])
async def test_every_dialect_of_a_stream_is_shown_and_stored_the_same(
    wired: MakeQuill, endpoint: OpenAIServer, stream: bytes, chunk: int
):
    """B40: the last chunk held usage only and no choices, and the client crashed at the very end."""
    endpoint.script(Reply(pieces=(stream,), role=False, finish=None, usage=None, done=False, chunk=chunk))
    bot = wired()
    outcome = await bot.asks(OIL)
    assert outcome.text == "It takes 0.8 L [1]."
    assert outcome.answer.complete
    assert outcome.answer.usage == Usage(prompt_tokens=431, completion_tokens=7)
    (row,) = await bot.rows()
    assert (row.answered, row.state) == (outcome.text, TurnState.ANSWERED)


async def test_a_stream_without_done_and_without_a_finish_is_not_taken_for_whole(
    wired: MakeQuill, endpoint: OpenAIServer
):
    """B40: being forgiving must not go so far that a cut stream is complete."""
    endpoint.script(Reply(pieces=(sse(ONE, TWO),), role=False, end="close"))
    outcome = await wired().asks(OIL)
    assert outcome.text.startswith("It takes 0.8 L")
    assert not outcome.answer.complete


async def test_characters_cut_between_two_reads_are_shown_and_stored_whole(wired: MakeQuill, endpoint: OpenAIServer):
    """B41: a character of several bytes cut between two network reads came out as replacement signs."""
    endpoint.script(Reply(pieces=("Größe 北京 🌍",), chunk=1))
    bot = wired()
    outcome = await bot.asks(OIL)
    (row,) = await bot.rows()
    assert outcome.text == row.answered == "Größe 北京 🌍"
    assert "\ufffd" not in "".join(outcome.out)


@pytest.mark.parametrize("end", ["close", "cut", "reset"])
async def test_a_connection_dropped_in_the_middle_keeps_the_part_that_came_marked_as_cut_off(
    wired: MakeQuill, endpoint: OpenAIServer, end: Fault
):
    """B43: the part already received was lost in an exception."""
    endpoint.script(Reply(pieces=("Change the filter every ", 0.05, "90 days ", 0.05, "and"), end=end))
    bot = wired()
    outcome = await bot.asks(OIL)
    assert outcome.text == "Change the filter every 90 days and"
    assert CUT_OFF in remarks(outcome.answer)
    assert outcome.shown == ("Change the filter every", "Change the filter every 90 days")
    assert len(endpoint.chats) == 1
    (row,) = await bot.rows()
    assert (row.state, row.answered) == (TurnState.INCOMPLETE, outcome.text)
    await bot.asks("and the oil?")
    assert is_gemma_safe(endpoint.chats[-1])
    assert CUT_OFF not in text_of(endpoint.chats[-1])


async def test_the_cut_off_mark_is_printed_behind_the_part(wired: MakeQuill, endpoint: OpenAIServer):
    """B43: and the asker can see that it is no whole answer."""
    endpoint.script(Reply(pieces=("Change the filter every ", "90 days ", "and"), end="cut"))
    out = await wired().at_a_pipe(OIL)
    assert f"Change the filter every 90 days and\n{CUT_OFF}\n" in out


async def test_a_long_conversation_is_cut_by_us_and_by_whole_turns_from_the_oldest(
    wired: MakeQuill, endpoint: OpenAIServer
):
    """B44: Ollama cut the front of a long prompt in silence, instructions and early turns were gone."""
    turns = [(f"q{number:02} " + "word " * 149, f"a{number:02} " + "word " * 149) for number in range(30)]
    pages = [passage(f"p{number}", f"Kestrel page {number} " + "oil " * 397) for number in range(6)]
    limits = Limits(context_tokens=4096, answer_tokens=512, passages=6)
    bot = wired(retriever=ScriptedRetriever(*pages), limits=limits)
    await bot.knows(*turns)
    assert (await bot.asks(OIL)).answer.complete
    body = generations_in(endpoint.chats)[-1]
    estimate = sum(estimate_tokens(content) for _, content in messages_of(body))
    assert estimate <= math.floor(4096 * (1 - MARGIN)) - 512
    assert body["max_tokens"] == 512
    assert messages_of(body)[0][1].startswith("You answer questions")
    assert messages_of(body)[-1][1].endswith(f"Question: {OIL}")
    assert "Kestrel page 0" in context_of(body)
    assert is_gemma_safe(body)
    said = [content.rsplit("\n\n")[-1][:3] for _, content in messages_of(body)[:-1]]
    kept = len(said) // 2
    assert 0 < kept < 30
    assert said == [mark for number in range(30 - kept, 30) for mark in (f"q{number:02}", f"a{number:02}")]


async def test_a_prompt_that_the_endpoint_cut_in_silence_is_told_with_the_setting(
    wired: MakeQuill, endpoint: OpenAIServer, logged: pytest.LogCaptureFixture
):
    """B44: only the count of prompt tokens tells."""
    pages = [passage(f"p{number}", f"Kestrel page {number} " + "oil and water " * 150) for number in range(4)]
    endpoint.default = lambda body: Reply(
        pieces=("Made up [1].",), usage={"prompt_tokens": 300, "completion_tokens": 3}
    )
    bot = wired(retriever=ScriptedRetriever(*pages), limits=Limits(context_tokens=8000))
    assert (await bot.asks(OIL)).text.startswith(MODEL_DOWN)
    assert "LLM_CONTEXT_TOKENS" in logged.text
    (row,) = await bot.rows()
    assert row.state is TurnState.FAILED


DENSE = (
    "北京的油泵每九十天更换一次过滤器，压力为六巴。" * 12
    + "SELECT o.id, o.oil_l FROM pumps AS o WHERE o.name = 'Kestrel' AND o.bar >= 6;\n" * 3
    + "🛢️🔧👩‍🔧" * 12
)


async def test_a_prompt_over_the_real_context_is_tried_once_more_with_less_and_the_thread_goes_on(
    wired: MakeQuill, endpoint: OpenAIServer
):
    """B45: the token estimate was too low, so the request was refused with 400 and so was the next."""
    endpoint.count, endpoint.context_tokens = len, 2000
    pages = [passage(f"p{number}", f"Kestrel {DENSE[:300]}") for number in range(3)]
    bot = wired(retriever=ScriptedRetriever(*pages))
    await bot.knows(*[(f"Kestrel {number}? {DENSE}", DENSE) for number in range(6)])
    outcome = await bot.asks(OIL)
    tries = [len(text_of(body)) for body in generations_in(endpoint.chats)]
    assert len(tries) == 2
    assert tries[1] <= 2000 < tries[0]
    assert outcome.text == "0.8 L [1]."
    assert outcome.answer.kept.passages > 0
    assert (await bot.asks("Kestrel?")).answer.complete


async def test_a_summary_over_the_real_context_is_tried_once_more_with_less_and_loses_nothing(
    wired: MakeQuill, endpoint: OpenAIServer
):
    """B45: compaction crashed as well."""
    endpoint.count, endpoint.context_tokens = len, 2000
    bot = wired()
    await bot.knows(*[(f"Kestrel {number}? {DENSE}", DENSE) for number in range(6)])
    await bot.summarizes()
    tries = [len(text_of(body)) for body in summaries_in(endpoint.chats)]
    assert len(tries) == 2
    assert tries[1] < tries[0]
    held = await bot.store.backlog(bot.inbound("").thread)
    assert held is not None
    # What could not be condensed is not gone: it stays as it was, and is tried again later.
    assert (held.summary, len(held.turns)) in ((SUMMARY, 4), ("", 6))


async def test_a_usual_finish_is_told_from_a_cut_at_the_limit(wired: MakeQuill, endpoint: OpenAIServer):
    """B43: an answer that reached its own limit is whole as a stream, and marked all the same."""
    endpoint.script(Reply(pieces=("Change the filter every",), finish="length"))
    outcome = await wired().asks(OIL)
    assert outcome.answer.complete
    assert [mark.reason for mark in outcome.answer.degraded] == [FinishReason.LENGTH.value]
    assert AT_LIMIT in remarks(outcome.answer)
