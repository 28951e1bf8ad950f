"""Which event goes where. What this returns from is acknowledged; what raises is not, and comes again."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.async_context import AsyncBoltContext
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.actions import FORGET, RESET_HERE, SHOW_QUERY, Actions
from adapters.slack.buttons import Buttons
from adapters.slack.events import Json
from adapters.slack.intake import Intake
from adapters.slack.line import UNTIL
from adapters.slack.pane import Pane
from adapters.slack.rendering import BUTTONS
from adapters.slack.whisper import Whisper

EVERYTHING: Final = re.compile(".*")
Ack = Callable[..., Awaitable[Any]]


def slack_app(
    client: AsyncWebClient,
    who: AuthorizeResult,
    intake: Intake,
    actions: Actions,
    buttons: Buttons,
    pane: Pane,
    whisper: Whisper,
    missed: asyncio.Event,
) -> AsyncApp:
    """The app with all listeners, of the bot that `who` tells. What it cannot do is answered with an error, so that
    Slack asks again; `missed` is set then."""

    async def authorize() -> AuthorizeResult:
        return who

    app = AsyncApp(
        client=client,
        # Else Bolt makes an installation store of its own where SLACK_CLIENT_ID is in the environment.
        authorize=authorize,
        logger=bolt_log(),
        process_before_response=True,
        # Signatures are verified before Bolt sees a request: it parses what anybody sent first.
        request_verification_enabled=False,
    )
    _listen(app, intake, actions, buttons, pane, whisper, missed)
    return app


def bolt_log() -> logging.Logger:
    """What Bolt logs to."""
    # Its warnings quote whole events.
    logger = logging.getLogger("slack_bolt")
    logger.setLevel(logging.ERROR)
    return logger


def _listen(
    app: AsyncApp,
    intake: Intake,
    actions: Actions,
    buttons: Buttons,
    pane: Pane,
    whisper: Whisper,
    missed: asyncio.Event,
) -> None:
    async def hear(event: Json, context: AsyncBoltContext) -> None:
        try:
            await intake.hear(event, context.get(UNTIL))
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
        message: Json = shortcut.get("message") or {}
        text, thread = await actions.shortcut(shortcut), str(message.get("thread_ts") or "")
        await whisper.tell(shortcut["channel"]["id"], shortcut["user"]["id"], text, thread)

    async def pressed(ack: Ack, body: Json) -> None:
        await ack()
        await buttons.pressed(body)

    app.event("app_mention")(hear)
    app.event("message")(hear)
    app.event("app_home_opened")(opened)
    app.event("assistant_thread_started")(started)
    app.command(EVERYTHING)(command)
    for name in (SHOW_QUERY, RESET_HERE, FORGET):
        app.shortcut(name)(shortcut)
    for name in BUTTONS:
        app.action(name)(pressed)
    # Bolt does not acknowledge what it knows no listener for: Slack repeats it, or shows a mark of failure.
    app.event(EVERYTHING)(_nothing)
    app.action(EVERYTHING)(_acknowledge)
    app.shortcut(EVERYTHING)(_acknowledge)


async def _nothing() -> None:
    """For events that the app is subscribed to and that mean nothing here."""


async def _acknowledge(ack: Ack) -> None:
    await ack()
