"""`python -m training.control`: how far llama.cpp and PyTorch agree on a rewriter, and what of that is quantization.

The same weights are run three times: by PyTorch in float32, by llama.cpp as the bot runs them (4 bits, activations in
8 bits), and by llama.cpp from a file in which the same weights stand in float32.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import gguf
import torch

from bot import engine, model_files
from bot.model_files import CHAT_FILE
from core.trained_prompts import rewrite_prompt
from core.types import Turn
from training import adapter, rewriting
from training.gemma import Gemma
from training.tokens import BOS, Server
from training.train import DATA, HELD_OUT, is_held_out

PROMPTS: Final = 12
LIKELIEST: Final = 5
"""Tokens whose log-probabilities are compared."""
NEWLINE: Final = 107


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.control", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where the embedded model's files are kept")
    parser.add_argument("--adapter", type=Path, default=engine.ADAPTERS["rewrite"])
    asked = parser.parse_args()
    torch.set_num_threads(2)
    model = Gemma(asked.data_dir / "models" / CHAT_FILE, torch.float32)
    adapter.read(model, asked.adapter)
    engine.ADAPTERS["rewrite"] = asked.adapter
    prompts = held_out_prompts()
    with Server(asked.data_dir) as server:
        ids = [[BOS, *server.tokens(prompt)] for prompt in prompts]
        ours = [(model.next_scores(one), server.text(model.continued(one, 48, NEWLINE))) for one in ids]
        tell("4 bits, as the bot runs it", server, prompts, ours)
    with tempfile.TemporaryDirectory() as directory:
        plain = Path(directory) / "float32.gguf"
        unquantized(asked.data_dir / "models" / CHAT_FILE, plain)
        with patch.object(model_files, "chat_model", lambda *_arguments: plain), Server(asked.data_dir) as server:
            tell("float32", server, prompts, ours)


def held_out_prompts() -> list[str]:
    """Of conversations that no rewriter was trained on: the last message of each."""
    conversations = rewriting.load(sorted(DATA.glob("rewrite-*.jsonl")))
    return [
        rewrite_prompt(c.turns[-1].question, [Turn(question=t.question, answer=t.answer) for t in c.turns[:-1]])
        for c in conversations
        if is_held_out(c.id, HELD_OUT)
    ][:PROMPTS]


def unquantized(source: Path, target: Path) -> None:
    """Writes the weights of a GGUF as float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "gemma3")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, *inner = field.types
        writer.add_key_value(name, field.contents(), kind, inner[-1] if inner else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tell(name: str, server: Server, prompts: Sequence[str], ours: Sequence[tuple[torch.Tensor, str]]) -> None:
    """Prints how far the server is from PyTorch's scores of the first token and from its texts."""
    apart, same = [], 0
    for prompt, (scores, text) in zip(prompts, ours, strict=True):
        body: dict[str, Any] = {"prompt": prompt, "n_predict": 48, "temperature": 0, "n_probs": LIKELIEST}
        reply = server.post("/completion", {**body, "stop": ["\n"], **engine.FIELDS_FOR["rewrite"]})
        first = reply["completion_probabilities"][0]["top_logprobs"]
        apart += [abs(row["logprob"] - float(scores[row["id"]])) for row in first if row["logprob"] > -4]
        same += reply["content"].strip() == text.strip()
    print(  # noqa: T201
        f"{name}: texts equal {same} of {len(prompts)}; log-probabilities of the first token apart by "
        f"{sum(apart) / len(apart):.4f} at the mean, {max(apart):.4f} at most"
    )


if __name__ == "__main__":
    main()
