"""Whether what came from Slack has the shape that Slack gives it.

What has another would fail somewhere further in, be answered as a failure of ours, and so come again and again.
"""

from __future__ import annotations

import re
from typing import Any, Final

from slack_bolt.request.async_request import AsyncBoltRequest

from adapters.slack.events import Json

UNREADABLE: Final = (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError)
"""What Bolt makes of a body that is no JSON, or has another shape."""
_TS: Final = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?")
_LAST: Final = 10**11
"""Seconds; a clock has no year for many more."""


def makes_sense(body: Any) -> bool:
    """Of an event, a command or something that people pressed: the fields that are read here."""
    if not isinstance(body, dict):
        return False
    try:
        AsyncBoltRequest(body=body, mode="socket_mode")
    except UNREADABLE:
        return False
    kind = body.get("type")
    if not _all(body, str, "type", "team_id", "enterprise_id") or not _are_dicts(body.get("authorizations")):
        return False
    if not all(_all(who, str, "team_id", "enterprise_id") for who in body.get("authorizations") or ()):
        return False
    if kind == "event_callback" or "event" in body:
        return _is_event(body.get("event")) and _is_time(body.get("event_time"))
    if kind == "block_actions":
        return _is_pressed(body)
    return kind not in ("message_action", "shortcut") or (_has_ids(body) and _is_message(body.get("message") or {}))


def _is_event(event: Any) -> bool:
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return False
    if event["type"] in ("app_mention", "message"):
        inner = [event.get(name) or {} for name in ("message", "previous_message")]
        return all(_is_message(message) for message in (event, *inner))
    return _all(event, dict, "tokens", "assistant_thread")


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not _all(message, str, "channel", "user", "text", "subtype", "bot_id"):
        return False
    stamps = (message.get(name) for name in ("ts", "thread_ts", "deleted_ts"))
    return all(stamp is None or _is_ts(stamp) for stamp in stamps) and _are_dicts(message.get("files"))


def _is_pressed(body: Json) -> bool:
    actions = body.get("actions") or [{}]
    named = _are_dicts(actions) and all(isinstance(one.get("action_id"), str) for one in actions)
    return named and _has_ids(body) and _is_message(body.get("message") or {})


def _has_ids(body: Json) -> bool:
    """Where it was and who did it."""
    for name in ("user", "channel", "team"):
        place = body.get(name)
        if place is not None and not (isinstance(place, dict) and isinstance(place.get("id"), str)):
            return False
    return isinstance(body.get("user"), dict)


def _is_time(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < _LAST)


def _is_ts(value: Any) -> bool:
    return isinstance(value, str) and (not value or _TS.fullmatch(value) is not None)


def _are_dicts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(one, dict) for one in value))


def _all(body: Json, kind: type, *names: str) -> bool:
    return all(body.get(name) is None or isinstance(body[name], kind) for name in names)
