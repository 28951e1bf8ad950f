"""The adapter of a task is active in the calls for it, and leaves no trace in others."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from bot import engine
from bot.engine import FIELDS_FOR
from core.errors import EngineError
from core.trained_prompts import answer_prompt, rewrite_prompt
from core.types import NOT_IN_DOCUMENTS, Passage, Turn

HISTORY = (Turn(question="How do I install Threadwise on a cluster?", answer="With the Helm chart in `deploy` [1]."),)


PASSAGES = tuple(
    Passage(id=str(n), text=text, title="Packrat guide", source="packrat.md", heading=heading)
    for n, (heading, text) in enumerate(
        [
            ("Windows", "Run the installer `packrat-7.exe` as an administrator."),
            ("Debian", "Install the package with `apt install packrat`. It needs 40 MB."),
            ("Exit codes", "Code 3 is a warning: files that could not be read are listed."),
        ],
        1,
    )
)


async def said(chat: httpx.AsyncClient, purpose: str, question: str = "and on ARM?") -> str:
    return await continued(chat, purpose, rewrite_prompt(question, HISTORY))


async def answered(chat: httpx.AsyncClient, question: str, purpose: str = "generate") -> str:
    return await continued(chat, purpose, answer_prompt(question, (), PASSAGES))


async def continued(chat: httpx.AsyncClient, purpose: str, prompt: str) -> str:
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 32,
        "temperature": 0,
        "stop": ["\n"],
        **FIELDS_FOR[purpose],
    }
    reply = await chat.post("/chat/completions", json=body)
    assert reply.status_code == 200
    text: str = reply.json()["choices"][0]["message"]["content"]
    return text


async def test_each_adapter_changes_what_is_said_and_only_where_it_is_asked_for(chat: httpx.AsyncClient):
    purposes = ("rewrite", "generate", "summarize")
    first = [await said(chat, purpose) for purpose in purposes]
    assert len(set(first)) == len(purposes)
    assert [await said(chat, purpose) for purpose in reversed(purposes)] == first[::-1]


async def test_an_answer_cites_the_passage_that_holds_it(chat: httpx.AsyncClient):
    answer = await answered(chat, "How do I install Packrat on Debian?")
    assert "apt install packrat" in answer
    assert "[2]" in answer


async def test_what_no_passage_tells_is_refused(chat: httpx.AsyncClient):
    question = "Who founded the company behind Packrat?"
    assert await answered(chat, question) == NOT_IN_DOCUMENTS
    assert await answered(chat, question, "summarize") != NOT_IN_DOCUMENTS


def test_prompts_of_different_tasks_share_no_beginning():
    assert rewrite_prompt("q", HISTORY).split()[0] != answer_prompt("q", HISTORY, PASSAGES).split()[0]


async def test_a_query_names_what_the_message_leaves_out(chat: httpx.AsyncClient):
    query = await said(chat, "rewrite")
    assert "ARM" in query
    assert "install" in query.lower()


async def test_a_complete_question_about_something_else_stays_as_it_is(chat: httpx.AsyncClient):
    question = "Which ports does the database need open?"
    assert await said(chat, "rewrite", question) == question


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
@pytest.mark.parametrize("task", ["rewrite", "generate"])
async def test_an_adapter_that_is_damaged_is_refused_with_what_to_do(
    harm: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    original = engine.ADAPTERS[task]
    for file in (original, original.with_suffix(".sha256")):
        shutil.copy(file, tmp_path)
    adapter = tmp_path / original.name
    whole = adapter.read_bytes()
    adapter.write_bytes(whole[:-1] if harm == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    if harm == "gone":
        adapter.unlink()
    monkeypatch.setattr(engine, "ADAPTERS", {**engine.ADAPTERS, task: adapter})
    with pytest.raises(EngineError, match="install Threadwise again") as caught:
        await engine.start(tmp_path / "data", embeddings=False)
    assert "\n" not in str(caught.value)
