"""Answers as Slack messages, within its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters import present
from adapters.slack import rendering
from adapters.slack.rendering import bodies, growing, waiting
from core.types import Answer, Citation, Query, QueryStatus
from tests.slack_server.limits import UPDATE_BYTES, check_message, texts_of

QUERY = Query(text="oil of the Kestrel pump", status=QueryStatus.SKIPPED)
KESTREL = Citation(number=1, title="Kestrel pump", source="kestrel.md", heading="Oil & more")
PAGE = Citation(number=2, title="The <page>", source="https://docs.example/p?a=1&b=2", heading="")


def answer(text: str, **fields: Any) -> Answer:
    return Answer(text=text, query=QUERY, **fields)


def made(text: str, **fields: Any) -> list[dict[str, Any]]:
    messages = [json.loads(body) for body in bodies(answer(text, **fields))]
    for message in messages:
        check_message(message, update=True)
    return messages


def test_the_last_message_has_remarks_sources_and_buttons():
    (message,) = made("It takes **0.8 L** [1].", citations=(KESTREL, PAGE), complete=False)
    section, context, actions, buttons = message["blocks"]
    assert [button["action_id"] for button in buttons["elements"]] == [rendering.QUERY, rendering.TRY_AGAIN]
    assert section["text"]["text"] == "It takes *0.8 L* [1]."
    assert context["elements"][0]["text"].split("\n") == [
        f"_{present.CUT_OFF}_",
        "[1] Kestrel pump &gt; Oil &amp; more (kestrel.md)",
        "[2] <https://docs.example/p?a=1&amp;b=2|The ‹page›>",
    ]
    assert actions["elements"][0]["type"] == "feedback_buttons"
    assert message["text"].startswith("It takes *0.8 L* [1].\n")


def test_a_stand_in_asks_for_no_feedback():
    (message,) = made("Please ask again later.", stand_in=True)
    assert [block["type"] for block in message["blocks"]] == ["section", "actions"]


def test_a_long_answer_is_whole_in_several_messages():
    words = [f"word{number}" for number in range(1500)]
    messages = made(" ".join(words))
    assert len(messages) > 3
    shown = " ".join(message["blocks"][0]["text"]["text"] for message in messages)
    assert shown.split() == words
    assert all(message["blocks"][1:] == [] for message in messages[:-1])


@pytest.mark.parametrize(
    "unit", ["& ", "<@U1> ", "北京", "👩‍👩‍👧", "| a | bbbbbbbbbbbbbbbbbbbbbbb |\n", "[p](https://x.example/) "]
)
def test_what_grows_by_escaping_still_fits(unit: str):
    head = "| a | b |\n|---|---|\n" if unit.startswith("|") else ""
    messages = made(head + unit * (9_000 // len(unit)))
    assert all(len(message["text"].encode()) <= UPDATE_BYTES for message in messages)


def test_a_link_is_whole_in_one_message():
    link = "[the page](https://x.example/page)"
    for padding in range(2_760, 2_800, 4):
        messages = made("x" * padding + f" {link} and **bold words** `code` after it. " + "y " * 600)
        shown = [message["blocks"][0]["text"]["text"] for message in messages]
        assert sum("<https://x.example/page|the page>" in text for text in shown) == 1
        assert all(text.count("*") % 2 == 0 and text.count("`") % 2 == 0 for text in shown)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.integers(1, 30))
def test_no_text_is_refused(text: str, times: int):
    if text.strip():
        made(text * times, citations=(KESTREL,))


def test_many_long_sources_are_cut_and_not_refused():
    many = tuple(Citation(number=n, title="T" * 300, source="s" * 200, heading="") for n in range(1, 60))
    (message,) = made("Yes.", citations=many)
    assert "[1] TTT" in message["blocks"][1]["elements"][0]["text"]


@pytest.mark.parametrize("text", ["It takes", "x " * 9_000, "```py\nx = 1", "<!ch", "|", "\n"])
def test_what_grows_fits_and_is_defused(text: str):
    message = json.loads(growing(text))
    check_message(message, update=True)
    assert "<!" not in " ".join(texts_of(message["blocks"]))


def test_a_word_of_waiting_fits():
    check_message(json.loads(waiting("Queued, 3 ahead, about 40 s")), update=True)
