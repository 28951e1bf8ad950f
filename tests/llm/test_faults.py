"""Every fault of an endpoint that is reached: what the asker gets, and that it comes from the fault."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from core.errors import ContextTooLong, ModelCut, ModelError, ModelGarbage, ModelRejected, ModelUnavailable
from core.llm import HttpChatModel
from tests.llm.asking import ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import OpenAIServer, Reply

BARE = {"role": False, "finish": None, "done": False, "usage": None}


def raw(body: str | bytes) -> Reply:
    """A reply with this stream, and nothing added."""
    return Reply(pieces=(body.encode() if isinstance(body, str) else body,), **BARE)  # type: ignore[arg-type]


def error_event(**error: object) -> Reply:
    return Reply(pieces=("4 bar", b"data: " + json.dumps({"error": error}).encode() + b"\n\n"))


HTML = "<!DOCTYPE html><html><body><h1>It works</h1></body></html>"
FAULTS: dict[str, tuple[Reply, type[ModelError], str]] = {
    # F13, B43, M6
    "reset in the middle": (Reply(pieces=("4 bar",), end="reset"), ModelCut, "4 bar"),
    "chunked body cut": (Reply(pieces=("4 bar",), end="cut"), ModelCut, "4 bar"),
    "clean end without a finish": (Reply(pieces=("4 bar",), end="close"), ModelCut, "4 bar"),
    "end inside an event": (
        Reply(pieces=("4 bar", b'data: {"choices": [{"del'), end="close"),
        ModelCut,
        "4 bar",
    ),
    "empty body": (Reply(body=""), ModelCut, ""),
    "comments and the end": (Reply(body=": ping\n\n"), ModelCut, ""),
    "given up by the server": (Reply(pieces=("4 bar",), finish="abort"), ModelCut, "4 bar"),
    "503 after the headers": (error_event(code=503, message="overloaded"), ModelUnavailable, "4 bar"),
    # F12
    "web page": (Reply(body=HTML), ModelGarbage, ""),
    "web page as a stream": (raw("\n  " + HTML), ModelGarbage, ""),
    "plain text": (Reply(body="Internal error, see the log."), ModelGarbage, ""),
    "broken JSON": (Reply(pieces=("4 bar", b"data: {oops}\n\n")), ModelGarbage, "4 bar"),
    "broken JSON without a stream": (Reply(body='{"choices": ['), ModelGarbage, ""),
    "JSON that is a list": (Reply(body="[1, 2]"), ModelGarbage, ""),
    "JSON nested out of all measure": (raw("data: " + "[" * 100_000 + "\n\n"), ModelGarbage, ""),
    "no choices": (raw('data: {"answer": "4 bar"}\n\ndata: [DONE]\n\n'), ModelGarbage, ""),
    "no choices in plain JSON": (Reply(body='{"answer": "4 bar"}'), ModelGarbage, ""),
    "only [DONE]": (raw("data: [DONE]\n\n"), ModelGarbage, ""),
    "a line of 1 MB": (Reply(pieces=("4 bar", b"data: " + b"x" * 1_000_001)), ModelGarbage, "4 bar"),
    "an event of 1 MB in short lines": (
        Reply(pieces=("4 bar", (b"data: " + b"x" * 1000 + b"\n") * 1001)),
        ModelGarbage,
        "4 bar",
    ),
    "a piece of 900,000 characters": (
        Reply(pieces=("4 bar", b'data: {"choices": [{"delta": {"content": "' + b"x" * 900_000 + b'"}}]}\n\n')),
        ModelGarbage,
        "4 bar",
    ),
    "100,000 empty pieces": (
        Reply(pieces=(b'data: {"choices": [{"delta": {"content": ""}}]}\n\n' * 100_000,)),
        ModelGarbage,
        "",
    ),
    "plain JSON of 3 MB": (
        Reply(body='{"padding": "' + "x" * 3_000_000 + '", "choices": [{"message": {"content": "4 bar"}}]}'),
        ModelGarbage,
        "",
    ),
    "unreadable compression": (
        Reply(body=b"not gzip", headers={"Content-Encoding": "gzip"}),
        ModelGarbage,
        "",
    ),
    # errors inside a stream
    "400 in the stream": (error_event(code=400, message="bad"), ModelRejected, "4 bar"),
    "too long, in the stream": (
        error_event(code=400, message="exceeds the model's maximum context length of 4096"),
        ContextTooLong,
        "4 bar",
    ),
    "an error of words": (error_event(message="Rate limit reached", type="x"), ModelUnavailable, "4 bar"),
    "an error line of old llama.cpp": (
        raw('error: {"code": 400, "message": "the request exceeds the available context size"}\n\n'),
        ContextTooLong,
        "",
    ),
    "an error in plain JSON": (Reply(body='{"error": "model is still loading"}'), ModelUnavailable, ""),
    "an error object of old vLLM": (
        Reply(body='{"object": "error", "message": "nope", "code": 400}'),
        ModelRejected,
        "",
    ),
}


@pytest.mark.parametrize(("reply", "error", "text"), FAULTS.values(), ids=list(FAULTS))
async def test_a_fault_gives_its_error_and_keeps_the_text_so_far(
    server: OpenAIServer, model: HttpChatModel, reply: Reply, error: type[ModelError], text: str
) -> None:
    server.script(reply)
    outcome = await ask(model)
    assert type(outcome.error) is error
    assert (outcome.text, outcome.finish) == (text, None)
    assert len(server.chats) == 1, "only failures before the headers are retried"
    message = str(outcome.error)
    assert "\n" not in message
    assert "html" not in message
    assert "oops" not in message


@pytest.mark.parametrize("reply", [reply for reply, *_ in FAULTS.values()], ids=list(FAULTS))
async def test_with_the_fault_switched_off_the_same_call_is_complete(
    server: OpenAIServer, model: HttpChatModel, reply: Reply
) -> None:
    server.nemesis = False
    server.script(reply)
    outcome = await ask(model)
    assert outcome.error is None
    assert outcome.finish is not None


@pytest.mark.parametrize("end", ["reset", "cut"])
async def test_a_connection_lost_after_the_finish_takes_nothing_away(
    server: OpenAIServer, model: HttpChatModel, end: str
) -> None:
    finish = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    server.script(Reply(pieces=("4 bar", finish), end=end))  # type: ignore[arg-type]
    outcome = await ask(model)
    assert (outcome.text, outcome.error) == ("4 bar", None)
    assert outcome.finish is not None


async def test_text_over_all_measure_is_stopped_in_bounded_memory(server: OpenAIServer, make_model: MakeModel) -> None:
    event = b'data: {"choices": [{"delta": {"content": "' + b"x" * 1000 + b'"}}]}\n\n'
    server.script(Reply(pieces=(event * 50,) * 400))  # 20 MB
    received = peak = 0
    tracemalloc.start()
    try:
        async for delta in make_model().stream(request()):
            received += len(delta.text)
    except ModelGarbage:
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert received <= 200_000
    assert 0 < peak < 8_000_000  # The server's own buffers included, which is in this process.
