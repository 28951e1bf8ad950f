"""Nothing is asked twice here, but on a connection that was dead; a breaker stops asking an endpoint that is down."""

from __future__ import annotations

import asyncio

import pytest

from core.breaker import Breaker
from core.deadlines import Deadlines
from core.errors import ModelError, ModelRejected, ModelTimeout, ModelUnavailable
from core.llm import HttpChatModel
from core.llm_refusal import retry_after
from tests.llm.asking import ask, request
from tests.llm.conftest import MakeModel
from tests.servers.openai import OpenAIServer, Reply

FAILURES = {
    "reset before the headers": (Reply(before="reset"), ModelUnavailable, False),
    "closed before the headers": (Reply(before="close"), ModelUnavailable, False),
    "400": (Reply(status=400), ModelRejected, False),
    "401": (Reply(status=401), ModelRejected, False),
    "404": (Reply(status=404), ModelRejected, False),
    "500": (Reply(status=500), ModelUnavailable, False),
    "502": (Reply(status=502), ModelUnavailable, False),
    "504": (Reply(status=504, body="<html>Gateway Time-out</html>"), ModelUnavailable, False),
    "503": (Reply(status=503), ModelUnavailable, True),
    "503 after the headers": (Reply(pieces=(b'data: {"error": {"code": 503}}\n\n',)), ModelUnavailable, True),
    "loading": (Reply(status=500, body='{"error": {"message": "Loading model"}}'), ModelUnavailable, True),
    "429": (Reply(status=429, headers={"Retry-After": "0.1"}), ModelUnavailable, True),
}


@pytest.mark.parametrize(("reply", "error", "not_taken"), FAILURES.values(), ids=list(FAILURES))
async def test_the_client_repeats_nothing_and_tells_whether_the_call_was_taken(
    server: OpenAIServer, model: HttpChatModel, reply: Reply, error: type[ModelError], not_taken: bool
) -> None:  # O9: one layer retries, and it is not this one
    server.script(reply)
    raised = (await ask(model)).error
    assert type(raised) is error
    assert getattr(raised, "not_taken", False) is not_taken
    assert len(server.chats) == 1


async def test_what_the_server_says_of_coming_back_is_handed_on(server: OpenAIServer, model: HttpChatModel) -> None:
    server.script(Reply(status=503, headers={"Retry-After": "1.5"}))
    error = (await ask(model)).error
    assert error is not None
    assert retry_after(error) == 1.5


async def test_a_kept_connection_that_the_server_closed_is_replaced(server: OpenAIServer, model: HttpChatModel) -> None:
    await ask(model)
    await server.stop()
    await server.start()
    assert (await ask(model, request(purpose="rewrite"))).text == "Yes."
    assert len(server.chats) == 2


async def test_a_kept_connection_that_breaks_under_the_request_is_replaced(
    server: OpenAIServer, model: HttpChatModel
) -> None:
    await ask(model)
    server.script(Reply(before="reset"))
    assert (await ask(model)).text == "Yes."
    ports = [record.port for record in server.requests]
    assert ports[0] == ports[1] != ports[2]


async def test_nobody_listening_is_said_within_a_moment(server: OpenAIServer, model: HttpChatModel) -> None:
    await server.stop()  # F9
    async with asyncio.timeout(Deadlines().connect):  # no deadline is waited for
        outcome = await ask(model)
    assert type(outcome.error) is ModelUnavailable
    assert "LLM_BASE_URL" in str(outcome.error)
    await server.start()
    assert (await ask(model)).text == "Yes."


async def test_a_host_without_an_address_is_unavailable(make_model: MakeModel) -> None:
    outcome = await ask(make_model("http://no-such-host.invalid:8000/v1"))
    assert type(outcome.error) is ModelUnavailable
    assert "no-such-host.invalid:8000" in str(outcome.error)


async def test_tls_to_a_plain_port_names_the_scheme(server: OpenAIServer, make_model: MakeModel) -> None:
    outcome = await ask(make_model(server.base_url.replace("http:", "https:")))
    assert type(outcome.error) is ModelUnavailable
    assert "http or https" in str(outcome.error)


async def test_something_that_speaks_no_http_is_found_out(make_model: MakeModel) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1") as listening:
        port = listening.sockets[0].getsockname()[1]
        outcome = await ask(make_model(f"http://127.0.0.1:{port}/v1"))
    assert "does not speak HTTP" in str(outcome.error)


async def test_five_failures_in_a_row_open_the_breaker_for_that_purpose_only(
    server: OpenAIServer, make_model: MakeModel
) -> None:  # O6, O9, B13
    model = make_model(deadlines_for={"rewrite": Deadlines(wall=0.05)})
    server.default = lambda body: Reply(before="hang")
    for _ in range(5):
        assert type((await ask(model, request(purpose="rewrite"))).error) is ModelTimeout
    assert type((await ask(model, request(purpose="rewrite"))).error) is ModelUnavailable
    assert len(server.chats) == 5
    server.default = lambda body: Reply()
    assert (await ask(model)).text == "Yes."


async def test_an_endpoint_that_fails_always_gets_few_calls_and_is_found_again(
    server: OpenAIServer, make_model: MakeModel
) -> None:  # F9, O9
    now = [0.0]
    model = make_model(breakers={"generate": Breaker("generate", seconds=10.0, clock=lambda: now[0])})
    server.default = lambda body: Reply(status=503)
    for _ in range(100):
        now[0] += 0.1
        assert type((await ask(model)).error) is ModelUnavailable
    assert len(server.chats) <= 10
    now[0] += 10.0
    before = len(server.chats)
    await ask(model)
    assert len(server.chats) == before + 1
    server.default = lambda body: Reply()
    now[0] += 10.1
    assert (await ask(model)).text == "Yes."
    assert (await ask(model)).text == "Yes."


async def test_the_probe_is_one_request_and_its_reader_may_stop_at_the_finish(
    server: OpenAIServer, make_model: MakeModel
) -> None:
    now = [0.0]
    breaker = Breaker("generate", failures=1, seconds=10.0, clock=lambda: now[0])
    model = make_model(breakers={"generate": breaker})
    server.script(Reply(status=500), Reply(status=503))
    await ask(model)
    now[0] += 10.0
    assert type((await ask(model)).error) is ModelUnavailable
    assert len(server.chats) == 2
    now[0] += 10.0
    deltas = model.stream(request())
    async for delta in deltas:
        if delta.finish:
            break
    await deltas.aclose()
    assert not breaker.is_open


async def test_cancelled_and_refused_calls_do_not_open_the_breaker(server: OpenAIServer, model: HttpChatModel) -> None:
    for _ in range(6):
        server.script(Reply(before="hang"), Reply(status=400), Reply(end="reset"))
        task = asyncio.create_task(ask(model))
        await server.until(lambda: server.in_flight == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await ask(model)
        await ask(model)
    assert (await ask(model)).text == "Yes."
