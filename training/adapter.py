"""An adapter as a file that llama.cpp reads."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import gguf
import numpy as np
import torch

from training.gemma import Gemma, LoRA

ACCURACY: Final = "threadwise.held_out.accuracy"
"""Field of the file; llama.cpp does not look at it."""


def write(model: Gemma, path: Path, name: str, accuracy: float) -> None:
    """Writes the model's LoRA matrices as float16, and a file with their hash beside them.

    `accuracy` is the share of the tokens that it had right in what was held out.
    """
    rank = next(iter(model.lora.values())).a.shape[0]
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", model.scale * rank)
    writer.add_name(name)
    writer.add_float32(ACCURACY, accuracy)
    for tensor, lora in model.lora.items():
        writer.add_tensor(f"{tensor}.weight.lora_a", lora.a.detach().numpy().astype(np.float16))
        writer.add_tensor(f"{tensor}.weight.lora_b", lora.b.detach().numpy().astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_hash(path)


def write_hash(path: Path) -> None:
    """Writes the file that says what the adapter must be, beside it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".sha256").write_text(f"{digest}  {path.name}\n", encoding="ascii")


def accuracy(path: Path) -> float:
    """The share of the tokens that it had right in what was held out."""
    return float(gguf.GGUFReader(path).fields[ACCURACY].contents())


def read(model: Gemma, path: Path) -> None:
    """Puts the matrices of a file into the model."""
    reader = gguf.GGUFReader(path)
    found = {tensor.name: torch.from_numpy(np.array(tensor.data, dtype=np.float32)) for tensor in reader.tensors}
    names = sorted(name.removesuffix(".weight.lora_a") for name in found if name.endswith(".lora_a"))
    model.lora = {name: LoRA(found[f"{name}.weight.lora_a"], found[f"{name}.weight.lora_b"]) for name in names}
    rank = next(iter(model.lora.values())).a.shape[0]
    model.scale = float(reader.fields["adapter.lora.alpha"].contents()) / rank
