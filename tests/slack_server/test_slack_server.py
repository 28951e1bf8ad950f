"""The real slack-bolt and slack_sdk against the local server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientError
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.slack_server import ASKER, BOT, BOT_USER, Fault, SlackServer, busy
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as slack:
        yield slack


@pytest.fixture
def web(slack: SlackServer) -> AsyncWebClient:
    return AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url, retry_handlers=[])


class Heard:
    """A Bolt app that notes the events that it hears."""

    def __init__(self, web: AsyncWebClient) -> None:
        self.events: list[dict[str, Any]] = []
        self.broken = False
        self.slow = 0.0
        app = AsyncApp(client=web, process_before_response=True)
        app.event("app_mention")(self.hear)
        app.event("message")(self.hear)
        self.handler = AsyncSocketModeHandler(app, APP_TOKEN, ping_interval=0.2)

    async def hear(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        await asyncio.sleep(self.slow)
        if self.broken:
            raise RuntimeError


@pytest.fixture
async def heard(slack: SlackServer, web: AsyncWebClient) -> AsyncIterator[Heard]:
    heard = Heard(web)
    await heard.handler.connect_async()  # type: ignore[no-untyped-call]
    await slack.until(lambda: bool(slack.sockets.hellos))
    yield heard
    await heard.handler.close_async()  # type: ignore[no-untyped-call]


async def test_bolt_hears_a_mention_as_two_events_and_acknowledges_both(slack: SlackServer, heard: Heard):
    slack.says(ASKER, "C1", f"<@{BOT_USER}> how much oil?")
    first, second = slack.sockets.deliveries
    await asyncio.gather(first.done.wait(), second.done.wait())
    assert [event["type"] for event in heard.events] == ["app_mention", "message"]
    assert heard.events[0]["ts"] == heard.events[1]["ts"]
    assert len(first.acked) == len(second.acked) == 1


async def test_an_event_that_is_not_acknowledged_comes_again(slack: SlackServer, heard: Heard):
    slack.sockets.ack_seconds, slack.sockets.retries = 0.1, (0.0, 0.0)
    heard.broken = True
    slack.says(ASKER, "D1", "how much oil?")
    delivery = slack.sockets.deliveries[0]
    await slack.until(lambda: len(heard.events) == 2)
    heard.broken = False
    await delivery.done.wait()
    assert (len(delivery.sent), len(delivery.acked), delivery.given_up) == (3, 1, False)


async def test_a_listener_that_is_too_slow_is_told_again(slack: SlackServer, heard: Heard):
    slack.sockets.ack_seconds, slack.sockets.retries = 0.1, (0.0,)
    heard.slow = 0.15
    slack.says(ASKER, "D1", "how much oil?")
    await slack.until(lambda: len(heard.events) == 2)


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets"])
async def test_bolt_comes_back_after_a_good_bye(slack: SlackServer, heard: Heard, reason: str):
    slack.sockets.ack_seconds = 0.5
    await slack.sockets.disconnect(reason)
    await slack.until(lambda: len(slack.sockets.hellos) >= 2)
    slack.says(ASKER, "D1", "still there?")
    await slack.until(lambda: bool(heard.events))
    assert len(slack.calls_of("apps.connections.open")) >= 2


async def test_bolt_comes_back_after_a_cut(slack: SlackServer, heard: Heard):
    await slack.sockets.cut()
    await slack.until(lambda: len(slack.sockets.hellos) >= 2)


async def test_bolt_waits_on_a_stale_address(slack: SlackServer, web: AsyncWebClient):
    slack.sockets.refused, slack.sockets.address_seconds = True, 0.1
    heard = Heard(web)
    connecting = asyncio.create_task(heard.handler.connect_async())  # type: ignore[no-untyped-call]
    await asyncio.sleep(0.3)
    slack.sockets.refused = False
    await asyncio.sleep(0.6)
    assert len(slack.calls_of("apps.connections.open")) == 1
    assert not slack.sockets.hellos
    heard.handler.client.closed = True
    await asyncio.wait_for(connecting, 2)
    await heard.handler.client.aiohttp_client_session.close()


async def test_messages_are_stored_with_what_came_with_them(slack: SlackServer, web: AsyncWebClient):
    asked = slack.says(ASKER, "C1", "how much oil?")
    metadata = {"event_type": "answer", "event_payload": {"key": "k"}}
    posted = await web.chat_postMessage(channel="C1", thread_ts=asked, text="0.8 L", metadata=metadata)
    await web.chat_update(channel="C1", ts=posted["ts"], text="0.9 L", metadata=metadata)
    bare = (await web.conversations_replies(channel="C1", ts=asked))["messages"]
    full = (await web.conversations_replies(channel="C1", ts=asked, include_all_metadata=True))["messages"]
    assert [(m["text"], m.get("bot_id")) for m in bare] == [("how much oil?", None), ("0.9 L", BOT)]
    assert (bare[1].get("metadata"), full[1]["metadata"]) == (None, metadata)
    assert slack.shown("C1", asked) == ["0.9 L"]


async def test_a_long_thread_comes_in_pages_from_its_beginning(slack: SlackServer, web: AsyncWebClient):
    root = slack.says(ASKER, "C1", "r0")
    for number in range(1, 8):
        slack.says(ASKER, "C1", f"r{number}", root)
    page = await web.conversations_replies(channel="C1", ts=root, limit=3)
    assert [message["text"] for message in page["messages"]] == ["r0", "r1", "r2", "r3"]
    cursor = page["response_metadata"]["next_cursor"]
    page = await web.conversations_replies(channel="C1", ts=root, limit=3, cursor=cursor)
    assert [message["text"] for message in page["messages"]] == ["r0", "r4", "r5", "r6"]
    newest = await web.conversations_history(channel="C1", limit=1)
    assert [message["text"] for message in newest["messages"]] == ["r0"]


SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a blank text": ("chat.postMessage", "no_text", {"text": " "}),
    "a text over 40,000 characters": ("chat.postMessage", "msg_too_long", {"text": "x" * 40_001}),
    "a section over 3,000 characters": ("chat.postMessage", "invalid_blocks", {"text": "x", "blocks": [SECTION]}),
    "51 blocks": ("chat.postMessage", "invalid_blocks", {"text": "x", "blocks": [{"type": "divider"}] * 51}),
    "12,001 characters of markdown": (
        "chat.postMessage",
        "invalid_blocks",
        {"text": "x", "blocks": [{"type": "markdown", "text": "x" * 12_001}]},
    ),
    "an unknown channel": ("chat.postMessage", "channel_not_found", {"text": "x", "channel": "C9"}),
    "a thread that is gone": ("chat.postMessage", "thread_not_found", {"text": "x", "thread_ts": "1.1"}),
    "a message that is gone": ("chat.update", "message_not_found", {"text": "x", "ts": "1.1"}),
    "an unknown method": ("chat.sing", "unknown_method", {}),
    "a missing argument": ("chat.update", "invalid_arguments", {"text": "x"}),
}


@pytest.mark.parametrize("what", CALLS)
async def test_what_slack_refuses_is_refused(slack: SlackServer, web: AsyncWebClient, what: str):
    method, error, arguments = CALLS[what]
    with pytest.raises(SlackApiError) as raised:
        await web.api_call(method, json={"channel": "C1", **arguments})
    assert raised.value.response["error"] == error
    assert slack.calls[-1].outcome == error


async def test_a_method_that_reads_takes_no_json(web: AsyncWebClient):
    with pytest.raises(SlackApiError, match="invalid_arguments"):
        await web.api_call("users.info", json={"user": ASKER})
    assert (await web.api_call("users.info", params={"user": ASKER}))["ok"]


async def test_an_update_takes_less_text_than_a_post(slack: SlackServer, web: AsyncWebClient):
    ts = (await web.chat_postMessage(channel="C1", text="x" * 9000))["ts"]
    with pytest.raises(SlackApiError, match="msg_too_long"):
        await web.chat_update(channel="C1", ts=ts, text="x" * 4001)


async def test_an_archived_channel_and_a_wrong_token_are_refused(slack: SlackServer, web: AsyncWebClient):
    slack.workspace.places["C1"].archived = True
    with pytest.raises(SlackApiError, match="is_archived"):
        await web.chat_postMessage(channel="C1", text="x")
    with pytest.raises(SlackApiError, match="invalid_auth"):
        await AsyncWebClient(token="xoxb-wrong", base_url=slack.api_url).auth_test()


async def test_too_many_calls_are_told_to_wait(slack: SlackServer, web: AsyncWebClient):
    ts = (await web.chat_postMessage(channel="C1", text="x"))["ts"]
    for number in range(50):
        await web.chat_update(channel="C1", ts=ts, text=str(number))
    with pytest.raises(SlackApiError, match="ratelimited") as raised:
        await web.chat_update(channel="C1", ts=ts, text="50")
    assert 0 < int(raised.value.response.headers["Retry-After"]) <= 60


async def test_a_stream_ends_and_has_limits(slack: SlackServer, web: AsyncWebClient):
    asked = slack.says(ASKER, "D1", "how much oil?")
    ts = (await web.chat_startStream(channel="D1", thread_ts=asked, markdown_text="0.8"))["ts"]
    await web.chat_appendStream(channel="D1", ts=ts, markdown_text=" L")
    with pytest.raises(SlackApiError, match="streaming_state_conflict"):
        await web.chat_update(channel="D1", ts=ts, text="x")
    with pytest.raises(SlackApiError, match="msg_too_long"):
        await web.chat_appendStream(channel="D1", ts=ts, markdown_text="x" * 12_000)
    await web.chat_stopStream(channel="D1", ts=ts)
    assert slack.shown("D1", asked) == ["0.8 L"]
    slack.methods.stream_seconds = 0.0
    ts = (await web.chat_startStream(channel="D1", thread_ts=asked))["ts"]
    with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
        await web.chat_appendStream(channel="D1", ts=ts, markdown_text="x")
    with pytest.raises(SlackApiError, match="missing_recipient_user_id"):
        await web.chat_startStream(channel="C1", thread_ts=slack.says(ASKER, "C1", "x"))


async def test_faults_are_played_once_each_and_only_if_the_nemesis_is_on(slack: SlackServer, web: AsyncWebClient):
    slack.script("chat.postMessage", Fault(status=503), busy(7), Fault(applied=True, end="reset"))
    with pytest.raises(SlackApiError, match="503"):
        await web.chat_postMessage(channel="C1", text="one")
    with pytest.raises(SlackApiError) as raised:
        await web.chat_postMessage(channel="C1", text="two")
    assert raised.value.response.headers["Retry-After"] == "7"
    with pytest.raises(ClientError):
        await web.chat_postMessage(channel="C1", text="three")
    await web.chat_postMessage(channel="C1", text="four")
    slack.nemesis = False
    slack.script("chat.postMessage", Fault(status=503))
    await web.chat_postMessage(channel="C1", text="five")
    assert [message["text"] for message in slack.workspace.places["C1"].messages.values()] == ["three", "four", "five"]


async def test_the_default_client_posts_twice_when_a_reply_is_lost(slack: SlackServer):
    slack.script("chat.postMessage", Fault(applied=True, end="cut"))
    await AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url).chat_postMessage(channel="C1", text="once")
    assert len(slack.workspace.places["C1"].messages) == 2


async def test_a_hang_ends_with_the_clients_patience(slack: SlackServer):
    slack.script("auth.test", Fault(end="hang"))
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        await AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url, timeout=1, retry_handlers=[]).auth_test()
    assert time.monotonic() - started < 3


async def test_texts_that_would_notify_people_are_found(slack: SlackServer, web: AsyncWebClient):
    await web.chat_postMessage(channel="C1", text="&lt;!channel&gt; <https://x.example|page>")
    assert not slack.pings()
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "ask <@U0ASKER>"}}
    await web.chat_postMessage(channel="C1", text="x", blocks=[block])
    assert len(slack.pings()) == 1
