"""The key goes into one header and nowhere else."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest

from core.errors import ConfigError, ModelError
from core.llm import HttpChatModel
from tests.llm.asking import ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import OpenAIServer, Reply

CANARY = "sk-canary-0123456789"
ECHO = '{"error": {"message": "Incorrect API key provided: ' + CANARY + '", "code": 401}}'
LEAKS = [
    Reply(),
    Reply(status=401, body=ECHO),
    Reply(status=500, body=ECHO),
    Reply(body=ECHO),
    Reply(pieces=("a", f"data: {ECHO}\n\n".encode())),
    Reply(pieces=("a", f"data: {CANARY}\n\n".encode())),
    Reply(before="reset"),
    Reply(end="reset"),
    Reply(status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
]


@pytest.mark.parametrize("reply", LEAKS)
async def test_the_key_is_in_no_log_error_or_repr(
    server: OpenAIServer, make_model: MakeModel, caplog: pytest.LogCaptureFixture, reply: Reply
) -> None:
    caplog.set_level(logging.DEBUG)
    model = make_model(api_key=CANARY)
    server.script(reply, reply)
    shown = [repr(model), str(model), repr(vars(model)["_connections"])]
    try:
        async for _ in model.stream(request()):
            pass
    except ModelError as error:
        shown += traceback.format_exception(error)
    assert any(logger.startswith("httpcore") for logger, *_ in caplog.record_tuples), "DEBUG is on"
    assert CANARY not in caplog.text
    assert CANARY not in "".join(shown)
    assert server.requests[0].headers["Authorization"] == f"Bearer {CANARY}"


async def test_what_the_endpoint_said_is_logged_for_debugging_without_the_key(
    server: OpenAIServer, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="core.llm")
    server.script(Reply(status=401, body=ECHO + "x" * 5000))
    await ask(make_model(api_key=CANARY))
    assert "Incorrect API key provided: ***" in caplog.text
    assert len(caplog.text) < 1000


async def test_name_and_password_in_the_address_are_sent_but_not_shown(
    server: OpenAIServer, make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = make_model(server.base_url.replace("//", f"//me:{CANARY}@"))
    assert (await ask(model)).error is None
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert CANARY not in caplog.text + repr(model)


@pytest.mark.parametrize("key", ["sk-two\nlines", "sk-ümlaut", "sk-\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        HttpChatModel("http://127.0.0.1:1/v1", api_key=key)
    assert "LLM_API_KEY" in str(refused.value)
    assert "sk-" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000/v1", "ftp://host/v1", "http://", "http://[::1/v1", "http://xn--/v1", "http://h:99999/v1"],
)
def test_an_address_that_is_none_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match="LLM_BASE_URL"):
        HttpChatModel(url)


async def test_the_environment_neither_gives_a_proxy_nor_a_key(
    server: OpenAIServer, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await ask(make_model())).text == "Yes."
    assert "Authorization" not in server.requests[0].headers


def test_errors_survive_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(ModelError("gone")))
    assert str(error) == "gone"
