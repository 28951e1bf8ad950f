"""Who rewrites: the model that answers, the trained one on the CPU, or another endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot import wiring
from bot.config import Settings, load
from bot.engine import FIELDS_FOR, Endpoint, Engine
from bot.wiring import WEIGHTS_OF_ENDPOINT, WEIGHTS_OF_TRAINED, open_app
from core.errors import ConfigError, EngineError
from core.prompts import GEMMA4, TRAINED
from core.types import QueryStatus, Question, Turn
from tests.fakes import shown_by
from tests.servers.openai import OpenAIServer, Reply

HISTORY = (Turn(question="What oil does the Kestrel take?", answer="It takes 0.8 L [1]."),)
FOLLOW_UP = Question(text="and how often the filter?", history=HISTORY)


@pytest.fixture
async def answering() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        server.default = lambda body: Reply(pieces=("Every 90 days.",))
        yield server


@pytest.fixture
async def rewriting() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(model="small") as server:
        server.default = lambda body: Reply(pieces=("how often the Kestrel filter",))
        yield server


def settings(server: OpenAIServer, directory: Path, **changes: str) -> Settings:
    return load(
        {
            "DATA_DIR": str(directory),
            "LLM_BASE_URL": server.base_url,
            "EMBEDDING_BASE_URL": server.base_url,
            "EMBEDDING_MODEL": "test-embedder",
        }
        | changes
    )


async def rewritten(chosen: Settings) -> tuple[QueryStatus, str]:
    async with open_app(chosen, lambda line: None) as app:
        answer = await app.pipeline.answer(FOLLOW_UP, shown_by([]))
        return answer.query.status, answer.query.text


async def test_the_endpoint_rewrites_and_answers(answering: OpenAIServer, tmp_path: Path):
    chosen = settings(answering, tmp_path, REWRITER="endpoint")
    async with open_app(chosen, lambda line: None) as app:
        assert app.pipeline.rewriter is None
        assert app.pipeline.weights == WEIGHTS_OF_ENDPOINT
    await rewritten(chosen)
    assert len(answering.chats) == 2


async def test_an_endpoint_of_its_own_gets_the_rewrites_and_nothing_else(
    answering: OpenAIServer, rewriting: OpenAIServer, tmp_path: Path
):
    rewriting.api_key = "sk-small"
    chosen = settings(
        answering,
        tmp_path,
        REWRITER=rewriting.base_url,
        REWRITER_API_KEY="sk-small",
        REWRITER_MODEL="small",
        REWRITER_PROFILE="gemma4",
    )
    async with open_app(chosen, lambda line: None) as app:
        assert app.pipeline.rewriter is not None
        assert app.pipeline.rewriter.manners is GEMMA4
    assert await rewritten(chosen) == (QueryStatus.REWRITTEN, "how often the Kestrel filter")
    assert len(rewriting.chats) == len(answering.chats) == 1
    assert rewriting.chats[0]["model"] == "small"


async def test_a_rewriter_that_is_not_there_costs_the_asker_nothing(
    answering: OpenAIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    chosen = settings(answering, tmp_path, REWRITER="http://127.0.0.1:9/v1", REWRITER_MODEL="small")
    assert await rewritten(chosen) == (QueryStatus.FAILED, FOLLOW_UP.text)
    (line,) = [record.getMessage() for record in caplog.records if "rewrite fell back" in record.getMessage()]
    assert "Check REWRITER." in line
    assert "LLM_" not in line


async def test_the_local_one_rewrites_beside_an_endpoint_that_only_answers(answering: OpenAIServer, tmp_path: Path):
    chosen = settings(answering, tmp_path, REWRITER="local", DATA_DIR=str(tmp_path))
    async with open_app(chosen, lambda line: None) as app:
        assert app.pipeline.rewriter is not None
        assert app.pipeline.rewriter.manners is TRAINED
        assert app.pipeline.weights == WEIGHTS_OF_TRAINED
        answer = await app.pipeline.answer(FOLLOW_UP, shown_by([]))
        assert answer.query.status is QueryStatus.REWRITTEN
        assert "filter" in answer.query.text
        assert len(answering.chats) == 1
    assert "lora" not in answering.chats[0]


@pytest.mark.parametrize(("chosen", "scale"), [("local", 1.0), ("endpoint", 0.0)])
async def test_the_embedded_model_rewrites_with_its_adapter_only_where_it_is_asked_as_it_was_trained(
    chosen: str, scale: float, answering: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def start(*arguments: object, **options: object) -> Engine:
        endpoint = Endpoint(answering.base_url, "sk-any", "test-model", FIELDS_FOR)
        return Engine(chat=endpoint, embeddings=None)

    monkeypatch.setattr(wiring, "start_engine", start)
    embedded = load(
        {
            "DATA_DIR": str(tmp_path),
            "REWRITER": chosen,
            "EMBEDDING_BASE_URL": answering.base_url,
            "EMBEDDING_MODEL": "test-embedder",
        }
    )
    await rewritten(embedded)
    rewrite, *answers = answering.chats
    assert rewrite["lora"] == [{"id": 0, "scale": scale}, {"id": 1, "scale": 0.0}]
    assert ("Each conversation ends with a search query" in rewrite["messages"][0]["content"]) is (scale == 0.0)
    assert answers
    assert all(chat["lora"] == [{"id": 0, "scale": 0.0}, {"id": 1, "scale": 1.0}] for chat in answers)


async def test_without_a_choice_a_local_one_that_does_not_start_leaves_the_rewrites_to_the_endpoint(
    answering: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def start(*arguments: object, **options: object) -> None:
        raise EngineError("There is no memory.")

    monkeypatch.setattr(wiring, "start_engine", start)
    async with open_app(settings(answering, tmp_path), lambda line: None) as app:
        assert app.pipeline.rewriter is None
    assert "There is no memory." in caplog.text
    with pytest.raises(EngineError):
        async with open_app(settings(answering, tmp_path, REWRITER="local"), lambda line: None):
            pass


@pytest.mark.parametrize("wrong", ["locale", "127.0.0.1:9000", "http://user:key@host/v1"])
def test_a_rewriter_is_local_the_endpoint_or_a_url(wrong: str):
    with pytest.raises(ConfigError, match="REWRITER"):
        load({"REWRITER": wrong})
