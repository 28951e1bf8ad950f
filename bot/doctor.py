"""`threadwise doctor`: looks at everything that has to work, and says what to do about what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from rich.console import Console
from rich.text import Text

from adapters.checkup import Finding
from bot.commands import telling
from bot.config import Settings
from bot.run import discord_setup, slack_setup
from bot.wiring import DEFAULT_CONTEXT_TOKENS, ask_about_model, open_index_only, outdated_index, slack_installations
from core.errors import ThreadwiseError
from core.index.health import check
from core.prompts import PROFILES

SMALL_CONTEXT: Final = 2048
EMBEDDED: Final = "Model: none is set, so the embedded demonstration answers. For a real one set LLM_BASE_URL."
NO_MEMORY: Final = "Memory: MEMORY_ENABLED does nothing with a base model, such as the embedded one: set LLM_BASE_URL."
NO_PLATFORM: Final = (
    "Chat platforms: none has a token. `threadwise chat` works; for Discord set DISCORD_BOT_TOKEN, for Slack "
    "SLACK_BOT_TOKEN and SLACK_APP_TOKEN or SLACK_SIGNING_SECRET."
)
NOTHING_READ: Final = "Index: there are no documents yet. Run `threadwise ingest PATH`."


async def doctor(settings: Settings) -> int:
    """0 if all is well, else 1. Raises nothing that a check can say."""
    console = Console(highlight=False)
    bad = 0
    async for finding in _findings(settings, Console(stderr=True, highlight=False)):
        mark = Text("ok   ", style="green") if finding.good else Text("look ", style="red")
        console.print(mark + Text(finding.text), soft_wrap=True)
        bad += not finding.good
    console.print("All is well." if not bad else f"{bad} thing{'s' if bad > 1 else ''} to look at.")
    return 1 if bad else 0


async def _findings(settings: Settings, errors: Console) -> AsyncIterator[Finding]:
    yield await _model(settings)
    if settings.memory_enabled and (settings.llm_base_url is None or PROFILES[settings.llm_profile].flat):
        yield Finding(good=False, text=NO_MEMORY)
    async for finding in _index(settings, errors):
        yield finding
    on_slack = slack_setup(settings)
    if on_slack is None and settings.discord_bot_token is None:
        yield Finding(good=True, text=NO_PLATFORM)
    # Late: each takes a third of a second.
    if on_slack is not None:
        from adapters.slack import checkup as slack

        try:
            installed = await slack_installations(settings)
        except ThreadwiseError as error:
            yield Finding(good=False, text=f"Slack: which workspaces have installed the app is not known: {error}")
        else:
            for finding in await slack.look(on_slack, installed):
                yield finding
    if settings.discord_bot_token is not None:
        from adapters.discord import checkup as discord

        for finding in await discord.look(discord_setup(settings, settings.discord_bot_token.get_secret_value())):
            yield finding


async def _model(settings: Settings) -> Finding:
    if settings.llm_base_url is None:
        return Finding(good=True, text=EMBEDDED)
    try:
        told = await ask_about_model(settings)
    except ThreadwiseError as error:
        return Finding(good=False, text=f"Model: {error}")
    name = settings.llm_model or told.models[0]
    context = settings.llm_context_tokens or told.context_tokens
    if context is None:
        text = f"does not tell its context, so {DEFAULT_CONTEXT_TOKENS} tokens are assumed: set LLM_CONTEXT_TOKENS."
        return Finding(good=False, text=f"Model: {name} {text}")
    if context < SMALL_CONTEXT:
        text = f"has {context} tokens of context, too few for passages and a conversation: give it 4096 or more."
        return Finding(good=False, text=f"Model: {name} {text}")
    return Finding(good=True, text=f"Model: {name}, {context} tokens of context.")


async def _index(settings: Settings, errors: Console) -> AsyncIterator[Finding]:
    try:
        with telling(errors) as tell:
            async with open_index_only(settings, tell) as index:
                tell("")
                yield Finding(good=True, text=f"Embedder: {index.embedder.model}.")
                state = await index.catalog.state()
                if not state.total:
                    yield Finding(good=False, text=NOTHING_READ)
                elif warning := await outdated_index(index):
                    yield Finding(good=False, text=f"Index: {warning}")
                else:
                    health = await check(index)
                    counts = f"{state.documents} documents, {state.total} passages"
                    text = f"{counts}." if health.ok else f"{counts}. {health} It is mended at the next start."
                    yield Finding(good=health.ok, text=f"Index: {text}")
    except ThreadwiseError as error:
        yield Finding(good=False, text=f"Embedder and index: {error}")
