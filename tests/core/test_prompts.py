"""The order of the generator's prompt and the manners of each family."""

from __future__ import annotations

import pytest

from core.prompts import BASE, CONTEXT_CLOSE, CONTEXT_OPEN, GEMMA3, GEMMA4, PROFILES, TRAINED, Manners, generate_request
from core.types import ChatRequest, Turn
from tests.fakes import HERON, KESTREL

HISTORY = (Turn(question="What is the Heron valve?", answer="A valve."), Turn(question="Its kit?", answer="HV-12."))
ASKED = "when does it open??"


def request(manners: Manners = GEMMA3, *, history: tuple[Turn, ...] = HISTORY, nonce: str = "5f2a") -> ChatRequest:
    summary, passages = "They talked of pumps.", (HERON, KESTREL)
    return generate_request(ASKED, history, summary, passages, manners, nonce=nonce, max_tokens=200)


@pytest.mark.parametrize("manners", PROFILES.values())
def test_the_order_is_instructions_summary_turns_context_question_and_the_typed_words_last(manners):
    text = "\n".join(message.content for message in request(manners).messages)
    places = [
        text.index("context" if manners.flat else "You answer questions"),
        text.index("They talked of pumps."),
        text.index("What is the Heron valve?"),
        text.index("Its kit?"),
        text.rindex(CONTEXT_OPEN + " 5f2a"),
        text.rindex("[1] Page d2"),
        text.rindex("[2] Page d1"),
        text.rindex(CONTEXT_CLOSE + " 5f2a"),
        text.rindex("Question:"),
        text.rindex(ASKED),
    ]
    assert places == sorted(places)
    assert text.removesuffix("\nAnswer:").endswith(f"Question: {ASKED}")


@pytest.mark.parametrize("history", [(), HISTORY])
def test_gemma_3_gets_no_system_role_and_strictly_alternating_messages(history):
    messages = request(GEMMA3, history=history).messages
    assert [m.role for m in messages] == (["user", "assistant"] * len(history)) + ["user"]
    assert messages[0].content.startswith("You answer questions")
    assert sum("You answer questions" in m.content for m in messages) == 1
    assert all(m.content.strip() for m in messages)


def test_gemma_4_gets_one_system_message_in_front():
    roles = [m.role for m in request(GEMMA4).messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]


def test_no_passage_is_ever_in_a_system_message():
    for message in request(GEMMA4).messages:
        assert message.role != "system" or "opens at 4 bar" not in message.content


def test_what_stands_before_the_context_is_the_same_from_turn_to_turn():
    for manners in PROFILES.values():
        now = "\0".join(m.content for m in request(manners, nonce="aaaa").messages)
        then_history = (*HISTORY, Turn(question=ASKED, answer="At 4 bar."))
        then = "\0".join(m.content for m in request(manners, history=then_history, nonce="bbbb").messages)
        assert then.startswith(now[: now.rindex(CONTEXT_OPEN)])


def test_the_turn_markers_are_sent_as_stop_strings():
    assert set(request(GEMMA3).stop) == {"<end_of_turn>", "<start_of_turn>"}
    assert set(request(GEMMA4).stop) == {"<turn|>", "<|turn>"}
    assert len(request(BASE).stop) <= 4


def test_a_trained_model_gets_no_instructions_and_ends_with_its_line():
    asked = request(TRAINED)
    (message,) = asked.messages
    assert message.content.startswith("Answers with sources:\nUser: What is the Heron valve?\n")
    assert message.content.endswith(f"\nQuestion: {ASKED}\nAnswer:")
    assert asked.stop == ("\n",)
