"""What is shown of an answer while it is written."""

from __future__ import annotations

from itertools import pairwise

from core.generate import generate
from core.output import Hygiene
from core.types import ChatRequest, Message
from tests.fakes import Reply, ScriptedModel

REQUEST = ChatRequest(messages=(Message(role="user", content="?"),), max_tokens=100, purpose="generate")
PAUSE = 0.02


async def shown_of(reply: Reply) -> tuple[list[str], str]:
    """What was shown, and the answer."""
    shown: list[str] = []

    async def show(text: str) -> None:
        shown.append(text)

    hygiene = Hygiene(passages=(), question="?")
    return shown, (await generate(ScriptedModel(generate=[reply]), REQUEST, hygiene, show)).text


async def test_all_that_has_come_is_shown_before_the_model_pauses():
    shown, text = await shown_of(["one ", "two ", PAUSE, "three ", PAUSE, "four ", "five ", "six ", PAUSE, "seven"])
    assert shown == ["one two", "one two three", "one two three four five six"]
    assert text == "one two three four five six seven"


async def test_pieces_faster_than_they_can_be_cleaned_are_cleaned_together_and_none_is_lost():
    pieces = [f"word{n} " for n in range(500)]
    shown, text = await shown_of(pieces)
    assert len(shown) < 50
    assert all(after.startswith(before) for before, after in pairwise([*shown, text]))
    assert text == "".join(pieces).strip()
