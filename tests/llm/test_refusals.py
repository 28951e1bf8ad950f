"""Refusals in the words of many servers, and the messages that come of them."""

from __future__ import annotations

import email.utils
import json
import time

import pytest

from core.errors import ContextTooLong, ModelError, ModelRejected, ModelUnavailable
from core.llm import HttpChatModel
from core.llm_place import Place
from core.llm_refusal import error_for, parse_retry_after, retry_after
from tests.llm.asking import ask
from tests.servers.openai import OpenAIServer, Reply

TOO_LONG = [
    # OpenAI
    (400, {"error": {"message": "Your input is over the limit.", "code": "context_length_exceeded"}}),
    (400, {"error": {"message": "This model's maximum context length is 4097 tokens. However, ..."}}),
    # vLLM
    (400, {"message": "This model's maximum context length is 8192 tokens. However, you requested 8204 tokens"}),
    (400, {"message": "The prompt (total length 25938) is too long to fit into the model (context length 4096)"}),
    (400, {"error": {"message": "The decoder prompt is longer than the maximum model length of 2048."}}),
    # llama.cpp, new and old
    (400, {"error": {"type": "exceed_context_size_error", "message": "request (9 tokens) ..."}}),
    (500, {"error": {"message": "the request exceeds the available context size, try increasing it"}}),
    (500, {"error": {"message": "Context size has been exceeded."}}),
    # llama-cpp-python, Ollama, text-generation-inference, Anthropic behind a gateway
    (500, {"error": {"message": "Requested tokens (2285) exceed context window of 2048"}}),
    (400, {"error": "the input length exceeds the context length"}),
    (400, {"error": {"message": "prompt too long; exceeded max context length by 17 tokens"}}),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000"}),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (413, "Request Entity Too Large"),
]
OTHERS: list[tuple[int, object, type[ModelError], str]] = [
    (400, {"error": {"message": "temperature must be a number"}}, ModelRejected, "HTTP 400"),
    (400, {"detail": "q" * 500 + " maximum context length"}, ModelRejected, "HTTP 400"),
    (400, "q" * 500 + " maximum context length", ModelRejected, "HTTP 400"),
    (401, {"error": {"message": "Incorrect API key provided"}}, ModelRejected, "LLM_API_KEY"),
    (403, "<html>Forbidden</html>", ModelRejected, "LLM_API_KEY"),
    (404, {"detail": "Not Found"}, ModelRejected, "LLM_BASE_URL"),
    (404, {"error": {"message": "File Not Found", "type": "not_found_error"}}, ModelRejected, "LLM_BASE_URL"),
    (404, {"error": {"message": "The model `x` does not exist."}}, ModelRejected, "LLM_MODEL"),
    (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, ModelRejected, "LLM_MODEL"),
    (400, {"error": {"code": "model_not_found", "message": "nope"}}, ModelRejected, "LLM_MODEL"),
    (405, "Method Not Allowed", ModelRejected, "LLM_BASE_URL"),
    (307, "", ModelRejected, "LLM_BASE_URL"),
    (400, {"message": "System role not supported"}, ModelRejected, "profile"),
    (500, {"error": {"message": "Conversation roles must alternate user/assistant"}}, ModelRejected, "profile"),
    (429, {"error": {"message": "Rate limit reached"}}, ModelUnavailable, "not available"),
    (500, "oops", ModelUnavailable, "not available"),
    (503, {"error": {"message": "Loading model", "code": 503}}, ModelUnavailable, "still loading"),
    (503, "server busy, please try again", ModelUnavailable, "not available"),
]


def text_of(body: object) -> str:
    return body if isinstance(body, str) else json.dumps(body)


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
def test_a_prompt_over_the_context_is_recognised_in_every_wording(status: int, body: object) -> None:  # B45
    assert type(error_for(status, text_of(body), Place("host:1"))) is ContextTooLong


@pytest.mark.parametrize(("status", "body", "kind", "hint"), OTHERS)
def test_a_refusal_says_what_to_look_at_and_quotes_nothing(
    status: int, body: object, kind: type[ModelError], hint: str
) -> None:
    error = error_for(status, text_of(body), Place("host:1"), None)
    assert type(error) is kind
    assert hint in str(error)
    assert "host:1" in str(error)
    for quoted in ("Incorrect", "Forbidden", "oops", "qqq", "temperature"):
        assert quoted not in str(error)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-4", 0.0), ("", None), ("soon", None), ("nan", None), ("inf", None), (None, None)],
)
def test_the_wait_that_a_header_names_is_read_or_ignored(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_the_wait_may_be_a_date() -> None:
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 55 < (parse_retry_after(date) or 0) <= 60
    assert parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT") == 0.0


async def test_the_wait_reaches_the_caller(server: OpenAIServer, model: HttpChatModel) -> None:  # F14
    server.script(Reply(status=429, headers={"Retry-After": "17"}))
    error = (await ask(model)).error
    assert error is not None
    assert retry_after(error) == 17.0


async def test_a_refusal_of_any_length_leaves_a_usable_client(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(status=400, body="x" * 5_000_000))
    assert type((await ask(model)).error) is ModelRejected
    assert (await ask(model)).text == "Yes."


async def test_a_refusal_whose_body_never_ends_is_still_told_in_time(
    server: OpenAIServer, model: HttpChatModel
) -> None:
    server.script(Reply(status=400, body="x", headers={"Content-Length": "10"}))
    assert type((await ask(model)).error) is ModelRejected
