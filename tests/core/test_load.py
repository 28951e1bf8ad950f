"""The pipeline on a seat: what it does when many wait, and what it says of that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.errors import ModelUnavailable, QuestionExpired
from core.gpu import Gpu, QueueLimits, ShedLevel
from core.llm_refusal import unavailable
from core.load import in_background, on_seat, shed
from core.outcome import MODEL_DOWN
from core.pipeline import Limits, Pipeline
from core.prompts import GEMMA3
from core.types import Answer, QueryStatus, Question, Turn
from tests.core.queueing import sample
from tests.fakes import ScriptedModel, ScriptedRetriever, passage, shown_by

NONE, NO_REWRITE, SHORTER, LAST_TURNS = ShedLevel
HISTORY = tuple(Turn(question=f"What about oil m{n}?", answer=f"It is m{n}.") for n in range(6))
PASSAGES = [passage(f"d{n}", f"oil number {n}") for n in range(8)]
FOLLOW_UP = Question(text="and which oil?", history=HISTORY)


def pipeline(model: ScriptedModel, **limits: Any) -> Pipeline:
    return Pipeline(
        model=model,
        retriever=ScriptedRetriever(*PASSAGES),
        manners=GEMMA3,
        limits=Limits(**({"passages": 5, "answer_tokens": 1024} | limits)),
    )


def full(gpu: Gpu, jobs: int) -> None:
    for n in range(jobs):
        gpu.enter(f"u{n}", f"c{n}", enforce=False)


async def ask(gpu: Gpu, pipe: Pipeline, question: Question = FOLLOW_UP) -> Answer:
    with gpu.enter("a", "c", enforce=False) as seat:
        return await on_seat(pipe, seat).answer(question, shown_by([]))


@pytest.mark.parametrize(
    ("jobs", "status", "passages", "tokens", "turns"),
    [
        (0, QueryStatus.REWRITTEN, 5, 1024, 6),
        (40, QueryStatus.SHED, 5, 1024, 6),
        (70, QueryStatus.SHED, 2, 512, 6),
        (95, QueryStatus.SHED, 2, 512, 2),
    ],
)
async def test_o5_what_is_left_out_at_each_level(
    jobs: int, status: QueryStatus, passages: int, tokens: int, turns: int
):
    gpu = Gpu(1)
    full(gpu, jobs)
    model = ScriptedModel(rewrite=["Which oil about m5?"], generate=["Number 1 [1]."])
    answer = await ask(gpu, pipeline(model))
    (asked,) = model.asked("generate")
    assert answer.query.status is status
    assert (asked.max_tokens, len(answer.passages)) == (tokens, passages)
    assert sum(f"It is m{n}." in message.content for n in range(6) for message in asked.messages) == turns
    assert len(model.asked("rewrite")) == (status is QueryStatus.REWRITTEN)
    assert answer.complete
    assert answer.text == "Number 1 [1]."


async def test_o5_a_shed_rewrite_is_counted_and_told_and_is_no_failure():
    gpu = Gpu(1)
    full(gpu, 40)
    before = sample("rag_rewriter_requests_total", status="shed")
    answer = await ask(gpu, pipeline(ScriptedModel(generate=["Number 1 [1]."])))
    assert sample("rag_rewriter_requests_total", status="shed") == before + 1
    assert answer.query.reason == "others wait for the model"
    assert answer.degraded == ()


async def test_o5_a_shorter_answer_leaves_a_mark():
    gpu = Gpu(1)
    full(gpu, 70)
    answer = await ask(gpu, pipeline(ScriptedModel(generate=["Number 1 [1]."])))
    assert [(mark.stage, mark.reason) for mark in answer.degraded] == [("load", "shorter")]


async def test_history_left_out_for_the_load_does_not_look_like_a_full_prompt():
    gpu = Gpu(1)
    full(gpu, 95)
    answer = await ask(gpu, pipeline(ScriptedModel(generate=["Number 1 [1]."])))
    assert (answer.kept.turns, answer.kept.turns_dropped) == (2, 0)


def test_shedding_changes_nothing_without_load_and_never_makes_anything_longer():
    pipe = pipeline(ScriptedModel(), passages=1, answer_tokens=160)
    assert shed(pipe, NONE) == pipe
    assert shed(pipe, LAST_TURNS).limits == pipe.limits


async def test_a_first_question_takes_one_slot_and_small_talk_none():
    gpu = Gpu(1)
    model = ScriptedModel(generate=["Number 1 [1]."])
    assert (await ask(gpu, pipeline(model), Question(text="which oil?"))).complete
    async with asyncio.timeout(5):
        with gpu.enter("x", "c") as seat:
            async with seat.slot(1):
                assert "elcome" in (await ask(gpu, pipeline(model), Question(text="thanks!"))).text


async def test_o7_an_expired_question_ends_the_turn_before_any_call():
    gpu, model = Gpu(1), ScriptedModel()
    for question in (FOLLOW_UP, Question(text="which oil?")):
        with pytest.raises(QuestionExpired), gpu.enter("a", "c", ttl=0.0) as seat:
            await on_seat(pipeline(model), seat).answer(question, shown_by([]))
    assert model.requests == []


async def test_f9_in_an_outage_that_lasts_too_long_the_passages_are_the_answer():
    gpu = Gpu(1, limits=QueueLimits(outage_seconds=0.2))
    down: list[str | ModelUnavailable] = [unavailable("down", not_taken=True)] * 9
    answer = await ask(gpu, pipeline(ScriptedModel(rewrite=["Which oil about m5?"], generate=down)))
    assert answer.text.startswith(MODEL_DOWN)
    assert (gpu.jobs, gpu.in_use) == (0, 0)


async def test_a_summary_waits_for_the_person_and_is_given_up_when_its_slot_does_not_come():
    gpu = Gpu(1, limits=QueueLimits(patience_seconds=0.1))
    model = ScriptedModel(summarize=["They talked about oil m1."])
    pipe = in_background(pipeline(model), gpu.background())
    before = sample("rag_stage_fallbacks_total", stage="summarize", reason="NoSlot")
    with gpu.enter("a", "c") as seat:
        async with seat.slot(100):
            assert await pipe.summarize("", HISTORY) is None
    assert sample("rag_stage_fallbacks_total", stage="summarize", reason="NoSlot") == before + 1
    assert model.requests == []
    assert await pipe.summarize("", HISTORY) == "They talked about oil m1."


async def test_a_summary_that_gives_way_to_a_question_is_no_warning(caplog: pytest.LogCaptureFixture):
    gpu, model = Gpu(1), ScriptedModel(summarize=[100.0], generate=["Number 1 [1]."])
    pipe = pipeline(model)
    summary = asyncio.create_task(in_background(pipe, gpu.background()).summarize("", HISTORY))
    await asyncio.sleep(0.05)
    assert len(model.requests) == 1
    async with asyncio.timeout(5):
        assert (await ask(gpu, pipe, Question(text="which oil?"))).text == "Number 1 [1]."
        assert await summary is None
    assert caplog.text == ""
