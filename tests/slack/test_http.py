"""Slack over HTTP: signed requests, each acknowledged when what it says is stored, and never later than Slack waits."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionError

from adapters import slack_http
from adapters.jobs import Admitted
from adapters.ports import Inbound
from adapters.slack import address
from adapters.slack.actions import SHOW_QUERY
from adapters.slack.address import MOST_BYTES
from adapters.slack_http import PATH, SlackHttp
from core.errors import ConfigError
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack.test_catch_up import marked
from tests.slack.test_connection import Shut
from tests.slack_server import ASKER, BOT_USER, SECOND, TEAM, Fault, SlackServer
from tests.slack_server.requests import FORM_TYPE, SIGNING_SECRET

QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."


@pytest.fixture
async def quill(slack: SlackServer, model: TypingModel, tmp_path: Path) -> AsyncIterator[Quill]:
    quill = Quill(slack, tmp_path / "conversations.db", model)
    quill.setup = replace(quill.setup, app_token="", signing_secret=SIGNING_SECRET, http_port=free_port())
    slack.requests.url = f"http://127.0.0.1:{quill.setup.http_port}{PATH}"
    await quill.start()
    await quill.connected()
    yield quill
    await quill.stop()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def mention(ts: str = "1700000000.000100") -> dict[str, Any]:
    """An event as its request holds it."""
    event = {"type": "app_mention", "channel": "C1", "user": ASKER, "text": QUESTION, "ts": ts, "event_ts": ts}
    who = {"team_id": TEAM, "user_id": BOT_USER, "is_bot": True, "is_enterprise_install": False}
    return {"type": "event_callback", "team_id": TEAM, "event": event, "authorizations": [who]}


async def taken(quill: Quill) -> int:
    """How many questions are in the database."""
    return sum(info.turns for info in await quill.store.threads("slack", 100))


async def test_a_mention_and_its_follow_up_are_answered_in_the_thread(slack: SlackServer, quill: Quill):
    quill.model.replies["generate"] += [ANSWER, "Every 500 hours [1]."]
    quill.model.replies["rewrite"].append("Kestrel pump filter")
    asked = await quill.hears(QUESTION)
    await quill.hears("and how often the filter?", thread=asked)
    assert ["0.8 L" in text for text in slack.shown("C1", asked)] == [True, False]
    assert await taken(quill) == 2
    assert set(slack.requests.statuses) == {200}
    assert all(delivery.seconds < 3 for delivery in slack.sockets.deliveries)
    assert not slack.calls_of("apps.connections.open")


async def test_a_request_without_a_good_signature_is_refused_and_stores_nothing(slack: SlackServer, quill: Quill):
    body, requests = json.dumps(mention()), slack.requests
    now = requests.signature(body)["X-Slack-Signature"]
    wrong: list[dict[str, str]] = [
        {"X-Slack-Signature": "v0=" + 64 * "0"},
        {"X-Slack-Signature": ""},
        {"X-Slack-Signature": "v0=é"},
        {"X-Slack-Signature": now.upper()},
        {"X-Slack-Request-Timestamp": "soon"},
        {"X-Slack-Request-Timestamp": "9" * 5000},
        {"X-Slack-Request-Timestamp": "-1"},
        requests.signature(body, at=int(time.time()) - 301),
        requests.signature(body, at=int(time.time()) + 400),
        requests.signature(body + " "),
    ]
    for headers in wrong:
        assert await requests.post(body, **headers) == (401, ""), headers
    requests.secret = "another" + SIGNING_SECRET
    assert (await requests.post(body))[0] == 401
    assert (await requests.post("{", FORM_TYPE))[0] == 401
    requests.secret = SIGNING_SECRET
    assert await taken(quill) == 0
    assert (await requests.post(body))[0] == 200
    assert await taken(quill) == 1


async def test_bytes_that_are_no_text_are_refused(slack: SlackServer, quill: Quill):
    reader, writer = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n".encode())
    writer.write(b"\xff\xfe")
    assert (await reader.read()).startswith(b"HTTP/1.1 401")
    writer.close()


@pytest.mark.parametrize("body", ["[1]", "{", '"text"', "null"])
async def test_what_is_signed_and_makes_no_sense_is_refused_without_a_trace(
    slack: SlackServer, quill: Quill, body: str, caplog: pytest.LogCaptureFixture
):
    status, text = await slack.requests.post(body)
    assert status in (400, 404)
    assert "Traceback" not in text + caplog.text
    await asks(quill)


async def asks(quill: Quill) -> str:
    quill.model.replies["generate"].append(ANSWER)
    asked = await quill.hears(QUESTION)
    assert len(quill.slack.shown("C1", asked)) == 1
    return asked


async def test_the_challenge_with_which_slack_tries_the_address_is_answered(slack: SlackServer, quill: Quill):
    status, text = await slack.requests.post(json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB"}))
    assert status == 200
    assert json.loads(text) == {"challenge": "3eZbrw1aB"}


async def test_slacks_look_at_the_certificate_is_answered_though_it_is_not_signed(slack: SlackServer, quill: Quill):
    assert (await slack.requests.post("ssl_check=1&token=x", FORM_TYPE, **{"X-Slack-Signature": ""}))[0] == 200


async def test_a_body_that_is_too_large_is_refused_unread(slack: SlackServer, quill: Quill):
    body = json.dumps(mention() | {"filler": "x" * MOST_BYTES})
    with suppress(ClientConnectionError):  # The connection ends while the rest is on its way.
        assert (await slack.requests.post(body))[0] == 413
    assert await taken(quill) == 0
    await asks(quill)


async def test_a_body_that_never_comes_is_not_waited_for(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(address, "BODY_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", quill.setup.http_port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n".encode())
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_nothing_else_is_to_be_had_at_the_port(slack: SlackServer, quill: Quill):
    slack.requests.url = slack.requests.url.removesuffix(PATH)
    assert (await slack.requests.post(json.dumps(mention())))[0] == 404


async def test_requests_that_are_repeated_make_one_job(slack: SlackServer, quill: Quill):
    body = json.dumps(mention(slack.workspace.add("C1", user=ASKER, text=QUESTION)["ts"]))
    quill.model.replies["generate"].append(ANSWER)
    first = asyncio.gather(*(slack.requests.post(body) for _ in range(3)))
    assert [status for status, _ in await first] == [200] * 3
    again = await slack.requests.post(body, **{"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"})
    assert again[0] == 200
    await quill.at_rest()
    assert await taken(quill) == 1
    assert len(quill.asked()) == 1


async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again(slack: SlackServer, quill: Quill):
    slack.sockets.retries = (0.0, 0.1)
    quill.desk = lambda dispatcher: Shut(dispatcher, times=1)
    await quill.restart()
    await asks(quill)
    # Both events of the message, if they came at once.
    refused = slack.requests.statuses.count(500)
    assert refused in (1, 2)
    assert [headers.get("X-Slack-Retry-Num") for headers in slack.requests.headers].count("1") == refused


class Slow:
    """A desk that takes its time."""

    def __init__(self, behind: Any, seconds: float) -> None:
        self.behind, self.seconds = behind, seconds

    async def admit(self, inbound: Inbound) -> Admitted | None:
        await asyncio.sleep(self.seconds)
        self.seconds = 0.0
        return await self.behind.admit(inbound)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


async def test_a_question_that_takes_too_long_to_store_is_refused_in_time_and_answered_once(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(slack_http, "ACK_SECONDS", 0.3)
    slack.sockets.retries = (0.0, 0.2, 0.5, 1.0)
    quill.desk = lambda dispatcher: Slow(dispatcher, seconds=1.0)
    await quill.restart()
    asked = await asks(quill)
    assert 503 in slack.requests.statuses
    assert 0 not in slack.requests.statuses, "Slack had its reply in time"
    assert len(slack.shown("C1", asked)) == 1
    assert await taken(quill) == 1


async def test_what_is_acknowledged_early_is_not_refused_for_what_goes_on(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    asked = await asks(quill)
    monkeypatch.setattr(slack_http, "ACK_SECONDS", 0.2)
    slack.script("chat.postEphemeral", Fault(applied=True, delay=0.6))
    await slack.shortcut(ASKER, "C1", asked, SHOW_QUERY).done.wait()
    assert slack.requests.statuses[-1] == 200
    await slack.until(lambda: bool(slack.calls_of("chat.postEphemeral")))


async def test_commands_shortcuts_and_buttons_come_over_http_too(slack: SlackServer, quill: Quill):
    asked = await asks(quill)
    command = slack.command(ASKER, "C1", "/help")
    shortcut = slack.shortcut(ASKER, "C1", asked, SHOW_QUERY)
    await quill.at_rest()
    assert "Mention me with a question" in str(command.response)
    assert shortcut.acked
    (told,) = slack.calls_of("chat.postEphemeral")
    assert "Kestrel pump" in told.args["text"]
    answer = next(ts for ts, m in slack.workspace.places["C1"].messages.items() if m.get("user") == BOT_USER)
    pressed = slack.clicks(SECOND, "C1", answer, "threadwise_query")
    await quill.at_rest()
    assert pressed.acked
    assert slack.requests.statuses[-1] == 200


async def test_what_was_asked_while_it_was_stopped_is_read_up(slack: SlackServer, quill: Quill):
    await marked(quill)
    await quill.stop()
    slack.sockets.retries = ()
    asked = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: all(delivery.given_up for delivery in slack.sockets.deliveries[-2:]))
    quill.model.replies["generate"].append(ANSWER)
    await quill.start()
    await slack.until(lambda: len(slack.shown("C1", asked)) == 1, 10)
    await quill.at_rest()
    assert len(quill.asked()) == 1


async def test_while_slack_does_not_tell_who_the_bot_is_requests_are_refused_for_now(slack: SlackServer, quill: Quill):
    await quill.stop()
    slack.script("auth.test", *[Fault(status=503)] * 3)
    slack.sockets.retries = (0.05,) * 60
    await quill.start()
    asked = await asks(quill)
    assert len(slack.shown("C1", asked)) == 1


async def test_a_port_that_is_taken_is_told_in_one_line(quill: Quill):
    other = SlackHttp(quill.setup, quill.dispatcher, quill.store, quill._topics)
    with pytest.raises(ConfigError, match="SLACK_HTTP_PORT") as told:
        await asyncio.wait_for(other.run(), 5)
    assert str(quill.setup.http_port) in str(told.value)
    assert "already in use" in str(told.value)
    assert "\n" not in str(told.value)


async def test_a_host_that_is_no_name_is_told_in_one_line(quill: Quill):
    wrong = replace(quill.setup, http_host="a..b")
    other = SlackHttp(wrong, quill.dispatcher, quill.store, quill._topics)
    with pytest.raises(ConfigError, match=r"SLACK_HTTP_HOST a\.\.b"):
        await asyncio.wait_for(other.run(), 5)


@pytest.mark.parametrize("error", ["invalid_auth", "token_revoked"])
async def test_a_token_that_is_refused_ends_it(slack: SlackServer, quill: Quill, error: str):
    await quill.stop()
    slack.script("auth.test", *[Fault(error=error)] * 5)
    await quill.start()
    with pytest.raises(ConfigError, match=error):
        await asyncio.wait_for(asyncio.shield(quill.running), 5)
    quill.running = asyncio.create_task(asyncio.sleep(0))


async def test_nothing_that_is_said_is_in_the_log(slack: SlackServer, quill: Quill, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    await asks(quill)
    body = json.dumps(mention())
    await slack.requests.post(body, **{"X-Slack-Signature": "v0=0"})
    assert "Kestrel" not in caplog.text
    assert SIGNING_SECRET not in caplog.text
