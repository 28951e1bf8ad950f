"""What Slack signed and what makes no sense all the same: dropped in one line, over both ways, not asked for again."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any
from urllib.parse import urlencode

import pytest

from adapters.slack.sense import makes_sense
from tests.slack.conftest import Quill
from tests.slack.test_http import asks, mention, taken
from tests.slack.test_http import quill as over_http
from tests.slack.workspaces.conftest import quill as in_several
from tests.slack.workspaces.conftest import way
from tests.slack_server import ASKER, TEAM, SlackServer
from tests.slack_server.requests import FORM_TYPE

__all__ = ["in_several", "over_http", "way"]


def event(**fields: Any) -> dict[str, Any]:
    return {"type": "event_callback", "team_id": TEAM, "event": {"type": "app_mention"}} | fields


def said(**fields: Any) -> dict[str, Any]:
    ts = "1700000000.000100"
    message = {"type": "message", "channel": "C1", "user": ASKER, "text": "a", "ts": ts, "event_ts": ts}
    return event(event=message | fields)


def pressed(**fields: Any) -> dict[str, Any]:
    where = {"team": {"id": TEAM}, "channel": {"id": "C1"}, "user": {"id": ASKER}}
    return {"type": "block_actions", "actions": [{"action_id": "threadwise_query"}], **where} | fields


REMOVED = {"type": "app_uninstalled"}
ODD: dict[str, dict[str, Any]] = {
    "event text": event(event="x"),
    "event list": event(event=["x"]),
    "event null": event(event=None),
    "event without a type": event(event={}),
    "team dict": event(team_id={"a": 1}),
    "team list": event(team_id=["T1"]),
    "type dict": {"type": {}, "team_id": TEAM},
    "authorizations text": event(authorizations="x"),
    "authorizations of text": event(authorizations=["x"]),
    "authorizations of a team dict": event(authorizations=[{"team_id": {}}]),
    "channel number": said(channel=1),
    "user list": said(user=[]),
    "text dict": said(text={}),
    "ts word": said(ts="soon"),
    "ts of no year": said(ts="1" * 18),
    "files text": said(files="x"),
    "changed to text": said(subtype="message_changed", message="x"),
    "time word": event(event=REMOVED, event_time="soon"),
    "time of no year": event(event=REMOVED, event_time=1e18),
    "time endless": event(event=REMOVED, event_time=math.inf),
    "tokens text": event(event={"type": "tokens_revoked", "tokens": "x"}),
    "actions text": pressed(actions="x"),
    "no actions": pressed(actions=[]),
    "actions without a name": pressed(actions=[{}]),
    "nobody": pressed(user=None),
    "user without an id": pressed(user={}),
    "shortcut by a word": {"type": "message_action", "callback_id": "threadwise_show_query", "user": "x"},
}


def quiet(caplog: pytest.LogCaptureFixture) -> bool:
    return not [record for record in caplog.records if record.exc_info] and "Traceback" not in caplog.text


@pytest.mark.parametrize("kind", ODD)
async def test_over_http_it_is_refused_in_one_line(
    slack: SlackServer, over_http: Quill, caplog: pytest.LogCaptureFixture, kind: str
):
    for body, type_ in (
        (json.dumps(ODD[kind]), "application/json"),
        (urlencode({"payload": json.dumps(ODD[kind])}), FORM_TYPE),
    ):
        caplog.clear()
        assert (await slack.requests.post(body, type_))[0] == 400
        assert len(caplog.records) == 1
        assert quiet(caplog)
    assert await taken(over_http) == 0


@pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 100_000, "payload=" + "[" * 100_000])
async def test_what_is_nested_too_deep_is_refused_in_one_line(
    slack: SlackServer, over_http: Quill, caplog: pytest.LogCaptureFixture, body: str
):
    kind = FORM_TYPE if body.startswith("payload") else "application/json"
    assert (await slack.requests.post(body, kind))[0] == 400
    assert len(caplog.records) == 1
    assert quiet(caplog)


async def test_over_socket_mode_it_is_acknowledged_and_dropped_in_one_line(
    slack: SlackServer, quill: Quill, caplog: pytest.LogCaptureFixture
):
    for kind, body in ODD.items():
        if kind == "time endless":
            continue  # No JSON of a WebSocket has it.
        caplog.clear()
        delivery = slack.sockets.send(body)
        await asyncio.wait_for(delivery.done.wait(), 5)
        assert len(delivery.sent) == len(delivery.acked) == 1, kind
        assert len(caplog.records) == 1, kind
        assert quiet(caplog), kind
    assert await taken(quill) == 0
    await asks(quill)


async def test_in_several_workspaces_it_is_dropped_too(
    slack: SlackServer, in_several: Quill, caplog: pytest.LogCaptureFixture
):
    for kind, body in ODD.items():
        if kind == "time endless":
            continue
        caplog.clear()
        if slack.requests.url:
            assert (await slack.requests.post(json.dumps(body)))[0] == 400, kind
        else:
            delivery = slack.sockets.send(body)
            await asyncio.wait_for(delivery.done.wait(), 5)
            assert len(delivery.sent) == len(delivery.acked) == 1, kind
        assert len(caplog.records) == 1, kind
        assert quiet(caplog), kind


@pytest.mark.parametrize(
    "body",
    [
        mention(),
        said(),
        pressed(),
        event(event=REMOVED, event_time=1_700_000_000),
        event(event={"type": "tokens_revoked", "tokens": {"bot": ["U1"]}}),
        event(event={"type": "channel_created", "channel": {"id": "C1"}}, event_time=1_700_000_000.5),
        {"type": "url_verification", "challenge": "x"},
        {"command": "/help", "team_id": TEAM, "channel_id": "C1", "user_id": ASKER, "text": ""},
    ],
)
def test_what_slack_says_makes_sense(body: dict[str, Any]):
    assert makes_sense(body)
