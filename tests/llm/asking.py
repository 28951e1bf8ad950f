"""Short ways to ask a model in a test."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import ModelError
from core.ports import ChatModel
from core.types import ChatRequest, Delta, FinishReason, Message, Usage


@dataclass(frozen=True)
class Outcome:
    """What came of a call: the text, and either a finish or an error."""

    text: str
    finish: FinishReason | None
    usage: Usage | None
    error: ModelError | None


def request(
    text: str = "What is the rated pressure?",
    *,
    purpose: str = "generate",
    temperature: float = 0.0,
    stop: tuple[str, ...] = (),
) -> ChatRequest:
    """A request of one message."""
    messages = (Message(role="user", content=text),)
    return ChatRequest(messages=messages, max_tokens=50, purpose=purpose, temperature=temperature, stop=stop)


async def ask(model: ChatModel, asked: ChatRequest | None = None) -> Outcome:
    """Reads a reply to its end."""
    deltas: list[Delta] = []
    error = None
    try:
        async for delta in model.stream(asked or request()):
            deltas.append(delta)  # noqa: PERF401 - what came before an error is kept
    except ModelError as raised:
        error = raised
    last = deltas[-1] if deltas else Delta()
    assert not any(delta.finish for delta in deltas[:-1])
    return Outcome("".join(delta.text for delta in deltas), last.finish, last.usage, error)
