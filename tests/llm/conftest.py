"""A server, and clients of it with short deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from core.deadlines import Deadlines
from core.llm import HttpChatModel
from tests.servers.openai import OpenAIServer

MakeModel = Callable[..., HttpChatModel]


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as running:
        yield running


@pytest.fixture
async def make_model(server: OpenAIServer) -> AsyncIterator[MakeModel]:
    """Builds clients of the server; checks that none of them leaves a task behind."""
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:

        def make(base_url: str = "", **options: object) -> HttpChatModel:
            given: dict[str, object] = {
                "model": "m",
                "deadlines": Deadlines(wall=5.0, tail=0.1),
                **options,
            }
            model = HttpChatModel(base_url or server.base_url, **given)  # type: ignore[arg-type]
            stack.push_async_callback(model.aclose)
            return model

        yield make
    await server.until(lambda: not _left(before), seconds=0.5)


def _left(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    tasks = asyncio.all_tasks() - before - {asyncio.current_task()}
    return {task for task in tasks if "aiohttp" not in repr(task.get_coro())}


@pytest.fixture
def model(make_model: MakeModel) -> HttpChatModel:
    return make_model()
