"""What a bot token must have been granted for each method."""

from __future__ import annotations

from typing import Final

from tests.slack_server.faults import ApiError

GRANTED: Final = frozenset(
    "app_mentions:read assistant:write channels:history channels:read chat:write commands files:read groups:history "
    "groups:read im:history im:read mpim:history mpim:read users:read".split()
)
_KINDS: Final = {"channel": "channels", "group": "groups", "im": "im", "mpim": "mpim"}
_FIXED: Final = {"users.info": "users:read", "bots.info": "users:read", "reactions.add": "reactions:write"}
_OF_PLACES: Final = {
    "conversations.history": "history",
    "conversations.replies": "history",
    "conversations.info": "read",
}


def check_scope(method: str, kind: str, granted: frozenset[str]) -> None:
    """Raises `ApiError` if `granted` does not allow the method in a place of this kind (as events name it)."""
    if method.startswith("chat."):
        needed = "chat:write"
    elif method.startswith("assistant."):
        needed = "assistant:write"
    elif method in _OF_PLACES and kind:
        needed = f"{_KINDS[kind]}:{_OF_PLACES[method]}"
    else:
        needed = _FIXED.get(method, "")
    if needed and needed not in granted:
        raise ApiError("missing_scope", needed=needed, provided=",".join(sorted(granted)))
