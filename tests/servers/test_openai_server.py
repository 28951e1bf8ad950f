"""The scripted server itself, asked by another process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping

import pytest

from tests.servers.openai import EMBEDDINGS, OpenAIServer, Reply, embedding

CLIENT = """
import json, sys, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"})
sys.stdout.write(urllib.request.urlopen(request, timeout=10).read().decode())
"""


async def post_from_another_process(url: str, body: Mapping[str, object]) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, url, json.dumps(body), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_another_process_gets_the_scripted_stream_and_is_recorded() -> None:
    async with OpenAIServer() as server:
        server.script(Reply(pieces=("4 ", 0.01, "bar")))
        body = {"messages": [{"role": "user", "content": "?"}], "stream": True}
        stream = await post_from_another_process(f"{server.base_url}/chat/completions", body)
        assert stream.endswith("data: [DONE]\n\n")
        assert '"4 "' in stream
        assert server.chats == [body]
        assert (server.in_flight, server.max_in_flight, server.disconnects) == (0, 1, 0)


async def test_embeddings_are_the_same_everywhere_and_near_for_common_words() -> None:
    async with OpenAIServer() as server:
        server.width = 32
        body = {"input": ["the valve opens", "the valve closes", "leave days"]}
        reply = json.loads(await post_from_another_process(f"{server.base_url}/embeddings", body))
        valve, closes, leave = (item["embedding"] for item in reply["data"])
    assert valve == pytest.approx(embedding("the valve opens", 32))
    near, far = (sum(a * b for a, b in zip(valve, other, strict=True)) for other in (closes, leave))
    assert near > far


async def test_a_prompt_over_the_context_is_refused_and_a_wrong_key_too() -> None:
    async with OpenAIServer(context_tokens=10) as server:
        server.count = len
        body = {"messages": [{"role": "user", "content": "x" * 20}]}
        with pytest.raises(AssertionError):
            await post_from_another_process(f"{server.base_url}/chat/completions", body)
        server.api_key = "k"
        with pytest.raises(AssertionError):
            await post_from_another_process(f"{server.base_url}/embeddings", {"input": "x"})
        assert [record.path for record in server.requests][-1] == EMBEDDINGS
