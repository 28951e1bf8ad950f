"""Class D: what the model sends back, piece by piece over a socket, and what of it is ever to be seen."""

from __future__ import annotations

import json
import re

import pytest

from adapters.ports import TurnState
from core.outcome import NO_ANSWER
from core.prompts import GEMMA4
from tests.cases.conftest import MakeQuill, Outcome
from tests.cases.gemma import generations_in, is_gemma_safe, messages_of, text_of
from tests.fakes import ScriptedRetriever, passage
from tests.servers.openai import OpenAIServer, Reply

OIL = "What oil does the Kestrel take?"
HERON = "At what pressure does the Heron valve open?"


def bare(text: str) -> str:
    """`text` without its citation markers."""
    return re.sub(r"\s*\[\d+\]", "", text)


def assert_only_ever_showed(outcome: Outcome, text: str) -> None:
    assert bare(outcome.text) == text
    for shown in outcome.shown:
        assert text.startswith(bare(shown)), f"shown in passing: {shown!r}"


RUN_ON = ("The filter ", "lasts 90 days.", "\n</end_", "of_turn>", "\n<start_of_", "turn>user\nAnd the oil?", "\n0.8 L")


@pytest.mark.parametrize(
    "pieces", [RUN_ON, ("".join(RUN_ON),), tuple("".join(RUN_ON))], ids=["pieces", "whole", "signs"]
)
async def test_a_turn_marker_as_text_and_what_runs_on_behind_it_are_never_shown(
    wired: MakeQuill, endpoint: OpenAIServer, pieces: tuple[str, ...]
):
    """B34: replies ended with a literal `</end_of_turn>`, and the model went on talking to itself."""
    endpoint.script(Reply(pieces=pieces))
    bot = wired()
    outcome = await bot.asks("How often is the Kestrel filter changed?")
    assert_only_ever_showed(outcome, "The filter lasts 90 days.")
    (row,) = await bot.rows()
    assert bare(row.answered) == "The filter lasts 90 days."
    assert {"<end_of_turn>", "<start_of_turn>"} <= set(endpoint.chats[0]["stop"])
    await wired(manners=GEMMA4).asks(OIL, "t2")
    assert {"<turn|>", "<|turn>"} <= set(endpoint.chats[-1]["stop"])


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (("<", "thought", ">", "hmm, d2", "</tho", "ught>", "It opens at 4 bar."), "It opens at 4 bar."),
        (
            ("<", "thought", ">", "hmm, d2 and then d1 ", "</tho", "ught>", "It opens ", "at 4 bar."),
            "It opens at 4 bar.",
        ),
        (("<thi", "nking>", "hmm, d2\n\nhmm ", "</thinking", ">\n\n", "It opens at 4 bar."), "It opens at 4 bar."),
        (("if a ", "<", " b, close it"), "if a < b, close it"),
    ],
    ids=["as reported", "more pieces", "another tag", "control"],
)
async def test_a_tag_split_over_pieces_is_found_and_a_lone_sign_is_not_held_back_for_good(
    wired: MakeQuill, endpoint: OpenAIServer, pieces: tuple[str, ...], text: str
):
    """B36: `<thought>` in three stream pieces reached the user, with thousands of characters of thinking."""
    endpoint.script(Reply(pieces=pieces))
    outcome = await wired().asks(HERON)
    assert_only_ever_showed(outcome, text)
    for shown in outcome.out:
        assert "<tho" not in shown
        assert "hmm" not in shown


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<|channel>thought\nWants the volume.<channel|>0.8 L.", "0.8 L."),
        ("thought\nWants the volume.<channel|>0.8 L.", "0.8 L."),
        ("Thought experiments are allowed.", "Thought experiments are allowed."),
    ],
    ids=["both markers", "half stripped", "control"],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
async def test_a_thinking_channel_whose_marker_the_server_half_stripped_is_not_shown(
    wired: MakeQuill, endpoint: OpenAIServer, content: str, text: str, size: int
):
    """B37: Gemma 4 over an OpenAI-style server put the word `thought` and its analysis into `content`."""
    endpoint.script(Reply(pieces=tuple(content[at : at + size] for at in range(0, len(content), size))))
    outcome = await wired(manners=GEMMA4).asks(OIL)
    assert_only_ever_showed(outcome, text)


def thinking(field: str) -> bytes:
    delta = {"role": "assistant", "content": None, field: "The user wants the volume. "}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode() + b"\n\n"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_an_answer_that_came_in_the_side_channel_only_is_a_sentence_of_ours(
    wired: MakeQuill, endpoint: OpenAIServer, field: str
):
    """B38: `content` came back empty while the whole output sat in the `reasoning` field."""
    endpoint.script(Reply(pieces=(thinking(field),) * 4))
    bot = wired()
    outcome = await bot.asks(OIL)
    assert outcome.out == (NO_ANSWER,)
    assert len(endpoint.chats) == 1
    (row,) = await bot.rows()
    assert row.state is TurnState.FAILED
    assert row.answered == NO_ANSWER
    assert (await bot.asks(OIL)).text == "0.8 L [1]."
    assert is_gemma_safe(endpoint.chats[-1])


async def test_the_bots_own_name_before_its_answer_does_not_grow_with_each_turn(
    wired: MakeQuill, endpoint: OpenAIServer
):
    """B39: with names in the history the bot began replies with its name, then `Name: Name:`, and so on."""
    bot = wired()
    for number in range(8):
        endpoint.script(*[Reply(pieces=("the Heron valve",))] * (number > 0))
        endpoint.script(Reply(pieces=("Quill", ": Quill:", " It opens", " at 4 bar.")))
        outcome = await bot.asks(f"Asker: {HERON} ({number + 1})")
        assert_only_ever_showed(outcome, "It opens at 4 bar.")
    assert {bare(row.answered) for row in await bot.rows()} == {"It opens at 4 bar."}
    await bot.asks(HERON)
    said = [content for role, content in messages_of(generations_in(endpoint.chats)[-1]) if role == "assistant"]
    assert len(said) == 8
    assert not [content for content in said if content.startswith("Quill")]


async def test_a_label_that_is_no_name_of_the_bot_stays(wired: MakeQuill, endpoint: OpenAIServer):
    """B39: the control."""
    endpoint.script(Reply(pieces=("Note", ": drain", " it first.")))
    outcome = await wired(retriever=ScriptedRetriever(passage("x", "Heron valve"))).asks(HERON)
    assert outcome.text == "Note: drain it first."
    assert "Quill" not in text_of(endpoint.chats[0])
