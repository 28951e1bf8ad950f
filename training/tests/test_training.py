"""A few steps on a few lines: the loss falls, and llama.cpp says something else with what was exported."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bot import engine, model_files
from core.trained_prompts import ANSWER_HEAD, rewrite_prompt
from core.types import NOT_IN_DOCUMENTS, Turn
from training import adapter, rewriting
from training.gemma import Gemma
from training.packing import Packed, batches, collate
from training.tokens import BOS, Server
from training.train import DATA, is_held_out
from training.trainer import Recipe, Trained, train

STEPS = 6
HISTORY = (Turn(question="How do I install Packrat on Linux?", answer="Run `apt install packrat`."),)


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def conversations() -> list[rewriting.Conversation]:
    return rewriting.load(sorted(DATA.glob("rewrite-a.jsonl")))[:10]


@pytest.fixture(scope="session")
def bare(data_dir: Path) -> Iterator[Server]:
    with Server(data_dir) as server:
        yield server


@pytest.fixture(scope="session")
def model(bare: Server, data_dir: Path) -> Gemma:
    torch.set_num_threads(2)
    return Gemma(data_dir / "models" / model_files.CHAT_FILE)


@pytest.fixture(scope="session")
def trained(model: Gemma, bare: Server, conversations: list[rewriting.Conversation]) -> Trained:
    learnt = [rewriting.packed(c, bare.tokens) for c in conversations[:8]]
    held_out = [rewriting.packed(c, bare.tokens) for c in conversations[8:]]
    recipe = Recipe(epochs=3, steps=STEPS, rank=4, alpha=8.0, rate=2e-3)
    return train(model, [learnt] * 3, held_out, recipe, lambda line: None)


def test_the_tokens_of_a_prompt_are_those_of_its_pieces(bare: Server):
    history = (Turn(question="Oil? ¿Qué?", answer="0.8 L."), Turn(question="  und wann\n?", answer=""))
    sequence = rewriting.packed(
        rewriting.Conversation(
            id="x",
            language="en",
            turns=tuple(rewriting.Said(question=t.question, rewrite="r", answer=t.answer) for t in history),
        ),
        bare.tokens,
    )
    whole = bare.tokens(rewrite_prompt(history[-1].question, history[:-1]))
    last = sequence.branches[-1]
    assert [*sequence.trunk[: last.leaves], *last.prompt] == [BOS, *whole]


def test_the_token_that_is_made_less_likely_in_answers_is_the_one_that_begins_a_refusal(bare: Server):
    head = bare.tokens(ANSWER_HEAD)
    refusal = bare.tokens(f"{ANSWER_HEAD} {NOT_IN_DOCUMENTS}")
    assert refusal[: len(head)] == head
    ((token, _bias),) = engine.FIELDS_FOR["generate"]["logit_bias"]
    assert token == refusal[len(head)]


def test_a_branch_is_computed_as_if_it_stood_alone(model: Gemma):
    shared = Packed([BOS, 10, 11, 12])
    shared.branch([20], [21, 22])
    shared.extend([13, 14])
    shared.branch([30], [31])
    alone = Packed([BOS, 10, 11, 12, 13, 14])
    alone.branch([30], [31])
    with torch.no_grad():
        together, apart = (
            model.hidden(batch.ids, batch.positions, batch.mask).flatten(0, 1)[batch.rows[-1]]
            for batch in (collate([shared]), collate([alone]))
        )
    assert torch.allclose(together, apart, atol=0.15 * float(apart.abs().mean()))
    assert torch.nn.functional.cosine_similarity(together, apart, dim=0) > 0.999


def test_batches_hold_each_sequence_once_and_keep_to_their_budget():
    sequences = [Packed([BOS] * n) for n in (5, 300, 40, 700, 41, 39)]
    for sequence in sequences:
        sequence.branch([1], [2])
    made = batches(sequences, 800, random.Random(1))
    assert sorted(id(s) for batch in made for s in batch) == sorted(map(id, sequences))
    assert all(len(batch) == 1 or collate(batch).ids.numel() <= 800 for batch in made)


def test_the_loss_falls(trained: Trained):
    assert len(trained.losses) == STEPS
    assert trained.best.step > 0
    assert trained.best.loss < trained.checks[0].loss
    assert trained.losses[-1] < trained.losses[0]


def test_the_exported_adapter_reads_back_and_changes_what_llama_cpp_says(
    trained: Trained, model: Gemma, bare: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "adapter.gguf"
    adapter.write(model, file, "a test", trained.best.accuracy)
    assert adapter.accuracy(file) == pytest.approx(trained.best.accuracy)
    before = {name: lora.b.detach().clone() for name, lora in model.lora.items()}
    adapter.read(model, file)
    assert all(torch.allclose(lora.b, before[name], atol=1e-3) for name, lora in model.lora.items())

    prompt = rewrite_prompt("and on macOS?", HISTORY)
    monkeypatch.setattr(engine, "ADAPTERS", {**engine.ADAPTERS, "rewrite": file})
    with Server(tmp_path) as server:
        texts = {purpose: _said(server, prompt, purpose) for purpose in ("rewrite", "summarize")}
        theirs = _first_scores(server, prompt, "rewrite")
    assert texts["summarize"] == _said(bare, prompt, "summarize"), "switched off, the adapter must change nothing"
    assert texts["rewrite"] != texts["summarize"]
    without = _first_scores(bare, prompt, "summarize")
    ours = model.next_scores([BOS, *bare.tokens(prompt)])
    apart = max(abs(score - float(ours[token])) for token, score in theirs.items())
    moved = max(abs(score - float(ours[token])) for token, score in without.items())
    # Not equal: llama.cpp computes with 8-bit activations. But nearer to each other than to the bare model.
    assert apart < 0.5
    assert apart < moved / 2


def _said(server: Server, prompt: str, purpose: str) -> str:
    fields = engine.FIELDS_FOR[purpose]
    reply = server.post("/completion", {"prompt": prompt, "n_predict": 12, "temperature": 0, "stop": ["\n"], **fields})
    return str(reply["content"])


def _first_scores(server: Server, prompt: str, purpose: str) -> dict[int, float]:
    """Log-probabilities of the three likeliest next tokens."""
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": 3, **engine.FIELDS_FOR[purpose]}
    (first,) = server.post("/completion", body)["completion_probabilities"]
    return {row["id"]: row["logprob"] for row in first["top_logprobs"]}


def test_the_same_conversations_are_held_out_in_every_run():
    shares = [sum(is_held_out(f"{n}", share) for n in range(2_000)) / 2_000 for share in (0.05, 0.1)]
    assert shares[0] == pytest.approx(0.05, abs=0.02)
    assert shares[1] == pytest.approx(0.1, abs=0.03)
    names = [f"A-{n:03}" for n in range(1, 12)]
    assert [name for name in names if is_held_out(name, 0.5)] == ["A-004", "A-006", "A-010", "A-011"]
