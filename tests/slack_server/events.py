"""Events about messages, as the app is told of them."""

from __future__ import annotations

from tests.slack_server.faults import Json


def told(kind: str, channel: str, message: Json) -> Json:
    """A new message in a channel of some kind."""
    return {**message, "channel": channel, "channel_type": kind, "event_ts": message["ts"]}


def changed(kind: str, channel: str, message: Json, before: Json) -> Json:
    """A message that reads otherwise now."""
    return {
        "type": "message",
        "subtype": "message_changed",
        "hidden": True,
        "channel": channel,
        "channel_type": kind,
        "ts": message["edited"]["ts"] if "edited" in message else message["ts"],
        "message": dict(message),
        "previous_message": before,
    }


def deleted(kind: str, channel: str, before: Json) -> Json:
    """A message that is gone."""
    return {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "channel": channel,
        "channel_type": kind,
        "ts": before["ts"],
        "deleted_ts": before["ts"],
        "previous_message": before,
    }
