"""The tokenizer of llama.cpp and of vLLM, over real HTTP, and a conversation whose budget hangs on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Literal

import pytest

from core.counting import Counts
from core.errors import ModelError, ModelGarbage, ModelTimeout, ModelUnavailable
from core.llm import HttpChatModel
from core.pipeline import Limits, Pipeline
from core.prompts import GEMMA3
from core.tokenizer import HttpTokenizer
from core.types import Answer, Question, Turn
from tests.fakes import ScriptedRetriever, passage, shown_by
from tests.servers.openai import TOKENIZE, OpenAIServer, Reply

TEXTS = ["Two words.", "", "北京的油泵", "SELECT id\n\nFROM pumps;\n", "½ surrogate \ud800"]
MakeTokenizer = Callable[..., HttpTokenizer]


@pytest.fixture
async def make(server: OpenAIServer) -> AsyncIterator[MakeTokenizer]:
    made: list[HttpTokenizer] = []

    def make(**options: object) -> HttpTokenizer:
        given: dict[str, object] = {"model": "test-model", **options}
        made.append(HttpTokenizer(server.base_url, **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for tokenizer in made:
        await tokenizer.aclose()


def asked(server: OpenAIServer) -> list[dict[str, object]]:
    return [request.body for request in server.requests if request.path == TOKENIZE]


@pytest.mark.parametrize(("dialect", "field"), [("llama.cpp", "content"), ("vllm", "prompt")])
async def test_many_texts_are_counted_by_one_request(
    server: OpenAIServer, make: MakeTokenizer, dialect: Literal["llama.cpp", "vllm"], field: str
):
    server.tokenizer, server.count = dialect, len
    tokenizer = make()
    assert await tokenizer.count(TEXTS) == [len(text) for text in TEXTS]
    assert await tokenizer.count(["again"]) == [5]
    first, *later = asked(server)
    assert first["content"] == first["prompt"]
    assert [len({"content", "prompt"} & set(body)) for body in later] == [1, 1]
    assert later[-1][field] == "again"
    assert later[-1]["model"] == "test-model"


async def test_the_control_token_that_the_endpoint_names_is_tried_first(server: OpenAIServer, make: MakeTokenizer):
    await make(special_tokens=["no token", "<|im_start|>"]).count(["text"])
    assert [body["content"] for body in asked(server)][:2] == ["<|im_start|>" * 3, "<eos>" * 3]


async def test_an_endpoint_without_one_is_asked_once(server: OpenAIServer, make: MakeTokenizer):
    server.tokenizer = ""
    tokenizer = make()
    assert [await tokenizer.count(["text"]) for _ in range(3)] == [None, None, None]
    assert len(asked(server)) == 1


@pytest.mark.parametrize("body", ["<html>", "[]", '{"tokens": 3}', '{"tokens": ["a"]}', "[" * 100_000])
async def test_a_page_that_is_no_tokenizer_is_taken_for_none(server: OpenAIServer, make: MakeTokenizer, body: str):
    server.script(Reply(body=body), path=TOKENIZE)
    tokenizer = make()
    assert await tokenizer.count(["text"]) is None
    assert await tokenizer.count(["text"]) is None
    assert len(asked(server)) == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=500), ModelUnavailable),
        (Reply(status=429), ModelUnavailable),
        (Reply(before="hang"), ModelTimeout),
        (Reply(body="<html>"), ModelGarbage),
        (Reply(body='{"tokens": [2, 3]}'), ModelGarbage),
    ],
)
async def test_one_that_fails_says_so_and_is_asked_again(
    server: OpenAIServer, make: MakeTokenizer, reply: Reply, error: type[ModelError]
):
    server.count = len
    tokenizer = make(seconds=0.2)
    assert await tokenizer.count(["text"]) == [4]
    server.script(reply, path=TOKENIZE)
    with pytest.raises(error):
        await tokenizer.count(["text", "other"])
    assert await tokenizer.count(["text", "other"]) == [4, 5]


async def test_one_that_hangs_costs_a_few_deadlines_and_then_nothing(server: OpenAIServer, make: MakeTokenizer):
    server.script(*[Reply(before="hang")] * 9, path=TOKENIZE)
    tokenizer = make(seconds=0.05)
    for _ in range(3):
        with pytest.raises(ModelTimeout):
            await tokenizer.count(["text"])
    with pytest.raises(ModelUnavailable):
        await tokenizer.count(["text"])
    assert len(asked(server)) == 3


def one_each(text: str) -> int:
    """As Gemma's tokenizer takes digits and rare characters: one by one; four letters are one."""
    plain = sum(char.isascii() and not char.isdigit() for char in text)
    return len(text) - plain + plain // 4 + 1


DENSE = {"digits": "10.4711, 20.0815; " * 30, "code": "0x1F,0x2E,[0042]={9,8,7};" * 20, "rare signs": "𠀀𠀁𠀂" * 60}
CONTEXT = 4000


async def answered(server: OpenAIServer, counts: Counts, text: str) -> Answer:
    """The answer to a question after sixteen turns of such a text."""
    model = HttpChatModel(server.base_url, model="test-model")
    pages = [passage(str(n), f"Kestrel {n} {text}") for n in range(4)]
    pipeline = Pipeline(
        model=model,
        retriever=ScriptedRetriever(*pages),
        manners=GEMMA3,
        limits=Limits(context_tokens=CONTEXT),
        rewriting=False,
        counts=counts,
    )
    history = tuple(Turn(question=f"Kestrel {n}?", answer=f"{n} {text}") for n in range(16))
    try:
        return await pipeline.answer(Question(text="Kestrel?", history=history), shown_by([]))
    finally:
        await model.aclose()


@pytest.mark.parametrize("dialect", ["llama.cpp", "vllm"])
@pytest.mark.parametrize("kind", ["digits", "code"])
async def test_a_prompt_that_the_estimate_takes_to_fit_is_not_sent_too_long(
    server: OpenAIServer, make: MakeTokenizer, dialect: Literal["llama.cpp", "vllm"], kind: str
):
    server.count, server.context_tokens, server.tokenizer = one_each, CONTEXT, dialect
    estimated = await answered(server, Counts(), DENSE[kind])
    assert len(server.chats) == 2, "the estimate was right"
    server.requests.clear()
    answer = await answered(server, Counts(make()), DENSE[kind])
    assert len(server.chats) == 1
    assert answer.text == "Yes."
    assert (answer.kept.counted, estimated.kept.counted) == (True, False)
    # Half the context, which is what an estimate falls back to, holds less.
    assert answer.kept.turns > estimated.kept.turns
    assert 0.7 * answer.kept.budget < answer.usage.prompt_tokens <= answer.kept.budget
    # One to learn the control token, one for all the texts.
    assert len(asked(server)) == 2


@pytest.mark.parametrize("fault", ["none there", "slow", "broken"])
async def test_without_a_tokenizer_a_turn_goes_on_by_the_estimate(
    server: OpenAIServer, make: MakeTokenizer, fault: str
):
    server.count, server.context_tokens = one_each, CONTEXT
    if fault == "none there":
        server.tokenizer = ""
    elif fault == "slow":
        server.script(*[Reply(delay=60.0)] * 2, path=TOKENIZE)
    else:
        server.script(*[Reply(status=500)] * 2, path=TOKENIZE)
    counts = Counts(make(seconds=0.2))
    async with asyncio.timeout(30):
        answer = await answered(server, counts, DENSE["digits"])
    assert (answer.text, answer.kept.counted) == ("Yes.", False)
    if fault != "none there":
        assert (await answered(server, counts, DENSE["rare signs"])).kept.counted
