"""The methods of the Web API, over a workspace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from tests.slack_server.events import changed, deleted, told
from tests.slack_server.faults import ApiError, Json
from tests.slack_server.limits import (
    MODAL_BLOCKS,
    STREAM_BYTES,
    STREAM_CALL_CHARS,
    TASK_CHARS,
    check_blocks,
    check_message,
    listed,
)
from tests.slack_server.state import APP, BOT, BOT_USER, TEAM, Workspace

MOST_LISTED: Final = 999
KINDS: Final = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}
Told = Callable[[Json], None]


class Methods:
    """Each takes the arguments of a call and returns the fields of its reply, or raises `ApiError`."""

    def __init__(self, workspace: Workspace, tell: Told) -> None:
        self._workspace, self._tell = workspace, tell
        self.stream_seconds = 300.0
        """After this a streamed message takes no more."""
        self.stopped_by_user: set[str] = set()
        """Streams that their reader has ended."""
        self.appended: list[int] = []
        """How many bytes streamed texts had after each append."""
        self.streams = True
        """Whether the workspace has the stream methods."""
        self.page = 1000
        """Most messages in one reply."""
        self.org_wide = False
        """Whether the token is one of an organization."""
        self.app = APP
        self.views: list[Json] = []
        self.by_name: dict[str, Callable[[Json], Json]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.postEphemeral": self._ephemeral,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.startStream": self._start_stream,
            "chat.appendStream": self._append_stream,
            "chat.stopStream": self._stop_stream,
            "conversations.replies": self._replies,
            "conversations.history": self._history,
            "conversations.info": self._info,
            "users.info": self._user,
            "users.conversations": self._conversations,
            "bots.info": self._bot,
            "reactions.add": self._react,
            "views.open": self._view,
            "views.publish": self._view,
            "assistant.threads.setStatus": self._pane,
            "assistant.threads.setTitle": self._pane,
            "assistant.threads.setSuggestedPrompts": self._pane,
        }

    def _auth_test(self, args: Json) -> Json:
        return {
            "url": "https://works.slack.com/",
            "team": "Works",
            "user": "quill",
            "team_id": self._workspace.team,
            "user_id": BOT_USER,
            "bot_id": BOT,
            "is_enterprise_install": False,
        }

    def _post(self, args: Json) -> Json:
        place = self._workspace.place(args["channel"])
        if place.archived:
            raise ApiError("is_archived")
        check_message(args, update=False)
        thread = args.get("thread_ts")
        if thread is not None and thread not in place.messages:
            raise ApiError("thread_not_found")
        message = self._workspace.add(place.id, thread, **_own(args))
        self._tell(told(place.kind, place.id, message))
        return {"channel": place.id, "ts": message["ts"], "message": message}

    def _ephemeral(self, args: Json) -> Json:
        self._workspace.place(args["channel"])
        check_message(args, update=False)
        return {"message_ts": self._workspace.new_ts()}

    def _update(self, args: Json) -> Json:
        place = self._workspace.place(args["channel"])
        message = self._owned(place.id, args["ts"], "cant_update_message")
        if self._grows(message):
            raise ApiError("streaming_state_conflict")
        if place.archived:
            raise ApiError("is_archived")
        check_message(args, update=True)
        before = dict(message)
        fields = _own(args)
        message.update(fields, edited={"user": BOT_USER, "ts": self._workspace.new_ts()})
        if "blocks" not in fields:
            message.pop("blocks", None)
        self._tell(changed(place.kind, place.id, message, before))
        return {"channel": place.id, "ts": message["ts"], "text": message["text"], "message": message}

    def _delete(self, args: Json) -> Json:
        place = self._workspace.place(args["channel"])
        if self._grows(self._owned(place.id, args["ts"], "cant_delete_message")):
            raise ApiError("streaming_state_conflict")
        before = self._workspace.remove(place.id, args["ts"])
        self._tell(deleted(place.kind, place.id, before))
        return {"channel": place.id, "ts": args["ts"]}

    def _owned(self, channel: str, ts: str, refusal: str) -> Json:
        message = self._workspace.message(channel, ts)
        if message.get("bot_id") != BOT:
            raise ApiError(refusal)
        return message

    def _start_stream(self, args: Json) -> Json:
        if not self.streams:
            raise ApiError("unknown_method")
        place = self._workspace.place(args["channel"])
        if not args.get("thread_ts"):
            raise ApiError("invalid_arguments")
        if place.kind != "im" and not (args.get("recipient_user_id") and args.get("recipient_team_id")):
            raise ApiError("missing_recipient_user_id")
        if args["thread_ts"] not in place.messages:
            raise ApiError("thread_not_found")
        if args.get("chunks") and args.get("markdown_text"):
            raise ApiError("cannot_provide_both_markdown_text_and_chunks")
        if args["recipient_user_id"] not in self._workspace.names if args.get("recipient_user_id") else False:
            raise ApiError("user_not_found")
        message = self._workspace.add(place.id, args["thread_ts"], **_own({}))
        message["streaming"] = time.monotonic()
        message["mode"] = "chunks" if args.get("chunks") else "text"
        try:
            append(message, args)
        except ApiError:
            self._workspace.remove(place.id, message["ts"])
            raise
        self._tell(told(place.kind, place.id, message))
        return {"channel": place.id, "ts": message["ts"]}

    def _append_stream(self, args: Json) -> Json:
        message = self._streaming(args)
        if not args.get("markdown_text") and not args.get("chunks"):
            raise ApiError("markdown_text_or_chunks_required")
        if message["ts"] in self.stopped_by_user:
            raise ApiError("stopped_by_user")
        append(message, args)
        self.appended.append(len(message["text"].encode()))
        return {"channel": args["channel"], "ts": args["ts"]}

    def _stop_stream(self, args: Json) -> Json:
        message = self._streaming(args)
        blocks = listed(args.get("blocks"))
        check_blocks(blocks)
        append(message, args)
        del message["streaming"], message["mode"]
        message["blocks"] = [*message.get("blocks", []), *blocks]
        if metadata := args.get("metadata"):
            message["metadata"] = metadata
        return {"channel": args["channel"], "ts": args["ts"], "message": message}

    def _streaming(self, args: Json) -> Json:
        message = self._owned(args["channel"], args["ts"], "message_not_owned_by_app")
        if not self._grows(message):
            raise ApiError("message_not_in_streaming_state")
        return message

    def _grows(self, message: Json) -> bool:
        since = message.get("streaming")
        if since is not None and time.monotonic() - since > self.stream_seconds:
            del message["streaming"], message["mode"]
            return False
        return since is not None

    def _replies(self, args: Json) -> Json:
        place = self._workspace.place(args["channel"])
        messages = self._workspace.thread(place.id, args["ts"])
        if not messages or messages[0]["ts"] != args["ts"]:
            raise ApiError("thread_not_found")
        root, replies = messages[0], _between(messages[1:], args)
        return self._paged(replies, args, first=[root])

    def _history(self, args: Json) -> Json:
        place = self._workspace.place(args["channel"])
        roots = [m for m in place.messages.values() if m.get("thread_ts", m["ts"]) == m["ts"]]
        return self._paged(_between(roots, args)[::-1], args)

    def _paged(self, messages: list[Json], args: Json, first: list[Json] | None = None) -> Json:
        limit = min(int(args.get("limit") or 100), MOST_LISTED, self.page)
        start = int(args.get("cursor") or 0)
        page, more = messages[start : start + limit], len(messages) > start + limit
        shown = [dict(message) for message in [*(first or []), *page]]
        if str(args.get("include_all_metadata")).lower() not in ("true", "1"):
            for message in shown:
                message.pop("metadata", None)
        cursor = str(start + limit) if more else ""
        return {"messages": shown, "has_more": more, "response_metadata": {"next_cursor": cursor}}

    def _info(self, args: Json) -> Json:
        place = self._workspace.places.get(args["channel"])
        if place is None or (place.kind != "channel" and not place.member):
            raise ApiError("channel_not_found")
        return {"channel": place.as_json()}

    def _user(self, args: Json) -> Json:
        name = self._workspace.names.get(args["user"])
        if name is None:
            raise ApiError("user_not_found")
        profile = {"display_name": name, "real_name": f"{name} Person"}
        return {"user": {"id": args["user"], "team_id": self._workspace.team, "name": name.lower(), "profile": profile}}

    def _conversations(self, args: Json) -> Json:
        if self.org_wide and not args.get("team_id"):
            raise ApiError("missing_argument")
        kinds = str(args.get("types") or "public_channel").split(",")
        asked = {KINDS[kind] for kind in kinds}
        no_archived = str(args.get("exclude_archived")).lower() in ("true", "1")
        places = [place for place in self._workspace.places.values() if place.member and place.kind in asked]
        places = [place for place in places if not (no_archived and place.archived)]
        limit, start = min(int(args.get("limit") or 100), MOST_LISTED, self.page), int(args.get("cursor") or 0)
        cursor = str(start + limit) if len(places) > start + limit else ""
        page = [place.as_json() for place in places[start : start + limit]]
        return {"channels": page, "response_metadata": {"next_cursor": cursor}}

    def _bot(self, args: Json) -> Json:
        if args["bot"] != BOT:
            raise ApiError("bot_not_found")
        return {"bot": {"id": BOT, "app_id": self.app, "user_id": BOT_USER, "name": "Quill"}}

    def _react(self, args: Json) -> Json:
        message = self._workspace.message(args["channel"], args["timestamp"])
        names = message.setdefault("reactions", [])
        if args["name"] in names:
            raise ApiError("already_reacted")
        names.append(args["name"])
        return {}

    def _view(self, args: Json) -> Json:
        view = args["view"]
        view = json.loads(view) if isinstance(view, str) else view
        check_blocks(view.get("blocks") or [], MODAL_BLOCKS)
        self.views.append(view)
        return {"view": view | {"id": f"V{len(self.views)}"}}

    def _pane(self, args: Json) -> Json:
        self._workspace.place(args["channel_id"])
        return {}


def append(message: Json, args: Json) -> None:
    """Adds text or chunks to a message that grows. Raises `ApiError`, and nothing is added."""
    chunks = listed(args.get("chunks"))
    text = args.get("markdown_text") or ""
    if (chunks and message["mode"] == "text") or (text and message["mode"] == "chunks"):
        raise ApiError("streaming_mode_mismatch")
    blocks = [dict(block) for block in message.get("blocks") or []]
    for chunk in chunks:
        match chunk.get("type"):
            case "markdown_text":
                text += chunk["text"]
            case "blocks":
                check_blocks(chunk["blocks"])
                blocks += chunk["blocks"]
            case "task_update" if chunk.get("status") in ("pending", "in_progress", "complete", "error"):
                if not 0 < len(chunk.get("title") or "") <= TASK_CHARS:
                    raise ApiError("invalid_chunks")
                blocks = [block for block in blocks if block.get("task_id") != chunk["id"]]
                blocks.insert(0, {"type": "task_card", **chunk, "task_id": chunk["id"]})
            case _:
                raise ApiError("invalid_chunks")
    titles = "".join(block["title"] for block in blocks if block.get("type") == "task_card")
    if len(text) > STREAM_CALL_CHARS or len((message["text"] + text + titles).encode()) > STREAM_BYTES:
        raise ApiError("msg_too_long")
    message["text"] += text
    if blocks:
        message["blocks"] = blocks


def _own(args: Json) -> Json:
    fields: Json = {"user": BOT_USER, "bot_id": BOT, "app_id": APP, "team": TEAM, "text": args.get("text") or ""}
    if blocks := listed(args.get("blocks")):
        fields["blocks"] = blocks
    metadata = args.get("metadata")
    if metadata:
        fields["metadata"] = json.loads(metadata) if isinstance(metadata, str) else metadata
    return fields


def _between(messages: list[Json], args: Json) -> list[Json]:
    oldest, latest = _number(args.get("oldest")), _number(args.get("latest"))
    inclusive = str(args.get("inclusive")).lower() in ("true", "1")

    def inside(message: Json) -> bool:
        ts = _number(message["ts"])
        after = oldest is None or ts > oldest or (inclusive and ts == oldest)  # type: ignore[operator]
        return after and (latest is None or ts < latest or (inclusive and ts == latest))  # type: ignore[operator]

    return [message for message in messages if inside(message)]


def _number(ts: Any) -> tuple[int, int] | None:
    if not ts or ts == "now":
        return None
    seconds, _, micros = str(ts).partition(".")
    return int(seconds), int((micros or "0").ljust(6, "0"))
