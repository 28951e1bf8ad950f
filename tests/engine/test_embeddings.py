"""The converted embedder against sentence-transformers (see "origin" in reference.json)."""

import json
import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.engine import EMBEDDING_TOKENS
from core.index.embedder import HttpEmbedder
from tests.engine.conftest import Started

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))[
    "cases"
]
SHORT = [case for case in CASES if case["tokens"] <= EMBEDDING_TOKENS]
LONG = [case for case in CASES if case["tokens"] > EMBEDDING_TOKENS]


def text_of(case: dict[str, Any]) -> str:
    text: str = case["text"]
    return unicodedata.normalize(case["send"], text) if "send" in case else text


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)


def too_far(cases: list[dict[str, Any]], vectors: list[list[float]]) -> dict[str, float]:
    return {
        case["text"][:40]: agreement
        for case, vector in zip(cases, vectors, strict=True)
        if (agreement := cosine(case["vector"], vector)) < case.get("floor", 0.999)
    }


async def embed(client: httpx.AsyncClient, texts: Sequence[str | list[int]]) -> list[list[float]]:
    response = await client.post("/embeddings", json={"input": texts})
    assert response.status_code == 200, response.text
    return [item["embedding"] for item in response.json()["data"]]


async def tokens_of(started: Started, client: httpx.AsyncClient, text: str) -> list[int]:
    url = started.embeddings.base_url.removesuffix("/v1") + "/tokenize"
    tokens: list[int] = (await client.post(url, json={"content": text, "add_special": True})).json()["tokens"]
    return tokens


async def test_vectors_agree_with_sentence_transformers(embeddings: httpx.AsyncClient) -> None:
    assert sum("floor" not in case for case in CASES) >= 20
    vectors = await embed(embeddings, [text_of(case) for case in SHORT])
    assert too_far(SHORT, vectors) == {}
    assert all(math.hypot(*vector) == pytest.approx(1, abs=1e-4) for vector in vectors)


async def test_texts_fall_into_the_same_number_of_tokens(started: Started, embeddings: httpx.AsyncClient) -> None:
    cases = [case for case in CASES if "floor" not in case]
    counts = [len(await tokens_of(started, embeddings, text_of(case))) for case in cases]
    assert counts == [case["tokens"] for case in cases]


@pytest.mark.parametrize("case", LONG, ids=lambda case: case["text"][:12])
async def test_a_long_text_is_refused_whole_and_taken_as_cut_tokens(
    started: Started, embeddings: httpx.AsyncClient, case: dict[str, Any]
) -> None:
    refused = await embeddings.post("/embeddings", json={"input": case["text"]})
    assert refused.status_code == 500
    assert "too large to process. increase the physical batch size" in refused.json()["error"]["message"]
    tokens = await tokens_of(started, embeddings, case["text"])
    cut = [*tokens[: EMBEDDING_TOKENS - 1], tokens[-1]]  # [CLS] is the first of them, [SEP] the last
    assert too_far([case], await embed(embeddings, [cut])) == {}


async def test_the_index_embedder_takes_all_of_them(started: Started, embeddings: httpx.AsyncClient) -> None:
    endpoint = started.embeddings
    embedder = HttpEmbedder(
        embeddings, endpoint.base_url, endpoint.model, api_key=endpoint.api_key, max_tokens=EMBEDDING_TOKENS
    )
    assert too_far(CASES, await embedder.embed([text_of(case) for case in CASES])) == {}


async def test_a_text_has_the_same_vector_in_a_large_batch(embeddings: httpx.AsyncClient) -> None:
    texts = [text_of(case) for case in SHORT]
    alone = [(await embed(embeddings, [text]))[0] for text in texts[:5]]
    together = await embed(embeddings, texts * 4)
    assert [cosine(one, other) for one, other in zip(alone, together, strict=False)] == pytest.approx([1] * 5, abs=1e-5)


async def test_an_empty_text_has_a_vector(embeddings: httpx.AsyncClient) -> None:
    assert len((await embed(embeddings, [""]))[0]) == 384


async def test_korean_agrees_once_the_embedder_takes_its_syllables_apart(started: Started) -> None:
    taken_apart = [case for case in SHORT if case.get("send") == "NFD"]
    assert taken_apart
    texts = [case["text"] for case in taken_apart]
    vectors: dict[str, list[list[float]]] = {}
    async with httpx.AsyncClient(trust_env=False) as client:
        for form in ("", "NFD"):
            embedder = HttpEmbedder(
                client,
                started.embeddings.base_url,
                started.embeddings.model,
                api_key=started.embeddings.api_key,
                normal_form="NFD" if form else "",
            )
            vectors[form] = await embedder.embed(texts)
    assert too_far(taken_apart, vectors["NFD"]) == {}
    assert too_far(taken_apart, vectors[""]) != {}
