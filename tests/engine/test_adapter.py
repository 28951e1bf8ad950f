"""The adapter for search queries is active in the calls that ask for it, and leaves no trace in others."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from bot import engine
from bot.engine import FIELDS_FOR
from core.errors import EngineError
from core.trained_prompts import rewrite_prompt
from core.types import Turn

HISTORY = (Turn(question="How do I install Threadwise on a cluster?", answer="With the Helm chart in `deploy` [1]."),)


async def said(chat: httpx.AsyncClient, purpose: str, question: str = "and on ARM?") -> str:
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": rewrite_prompt(question, HISTORY)}],
        "max_tokens": 32,
        "temperature": 0,
        "stop": ["\n"],
        **FIELDS_FOR[purpose],
    }
    reply = await chat.post("/chat/completions", json=body)
    assert reply.status_code == 200
    text: str = reply.json()["choices"][0]["message"]["content"]
    return text


async def test_the_adapter_changes_what_is_said_and_only_where_it_is_asked_for(chat: httpx.AsyncClient):
    rewrite, bare = await said(chat, "rewrite"), await said(chat, "generate")
    assert rewrite != bare
    assert [await said(chat, "rewrite"), await said(chat, "generate")] == [rewrite, bare]


async def test_a_query_names_what_the_message_leaves_out(chat: httpx.AsyncClient):
    query = await said(chat, "rewrite")
    assert "ARM" in query
    assert "install" in query.lower()


async def test_a_complete_question_about_something_else_stays_as_it_is(chat: httpx.AsyncClient):
    question = "Which ports does the database need open?"
    assert await said(chat, "rewrite", question) == question


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
async def test_an_adapter_that_is_damaged_is_refused_with_what_to_do(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("rewriter.gguf", "rewriter.sha256"):
        shutil.copy(engine.REWRITER.with_name(name), tmp_path)
    adapter = tmp_path / "rewriter.gguf"
    whole = adapter.read_bytes()
    adapter.write_bytes(whole[:-1] if harm == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    if harm == "gone":
        adapter.unlink()
    monkeypatch.setattr(engine, "REWRITER", adapter)
    with pytest.raises(EngineError, match="install Threadwise again") as caught:
        await engine.start(tmp_path / "data", embeddings=False)
    assert "\n" not in str(caught.value)
