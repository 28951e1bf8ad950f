"""Which event goes where. What this returns from is acknowledged; what raises is not, and comes again."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from slack_bolt.app.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.actions import FORGET, SHOW_QUERY, Actions
from adapters.slack.events import Json
from adapters.slack.intake import Intake
from adapters.slack.pane import Pane
from adapters.slack.rendering import FEEDBACK

EVERYTHING: Final = re.compile(".*")
Ack = Callable[..., Awaitable[Any]]


def slack_app(client: AsyncWebClient, intake: Intake, actions: Actions, pane: Pane, missed: asyncio.Event) -> AsyncApp:
    """The app with all listeners. What it cannot do is answered with an error, so that Slack asks again; `missed` is
    set then."""
    app = AsyncApp(client=client, logger=_bolt_log(), process_before_response=True)
    _listen(app, intake, actions, pane, missed)
    return app


def _bolt_log() -> logging.Logger:
    # Its warnings quote whole events.
    logger = logging.getLogger("slack_bolt")
    logger.setLevel(logging.ERROR)
    return logger


def _listen(app: AsyncApp, intake: Intake, actions: Actions, pane: Pane, missed: asyncio.Event) -> None:
    async def hear(event: Json) -> None:
        try:
            await intake.hear(event)
        except Exception:
            missed.set()
            raise

    async def opened(event: Json) -> None:
        await pane.opened(event)

    async def started(event: Json) -> None:
        await pane.started(event)

    async def command(ack: Ack, command: Json) -> None:
        await ack(await actions.command(command))

    async def shortcut(ack: Ack, shortcut: Json) -> None:
        await ack()
        await actions.tell(shortcut, await actions.shortcut(shortcut))

    async def rated(ack: Ack, body: Json) -> None:
        await ack()
        await actions.tell(body, await actions.rated(body))

    app.event("app_mention")(hear)
    app.event("message")(hear)
    app.event("app_home_opened")(opened)
    app.event("assistant_thread_started")(started)
    app.command(EVERYTHING)(command)
    app.shortcut(SHOW_QUERY)(shortcut)
    app.shortcut(FORGET)(shortcut)
    app.action(FEEDBACK)(rated)
    # Bolt does not acknowledge what it knows no listener for: Slack repeats it, or shows a mark of failure.
    app.event(EVERYTHING)(_nothing)
    app.action(EVERYTHING)(_acknowledge)
    app.shortcut(EVERYTHING)(_acknowledge)


async def _nothing() -> None:
    """For events that the app is subscribed to and that mean nothing here."""


async def _acknowledge(ack: Ack) -> None:
    await ack()
