"""Of a model of one's own the tokens are counted by its endpoint, where a prompt comes near its budget."""

from __future__ import annotations

from pathlib import Path

from bot.config import load
from bot.wiring import open_app
from core.types import Question, Turn
from tests.fakes import shown_by
from tests.servers.openai import TOKENIZE, OpenAIServer


async def test_the_endpoint_counts_for_its_model_and_with_its_key(tmp_path: Path):
    async with OpenAIServer() as server:
        server.tokenizer, server.api_key, server.context_tokens = "vllm", "sk-own", 2000
        settings = load(
            {
                "DATA_DIR": str(tmp_path),
                "LLM_BASE_URL": server.base_url,
                "LLM_API_KEY": "sk-own",
                "LLM_MAX_TOKENS": "200",
                "EMBEDDING_BASE_URL": server.base_url,
                "EMBEDDING_API_KEY": "sk-own",
                "EMBEDDING_MODEL": "test-embedder",
                "REWRITE_ENABLED": "false",
            }
        )
        history = tuple(Turn(question=f"{n}?", answer="Word upon word. " * 40) for n in range(9))
        async with open_app(settings, lambda line: None) as app:
            short = await app.pipeline.answer(Question(text="Kestrel?", history=history[:2]), shown_by([]))
            assert not [request for request in server.requests if request.path == TOKENIZE]
            long = await app.pipeline.answer(Question(text="Kestrel?", history=history), shown_by([]))
        assert (short.kept.counted, long.kept.counted) == (False, True)
        assert long.text == "Yes."
        assert {r.body["model"] for r in server.requests if r.path == TOKENIZE} == {"test-model"}
