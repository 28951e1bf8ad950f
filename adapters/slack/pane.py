"""The agent pane and App Home: how to ask, and what there is to ask about. All of it may fail without a loss."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from adapters.addressing import title_of
from adapters.markdown.mrkdwn import escaped
from adapters.slack.line import Rush
from adapters.slack.web import Json, SlackRefusal, SlackWeb
from core.errors import ChannelError
from core.sanitize import label

log = logging.getLogger(__name__)

Topics = Callable[[], Awaitable[Sequence[str]]]
"""Titles of documents that everybody may see."""

PROMPTS: Final = 4
"""Slack shows no more."""
PROMPT_TITLE_CHARS: Final = 40
TITLE_CHARS: Final = 80
LISTED: Final = 20
GREETING: Final = (
    "Ask me in your own words, and ask on from the answer: I remember what we have talked about in this thread."
)
STATUS: Final = "is looking into the documents…"
HOW_TO_ASK: Final = """\
*In a channel* mention me with your question. I answer in the thread; there you can ask on without a mention.
*Here in Messages* just write. Each message opens a thread of its own: ask on in the thread.
*What was searched?* Open the menu of an answer and choose _Show rewritten query_."""


class Pane:
    """For one workspace."""

    def __init__(self, web: SlackWeb, name: str, topics: Topics, rush: Rush) -> None:
        self._web, self._name, self._topics, self._rush = web, name, topics, rush
        self._has_pane = True
        self._aside: set[asyncio.Task[None]] = set()

    async def opened(self, event: Json) -> None:
        """Somebody has opened App Home, or its tab with messages, which is the agent pane."""
        user, channel = str(event.get("user") or ""), str(event.get("channel") or "")
        if event.get("tab") == "messages" and channel:
            self._do(self._suggest(channel))
        elif user:
            self._do(self._publish(user))

    async def started(self, event: Json) -> None:
        """Somebody has opened a thread in the pane of an older app."""
        thread: Json = event.get("assistant_thread") or {}
        if thread.get("channel_id") and thread.get("thread_ts"):
            self._do(self._greet(str(thread["channel_id"]), str(thread["thread_ts"])))

    def working(self, channel: str, thread: str, question: str, *, first: bool) -> None:
        """A question in the pane is about to be answered."""
        if self._has_pane:
            self._do(self._show_work(channel, thread, question if first else ""))

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._aside:
            task.cancel()
        await asyncio.gather(*self._aside, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside the event, which is to be acknowledged at once."""
        task = asyncio.create_task(self._try(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _try(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SlackRefusal as refusal:
            # A workspace or an app without the pane.
            log.info("The agent pane is left alone: %s", refusal)
            self._has_pane = False
        except ChannelError as error:
            log.info("Nothing was shown in the agent pane: %s", error)

    async def _greet(self, channel: str, thread: str) -> None:
        await self._web.call("chat.postMessage", channel=channel, thread_ts=thread, text=GREETING)
        await self._suggest(channel, thread_ts=thread)

    async def _suggest(self, channel: str, **where: str) -> None:
        prompts = [{"title": "What can you help with?", "message": "What do the documents tell about?"}]
        for topic in (await self._topics())[: PROMPTS - 1]:
            title = title_of(label(topic), PROMPT_TITLE_CHARS)
            prompts.append({"title": title, "message": f"What is there to know about {label(topic)}?"})
        await self._web.call("assistant.threads.setSuggestedPrompts", channel_id=channel, prompts=prompts, **where)

    async def _show_work(self, channel: str, thread: str, question: str) -> None:
        await self._rush.over()
        await self._web.call("assistant.threads.setStatus", channel_id=channel, thread_ts=thread, status=STATUS)
        if title := title_of(question, TITLE_CHARS):
            await self._web.call("assistant.threads.setTitle", channel_id=channel, thread_ts=thread, title=title)

    async def _publish(self, user: str) -> None:
        topics = await self._topics()
        known = "\n".join(f"• {escaped(label(topic))}" for topic in topics[:LISTED]) or "There are no documents yet."
        more = "\n… and more" if len(topics) > LISTED else ""
        blocks = [
            {"type": "header", "text": {"type": "plain_text", "text": f"Ask {self._name}"[:150]}},
            _section("I answer from this community's own documents, with sources, and follow-ups work."),
            _section(HOW_TO_ASK),
            {"type": "divider"},
            _section(f"*What I know about*\n{known}{more}"[:3000]),
        ]
        await self._web.call("views.publish", user_id=user, view={"type": "home", "blocks": blocks})


def _section(text: str) -> Json:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}
