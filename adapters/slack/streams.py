"""Slack's own streaming of text: a placeholder that grows by appending, as long as Slack goes along.

A stream takes no metadata, so its first blocks carry the key of the question, as those of a post do. Nothing is ever
appended twice: after a call whose effect is not known the stream is over. Whatever ends a stream, its message stays the
placeholder of its question and is shown by `chat.update` from then on.

The methods: https://docs.slack.dev/reference/methods/chat.startStream, chat.appendStream and chat.stopStream beside it.
How often each may be called: https://docs.slack.dev/apis/web-api/rate-limits. Two limits are documented nowhere, and
known from those who met them: how long a stream lasts (https://github.com/slackapi/python-slack-sdk/issues/1859), and
how much one message takes (https://github.com/CopilotKit/CopilotKit/issues/6063,
https://github.com/openclaw/openclaw/pull/143882).
"""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from adapters import notices
from adapters.ports import Phase, Post
from adapters.slack import rendering
from adapters.slack.web import Json, SlackRefusal, SlackWeb
from core.errors import ChannelBusy, ChannelError, ChannelGone

log = logging.getLogger(__name__)

SECONDS: Final = 240.0
"""Slack ends a stream after about 300, whatever is appended; it does not say so."""
BYTES: Final = 9_000
"""Of one message, in UTF-8. Slack documents 12,000 characters a call; a whole message with its task titles was seen to
take no more than 10,600 bytes."""
STARTS_A_MINUTE: Final = 15
"""`chat.startStream` and `chat.stopStream` are of tier 2: 20 calls a minute in a workspace."""
APPEND_SECONDS: Final = 0.7
"""`chat.appendStream` is of tier 4: 100 calls a minute in a workspace."""
OFF_SECONDS: Final = 3600.0
"""Before a workspace or a channel that has no streams is asked again."""
MOST_KEPT: Final = 1000
_MENTION: Final = re.compile(r"<(?=[!@#])")


@dataclass(slots=True)
class _Stream:
    """A message that grows."""

    since: float
    word: str
    sent: str = ""
    lost: bool = False
    """It is not known what it shows."""


class Streams:
    """Those of one workspace."""

    def __init__(self, web: SlackWeb, *, wanted: bool) -> None:
        self._web, self._wanted = web, wanted
        self.seconds, self.append_seconds = SECONDS, APPEND_SECONDS
        self._open: dict[str, _Stream] = {}
        self._started: deque[float] = deque()
        self._off: OrderedDict[str, float] = OrderedDict()
        """Until when channels, or with an empty name the workspace, have no streams."""
        self._doubtful: OrderedDict[str, None] = OrderedDict()
        """Questions for which a stream may have been started without our knowing."""

    @property
    def pace(self) -> float:
        """Seconds between two calls for one message: longer the more of them grow."""
        return self.append_seconds * len(self._open)

    async def start(self, post: Post) -> str | None:
        """The id of a new message that grows; None where there is to be a post instead."""
        if not self._may_start(post):
            return None
        now = time.monotonic()
        self._started.append(now)
        # Of jobs that another process has, or that had no place.
        self._open = {ts: stream for ts, stream in self._open.items() if stream.since > now - 2 * SECONDS}
        fields = {
            "channel": post.thread.channel,
            "thread_ts": post.thread.thread,
            "recipient_user_id": post.asker,
            "recipient_team_id": post.thread.workspace,
            "chunks": [_task(post, "in_progress"), {"type": "blocks", "blocks": [_stop(post)]}],
        }
        try:
            reply = await self._web.call("chat.startStream", **fields)
        except ChannelBusy as busy:
            self._switch_off("", busy.retry_after or 60.0)
            return None
        except (SlackRefusal, ChannelGone) as refused:
            # If there is really no place for an answer, the post will tell.
            unknown = isinstance(refused, SlackRefusal) and refused.error in _NOWHERE
            log.info("Answers are not streamed %s: %s", "here" if unknown else "in a channel", refused)
            self._switch_off("" if unknown else post.thread.channel, OFF_SECONDS)
            return None
        except ChannelError:
            self._doubtful[post.key] = None
            while len(self._doubtful) > MOST_KEPT:
                self._doubtful.popitem(last=False)
            raise
        ts = str(reply["ts"])
        self._open[ts] = _Stream(since=now, word=post.body)
        return ts

    async def show(self, message_id: str, post: Post) -> bool:
        """Whether `post` is seen now; if not, the message is no stream any more.

        Raises `StoppedByReader` when the person for whom it is written wants no more of it.
        """
        stream = self._open.get(message_id)
        if stream is None:
            return False
        chunks = self._chunks(stream, post)
        if chunks is None:
            await self.end(message_id, post)
            return False
        if not chunks:
            return True
        try:
            await self._web.call("chat.appendStream", channel=post.thread.channel, ts=message_id, chunks=chunks)
        except ChannelBusy:
            raise  # nothing was appended
        except SlackRefusal as refusal:
            log.info("A streamed answer goes on by updates: %s", refusal)
            if refusal.error == "stopped_by_user":
                del self._open[message_id]
                raise StoppedByReader from refusal
            await self.end(message_id, post)
            return False
        except ChannelError:
            stream.lost = True
            raise
        if post.phase is Phase.GROWING:
            stream.sent += _text(chunks)
        else:
            stream.word = post.body
        return True

    async def end(self, message_id: str, post: Post) -> None:
        """Ends it, if it is one; also one of a process before. Raises `ChannelError` if that is not sure."""
        try:
            await self._web.call("chat.stopStream", channel=post.thread.channel, ts=message_id)
        except SlackRefusal as refusal:
            if refusal.error != "message_not_in_streaming_state":
                log.info("A stream could not be ended: %s", refusal)
        self._open.pop(message_id, None)

    def has(self, message_id: str) -> bool:
        """Whether the message grows."""
        return message_id in self._open

    def _may_start(self, post: Post) -> bool:
        """A question that only waits for its turn may wait longer than a stream lasts."""
        if not self._wanted or not post.asker or post.phase is not Phase.WAITING or post.body != notices.WORKING:
            return False
        now = time.monotonic()
        while self._started and self._started[0] < now - 60:
            self._started.popleft()
        off = any(self._off.get(name, 0.0) > now for name in ("", post.thread.channel))
        return not off and len(self._started) < STARTS_A_MINUTE and post.key not in self._doubtful

    def _switch_off(self, where: str, seconds: float) -> None:
        self._off[where] = time.monotonic() + seconds
        self._off.move_to_end(where)
        while len(self._off) > MOST_KEPT:
            self._off.popitem(last=False)

    def _chunks(self, stream: _Stream, post: Post) -> list[Json] | None:
        """What to append so that `post` is seen; None if appending cannot do that."""
        if stream.lost or time.monotonic() - stream.since > self.seconds:
            return None
        if post.phase is Phase.WAITING:
            if stream.sent:
                return None
            return [] if post.body == stream.word else [_task(post, "in_progress")]
        text = _fitting(_harmless(post.body))
        if not text.startswith(stream.sent):
            return None if not stream.sent.startswith(text) else []
        added = text[len(stream.sent) :]
        chunks: list[Json] = [{"type": "markdown_text", "text": added}] if added else []
        return [_task(post, "complete"), *chunks] if chunks and not stream.sent else chunks


class StoppedByReader(Exception):
    """Slack shows a button of its own that ends a stream."""


_NOWHERE: Final = frozenset(
    "unknown_method method_deprecated not_allowed missing_scope no_permission feature_not_enabled team_not_eligible "
    "paid_teams_only ekm_access_denied invalid_chunks invalid_blocks invalid_arguments".split()
)
"""Refusals that no other channel will answer otherwise."""


def _task(post: Post, status: str) -> Json:
    title = "Looked into the documents" if status == "complete" else post.body
    return {
        "type": "task_update",
        "id": f"{rendering.BLOCK}:{post.key}:{post.part}:task",
        "title": title,
        "status": status,
    }


def _stop(post: Post) -> Json:
    return rendering.stop_button() | {"block_id": name(post)}


def name(post: Post) -> str:
    """What the blocks of our messages carry: clicks and shortcuts tell these, and no metadata for sure."""
    return f"{rendering.BLOCK}:{post.key}:{post.part}:{post.phase.value}"


def _text(chunks: list[Json]) -> str:
    return "".join(chunk["text"] for chunk in chunks if chunk["type"] == "markdown_text")


def _harmless(text: str) -> str:
    """Without what might notify somebody; what may become that with the next piece is held back."""
    return _MENTION.sub("‹", text).removesuffix("<")


def _fitting(text: str) -> str:
    """The beginning that a streamed message takes. Longer texts have the same one, so what was sent stays valid."""
    return text.encode(errors="replace")[:BYTES].decode(errors="ignore")
