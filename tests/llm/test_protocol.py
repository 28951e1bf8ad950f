"""The request that is sent, and every dialect in which a good reply may come."""

from __future__ import annotations

import asyncio
import json

import pytest

from core.llm import HttpChatModel
from core.types import FinishReason, Usage
from tests.llm.asking import ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import MODELS, OpenAIServer, Reply


def event(choices: list[object] | None = None, **fields: object) -> bytes:
    return b"data: " + json.dumps({"choices": choices or [], **fields}).encode() + b"\n\n"


def piece(text: object, finish: object = None, **delta: object) -> bytes:
    return event([{"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish}])


USAGE = {"prompt_tokens": 12, "completion_tokens": 3}
DONE = b"data: [DONE]\n\n"
USAGE_EVENT = event(usage=USAGE)
GOOD = piece("It opens ") + piece("at 4 bar.") + piece("", "stop") + USAGE_EVENT + DONE
DIALECTS = {
    "usage alone in an event without choices": GOOD,
    "a role before the text": piece(None, role="assistant") + GOOD,
    "comments between the events": b": ping\n\n" + GOOD.replace(b"\n\n", b"\n\n: OPENROUTER PROCESSING\n\n"),
    "CRLF line ends": GOOD.replace(b"\n", b"\r\n"),
    "CR line ends": GOOD.replace(b"\n", b"\r"),
    "no space after the colon": GOOD.replace(b"data: ", b"data:"),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "no final blank line": GOOD.removesuffix(b"\n\n"),
    "no [DONE]": GOOD.removesuffix(DONE),
    "no finish reason": GOOD.replace(b'"stop"', b"null"),
    "an empty finish reason": GOOD.replace(b"null", b'""'),
    "event and id lines": GOOD.replace(b"data:", b"event: message\nid: 7\nretry: 10\ndata:"),
    "data over several lines": GOOD.replace(b', "delta"', b',\ndata: "delta"'),
    "usage in each event": piece("It opens at 4 bar.").replace(b"}\n", b', "usage": {"prompt_tokens": 12}}\n')
    + piece("", "stop")
    + USAGE_EVENT
    + DONE,
    "usage with the finish": piece("It opens at 4 bar.")
    + event([{"delta": {}, "finish_reason": "stop"}], usage=USAGE)
    + DONE,
    "content in parts": piece([{"type": "text", "text": "It opens "}, {"type": "image"}, "at 4 bar."])
    + piece("", "eos")
    + USAGE_EVENT,
    "reasoning beside the text": piece(None, reasoning="Hm, 4?") + piece(None, reasoning_content="The valve.") + GOOD,
    "a null error and null usage": event(error=None, usage=None) + GOOD,
    "nonsense after the finish": GOOD.replace(DONE, b"data: {oops\n\n"),
    "a whole message in the stream": event(
        [{"message": {"content": "It opens at 4 bar."}, "finish_reason": "stop"}], usage=USAGE
    ),
}


@pytest.mark.parametrize("body", DIALECTS.values(), ids=list(DIALECTS))
@pytest.mark.parametrize("chunk", [0, 7])
async def test_every_dialect_of_a_good_reply_gives_the_same_answer(
    server: OpenAIServer, model: HttpChatModel, body: bytes, chunk: int
) -> None:  # B40
    server.script(Reply(pieces=(body,), finish=None, usage=None, done=False, chunk=chunk))
    outcome = await ask(model)
    assert outcome.error is None
    assert (outcome.text, outcome.finish) == ("It opens at 4 bar.", FinishReason.STOP)
    assert outcome.usage == Usage(prompt_tokens=12, completion_tokens=3)


async def test_characters_cut_between_two_reads_arrive_whole(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(pieces=("Größe ", "北京 🌍"), chunk=1))  # B41
    assert (await ask(model)).text == "Größe 北京 🌍"


async def test_invalid_utf8_is_replaced_and_the_rest_is_kept(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(pieces=(piece("4 bar").replace(b"4", b"\xff"),)))
    assert (await ask(model)).text == "\ufffd bar"


async def test_plain_json_in_place_of_a_stream_is_one_piece(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(pieces=("4 ", "bar"), plain=True, finish="length"))
    outcome = await ask(model)
    assert (outcome.text, outcome.finish) == ("4 bar", FinishReason.LENGTH)
    assert outcome.usage is not None


async def test_reasoning_alone_is_an_empty_reply_and_not_shown(server: OpenAIServer, model: HttpChatModel) -> None:
    for field in ("reasoning", "reasoning_content"):  # B38
        server.script(Reply(pieces=(piece(None, **{field: "Hm, the valve."}),)))
        outcome = await ask(model)
        assert (outcome.text, outcome.finish) == ("", FinishReason.STOP)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.FILTERED),
        ("tool_calls", FinishReason.STOP),
    ],
)
async def test_finish_reasons_are_told_apart(
    server: OpenAIServer, model: HttpChatModel, reason: str, finish: FinishReason
) -> None:
    server.script(Reply(finish=reason))
    assert (await ask(model)).finish is finish


async def test_an_unknown_finish_reason_is_logged(
    server: OpenAIServer, model: HttpChatModel, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(Reply(finish="bored"))
    await ask(model)
    assert "'bored'" in caplog.text


@pytest.mark.parametrize(
    ("fields", "cached"),
    [
        ({"usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 9}}}, 9),
        ({"usage": USAGE, "timings": {"cache_n": 8}}, 8),
        ({"usage": {**USAGE, "prompt_tokens_details": None}}, None),
    ],
)
async def test_cached_tokens_are_found_where_vllm_and_llama_cpp_tell_them(
    server: OpenAIServer, model: HttpChatModel, fields: dict[str, object], cached: int | None
) -> None:
    server.script(Reply(pieces=("4 bar", event([], **fields)), usage=None))
    usage = (await ask(model)).usage
    assert usage == Usage(prompt_tokens=12, completion_tokens=3, cached_tokens=cached)


@pytest.mark.parametrize("order", [1, -1])
async def test_cached_tokens_are_found_when_they_come_apart_from_the_usage(
    server: OpenAIServer, model: HttpChatModel, order: int
) -> None:
    told = [event([], usage=USAGE), event([], timings={"cache_n": 8})][::order]
    server.script(Reply(pieces=("4 bar", *told), usage=None))
    usage = (await ask(model)).usage
    assert usage is not None
    assert usage.cached_tokens == 8


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ([{"usage": {"prompt_tokens": 12}}, {"usage": {"completion_tokens": 3}}], (12, 3, None)),
        ([{"usage": USAGE}, {"usage": {"cost": 0.1}}], (12, 3, None)),
        ([{"usage": {**USAGE, "prompt_tokens": 2**63}}], (0, 3, None)),
        ([{"usage": USAGE, "timings": {"cache_n": 10**400}}], (12, 3, None)),
        (
            [{"usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": None}}, "timings": {"cache_n": 4}}],
            (12, 3, 4),
        ),
    ],
)
async def test_a_number_that_is_told_once_stays_and_one_that_cannot_be_is_none(
    server: OpenAIServer, model: HttpChatModel, told: list[dict[str, object]], usage: tuple[int, int, int | None]
) -> None:
    server.script(Reply(pieces=("4 bar", *(event([], **fields) for fields in told)), usage=None))
    prompt, completion, cached = usage
    said = await ask(model)
    assert said.error is None
    assert said.usage == Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)


async def test_usage_is_handed_on_as_the_endpoint_counts_it_or_not_at_all(
    server: OpenAIServer, model: HttpChatModel
) -> None:  # T12: the pipeline compares it with its own estimate
    server.script(Reply(), Reply(usage="halved"), Reply(usage=None), Reply(usage={"prompt_tokens": "many"}))
    usages = [(await ask(model)).usage for _ in range(4)]
    assert usages[0] is not None
    assert usages[1] is not None
    assert usages[1].prompt_tokens == usages[0].prompt_tokens // 2
    assert usages[2] is None
    assert usages[3] == Usage()


async def test_the_request_asks_for_a_reproducible_stream_with_usage(
    server: OpenAIServer, make_model: MakeModel
) -> None:  # B10
    model = make_model(extra_body={"rewrite": {"id_slot": 0, "cache_prompt": True, "stream": False}})
    await ask(model, request("Kestrel?", purpose="rewrite", stop=("a", "b", "c", "d", "e")))
    await ask(model, request(temperature=0.7))
    assert server.chats[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "Kestrel?"}],
        "max_tokens": 50,
        "temperature": 0.0,
        "seed": 0,
        "n": 1,
        "stop": ["a", "b", "c", "d"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "id_slot": 0,
        "cache_prompt": True,
    }
    assert {"seed", "stop", "id_slot"}.isdisjoint(server.chats[1])


async def test_half_a_surrogate_pair_in_the_prompt_does_not_break_the_request(
    server: OpenAIServer, model: HttpChatModel
) -> None:
    assert (await ask(model, request("a\ud83db"))).error is None
    assert server.chats[0]["messages"][0]["content"] == "a?b"


async def test_a_server_that_refuses_stream_options_is_asked_without_from_then_on(
    server: OpenAIServer, model: HttpChatModel
) -> None:
    server.script(Reply(status=400, body='{"error": {"message": "Unknown parameter: stream_options"}}'))
    assert (await ask(model)).text == "Yes."
    assert (await ask(model)).usage is None
    assert ["stream_options" in body for body in server.chats] == [True, False, False]


async def test_without_a_model_the_endpoint_is_asked_once(server: OpenAIServer, make_model: MakeModel) -> None:
    model = make_model(model="")
    for _ in range(3):
        await ask(model)
    assert [body["model"] for body in server.chats] == ["test-model"] * 3
    assert [record.path for record in server.requests].count(MODELS) == 1


async def test_a_model_that_the_endpoint_no_longer_serves_is_asked_for_anew(
    server: OpenAIServer, make_model: MakeModel
) -> None:
    model = make_model(model="")
    await ask(model)
    server.model = "newer-model"
    server.script(Reply(status=404, body='{"error": "model not found"}'))
    assert (await ask(model)).error is not None
    await ask(model)
    assert server.chats[-1]["model"] == "newer-model"


async def test_a_rush_leaves_only_a_few_idle_connections(server: OpenAIServer, model: HttpChatModel) -> None:
    server.default = lambda body: Reply(delay=0.05)
    await asyncio.gather(*(ask(model) for _ in range(20)))
    assert server.max_in_flight == 20
    await server.until(lambda: server.connections <= 8)
    assert (await ask(model)).error is None


async def test_connections_are_used_again(server: OpenAIServer, model: HttpChatModel) -> None:
    for _ in range(3):
        await ask(model)
    assert len({record.port for record in server.requests}) == 1
