"""What an endpoint tells of itself, at start-up and to `doctor`."""

from __future__ import annotations

import json

import pytest

from core.errors import ModelError, ModelGarbage, ModelRejected, ModelUnavailable
from core.llm import EndpointInfo, HttpChatModel
from tests.llm.asking import ask
from tests.llm.conftest import MakeModel
from tests.servers.openai import MODELS, OpenAIServer, Reply


async def test_vllm_tells_its_context_with_the_models(server: OpenAIServer, model: HttpChatModel) -> None:
    server.context_tokens = 8192
    assert await model.describe() == EndpointInfo(reachable=True, models=("test-model",), context_tokens=8192)


async def test_llama_cpp_tells_the_context_of_a_slot_at_its_root(server: OpenAIServer, model: HttpChatModel) -> None:
    server.props = {"default_generation_settings": {"n_ctx": 4096}}
    assert (await model.describe()).context_tokens == 4096


async def test_the_context_is_that_of_the_model_in_use(server: OpenAIServer, make_model: MakeModel) -> None:
    listing = {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "meta": {"n_ctx": 2}}]}
    server.script(Reply(body=json.dumps(listing)), path=MODELS)
    info = await make_model(model="b").describe()
    assert (info.models, info.context_tokens) == (("a", "b"), 2)


async def test_special_tokens_are_read_from_vllm_and_llama_cpp(server: OpenAIServer, model: HttpChatModel) -> None:
    server.props = {"bos_token": "<bos>", "eos_token": "<end_of_turn>"}
    server.tokenizer_info = {
        "eos_token": {"content": "<eos>"},
        "additional_special_tokens": ["<start_of_image>", 7],
        "added_tokens_decoder": {
            "1": {"content": "<weird>", "special": True},
            "2": {"content": "plain", "special": False},
            "3": "no object",
        },
    }
    told = (await model.describe()).special_tokens
    assert told == ("<bos>", "<end_of_turn>", "<eos>", "<start_of_image>", "<weird>")


@pytest.mark.parametrize("body", ["{}", "[]", '{"data": null}', '{"data": [7, {"id": null}, {"max_model_len": true}]}'])
async def test_missing_parts_are_no_error(server: OpenAIServer, model: HttpChatModel, body: str) -> None:
    server.script(Reply(body=body), path=MODELS)
    server.script(Reply(body="<html>"), path="/props")
    assert await model.describe() == EndpointInfo(reachable=True)


async def test_an_endpoint_without_a_list_of_models_is_reachable(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(status=404), path=MODELS)
    assert (await model.describe()).models == ()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=401), ModelRejected),
        (Reply(status=503), ModelUnavailable),
        (Reply(before="reset"), ModelUnavailable),
        (Reply(body="<html>"), ModelGarbage),
        (Reply(body="[" * 100_000), ModelGarbage),
    ],
)
async def test_what_is_no_endpoint_or_takes_no_key_is_an_error(
    server: OpenAIServer, model: HttpChatModel, reply: Reply, error: type[ModelError]
) -> None:
    server.script(reply, path=MODELS)
    with pytest.raises(error):
        await model.describe()


async def test_an_endpoint_that_names_no_model_asks_for_the_setting(
    server: OpenAIServer, make_model: MakeModel
) -> None:
    server.script(Reply(body='{"data": []}'), path=MODELS)
    assert "LLM_MODEL" in str((await ask(make_model(model=""))).error)


async def test_the_first_of_several_models_is_used_and_named(
    server: OpenAIServer, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(Reply(body='{"data": [{"id": "base"}, {"id": "lora"}]}'), path=MODELS)
    await ask(make_model(model=""))
    assert server.chats[0]["model"] == "base"
    assert "'base'" in caplog.text


async def test_a_lookup_of_the_model_that_fails_is_the_failure_of_its_call(
    server: OpenAIServer, make_model: MakeModel
) -> None:
    server.script(Reply(before="reset"), path=MODELS)
    model = make_model(model="")
    assert type((await ask(model)).error) is ModelUnavailable
    assert (await ask(model)).text == "Yes."


async def test_llama_cpp_tells_its_slots(server: OpenAIServer, model: HttpChatModel) -> None:
    server.props = {"total_slots": 4}
    assert (await model.describe()).parallel == 4


@pytest.mark.parametrize(
    ("owner", "parallel"), [("vllm", 8), ("sglang", 8), ("library", None), ("llamacpp", None), (7, None)]
)
async def test_servers_that_batch_are_known_by_the_owner_of_their_models(
    server: OpenAIServer, model: HttpChatModel, owner: object, parallel: int | None
) -> None:
    server.script(Reply(body=json.dumps({"data": [{"id": "m", "owned_by": owner}]})), path=MODELS)
    assert (await model.describe()).parallel == parallel
