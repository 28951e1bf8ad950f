"""A certificate that is not accepted is told in one line, with the setting that names the address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import discord
import pytest
from discord.http import Route

from adapters.discord import checkup as discord_checkup
from adapters.discord.connection import Connection
from adapters.discord.pacing import Pacer
from adapters.discord.setup import DiscordSetup
from adapters.slack import checkup as slack_checkup
from adapters.slack.setup import SlackSetup
from bot.config import load
from bot.wiring import open_index_only
from core import certificate
from core.deadlines import Deadlines
from core.errors import ModelUnavailable, ThreadwiseError
from core.llm import HttpChatModel
from tests.llm.asking import ask
from tests.servers.tls import PEM, self_signed


@pytest.fixture(autouse=True)
def _put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Route, "BASE", Route.BASE)


def told(text: str, setting: str) -> None:
    assert "certificate" in text
    assert "self-signed" in text
    assert setting in text
    assert "\n" not in text


async def test_of_the_model():
    async with self_signed() as address:
        model = HttpChatModel(f"{address}/v1", model="m", deadlines=Deadlines(wall=5.0))
        outcome = await ask(model)
        await model.aclose()
    assert type(outcome.error) is ModelUnavailable
    told(str(outcome.error), "LLM_BASE_URL")


@pytest.fixture
def vouched_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine takes the server's word, as that of a company's own authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    certificate.context.cache_clear()
    yield
    certificate.context.cache_clear()


@pytest.mark.usefixtures("vouched_for")
async def test_one_of_an_authority_that_the_machine_knows_is_accepted_of_the_model():
    async with self_signed() as address:
        model = HttpChatModel(f"{address}/v1", model="m", deadlines=Deadlines(wall=5.0))
        outcome = await ask(model)
        await model.aclose()
    # It hangs up, but after the certificate.
    assert type(outcome.error) is ModelUnavailable
    assert "certificate" not in str(outcome.error)


@pytest.mark.parametrize("known", [True, False])
async def test_one_of_an_authority_that_the_machine_knows_is_accepted_of_the_embedder(
    request: pytest.FixtureRequest, tmp_path: Path, known: bool
):
    if known:
        request.getfixturevalue("vouched_for")
    async with self_signed() as address:
        settings = load({"DATA_DIR": str(tmp_path), "EMBEDDING_BASE_URL": f"{address}/v1", "EMBEDDING_MODEL": "m"})
        with pytest.raises(ThreadwiseError) as caught:
            async with open_index_only(settings, lambda _: None):
                pass
    if known:
        assert "certificate" not in str(caught.value)
    else:
        told(str(caught.value), "EMBEDDING_BASE_URL")


@pytest.mark.usefixtures("vouched_for")
async def test_other_authorities_are_known_too():
    assert len(certificate.context().get_ca_certs()) > 20


async def test_of_discord_as_the_doctor_says_it():
    async with self_signed() as address:
        (finding,) = await discord_checkup.look(DiscordSetup(token="abc", api_base_url=address))
    assert not finding.good
    told(finding.text, "DISCORD_API_BASE_URL")


async def test_of_discord_while_it_runs(caplog: pytest.LogCaptureFixture):
    async with self_signed() as address:
        setup = DiscordSetup(token="abc", api_base_url=address)
        running = asyncio.create_task(Connection(setup, Pacer(), lambda intents: discord.Client(intents=intents)).run())
        async with asyncio.timeout(10):
            while "certificate" not in caplog.text:
                assert not running.done(), running.exception()
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait({running})
    told(next(line for line in caplog.messages if "certificate" in line), "DISCORD_API_BASE_URL")
    assert "Traceback" not in caplog.text


async def test_of_slack():
    async with self_signed() as address:
        found = await slack_checkup.look(SlackSetup(bot_token="xoxb-1", app_token="xapp-1", api_base_url=f"{address}/"))
    told(next(finding.text for finding in found if not finding.good), "SLACK_API_BASE_URL")


async def test_discord_that_cannot_be_reached_names_the_setting():
    (finding,) = await discord_checkup.look(DiscordSetup(token="abc", api_base_url="http://127.0.0.1:9"))
    assert not finding.good
    assert "DISCORD_API_BASE_URL" in finding.text
    assert "\n" not in finding.text
