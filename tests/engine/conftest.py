"""The real models, prepared and loaded once for all tests of this folder."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from bot.engine import Endpoint, Engine, start


@dataclass(frozen=True)
class Started:
    """An engine, where its files are, and what it said when it made them."""

    engine: Engine
    data_dir: Path
    steps: list[str]

    @property
    def chat(self) -> Endpoint:
        assert self.engine.chat is not None
        return self.engine.chat

    @property
    def embeddings(self) -> Endpoint:
        assert self.engine.embeddings is not None
        return self.engine.embeddings


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    data_dir = tmp_path_factory.mktemp("data")
    steps: list[str] = []
    # In a thread: the event loop of the tests is not ours to run.
    with ThreadPoolExecutor(1) as thread:
        engine = thread.submit(asyncio.run, start(data_dir, on_step=steps.append)).result()
        yield Started(engine, data_dir, steps)
        thread.submit(asyncio.run, engine.close()).result()


def client_of(endpoint: Endpoint) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    return httpx.AsyncClient(base_url=endpoint.base_url, headers=headers, timeout=60, trust_env=False)


@pytest.fixture
async def chat(started: Started) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(started.chat) as client:
        yield client


@pytest.fixture
async def embeddings(started: Started) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(started.embeddings) as client:
        yield client
