"""Gemma 3 in plain PyTorch on a CPU, read from the embedded model's own GGUF, with a trainable LoRA adapter.

The base weights are dequantized once and frozen, so that what is trained fits the quantized weights it will be
added to. A GGUF holds the weights of Gemma's norms as 1 + w: a plain RMS norm is right here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

LINEARS: Final = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
NORMS: Final = ("attn_norm", "attn_q_norm", "attn_k_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")

LOCAL_ROPE_BASE: Final = 10_000.0
"""Of the layers with a sliding window; the GGUF names only the base of the others."""
GLOBAL_EVERY: Final = 6
"""Each sixth layer attends to everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the model, as its GGUF tells them."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    window: int
    epsilon: float
    rope_base: float


@dataclass(frozen=True, slots=True)
class LoRA:
    """What an adapter adds to one linear layer: scale * b @ a, with a [rank, in] and b [out, rank], float32."""

    a: Tensor
    b: Tensor


class Gemma:
    """The model. `lora` maps tensor names ("blk.0.attn_q") to what is added; `dtype` is that of the products."""

    def __init__(self, path: Path, dtype: torch.dtype = torch.bfloat16, *, compiled: bool = False) -> None:
        reader = gguf.GGUFReader(path)
        tensors = {tensor.name: tensor for tensor in reader.tensors}

        def weight(name: str) -> Tensor:
            tensor = tensors[f"{name}.weight"]
            return torch.from_numpy(np.array(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))

        self.shape = _shape(reader)
        self.dtype = dtype
        self.embedding = weight("token_embd").to(dtype)
        self._out_norm = weight("output_norm")
        names = [f"blk.{layer}" for layer in range(self.shape.layers)]
        self._linears = [[weight(f"{name}.{part}").to(dtype) for part in LINEARS] for name in names]
        self._norms = [[weight(f"{name}.{part}") for part in NORMS] for name in names]
        self.lora: dict[str, LoRA] = {}
        self.scale = 0.0
        self._layer: Callable[..., Tensor] = torch.compile(_layer, dynamic=True) if compiled else _layer

    def add_lora(self, rank: int, alpha: float, seed: int, targets: Sequence[str] = LINEARS) -> list[Tensor]:
        """A fresh adapter, which changes nothing yet; returns what is to be trained."""
        generator = torch.Generator().manual_seed(seed)
        self.scale = alpha / rank
        for layer, linears in enumerate(self._linears):
            for part, weight in zip(LINEARS, linears, strict=True):
                if part in targets:
                    out, into = weight.shape
                    a = torch.randn(rank, into, generator=generator) / math.sqrt(into)
                    self.lora[f"blk.{layer}.{part}"] = LoRA(
                        a.requires_grad_(), torch.zeros(out, rank, requires_grad=True)
                    )
        return [tensor for lora in self.lora.values() for tensor in (lora.a, lora.b)]

    def hidden(self, ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """The last hidden states [batch, length, width], float32.

        `ids` and `positions` are [batch, length]; `mask` is bool [batch, length, length], true where a token (second
        axis) may see another (third axis).
        """
        shape, dtype = self.shape, self.dtype
        x = self.embedding[ids].float() * math.sqrt(shape.width)
        ropes = [self._rope(positions, LOCAL_ROPE_BASE), self._rope(positions, shape.rope_base)]
        never = torch.tensor(-3e4)
        near = mask & (positions[:, :, None] - positions[:, None, :] < shape.window)
        masks = [torch.where(seen, 0.0, never)[:, None].to(dtype) for seen in (near, mask)]
        for layer in range(shape.layers):
            reach = (layer + 1) % GLOBAL_EVERY == 0
            added = [self.lora.get(f"blk.{layer}.{part}") for part in LINEARS]
            pairs = [(lora.a, lora.b) if lora else None for lora in added]
            x = self._layer(
                x, *ropes[reach], masks[reach], self._linears[layer], self._norms[layer], pairs, self.scale, shape
            )
        return _norm(x, self._out_norm, shape.epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [..., vocabulary] of the next token."""
        return F.linear(hidden.to(self.dtype), self.embedding)

    def continued(self, ids: Sequence[int], count: int, stop: int) -> list[int]:
        """Up to `count` most likely tokens after `ids`, without the `stop` that ends them."""
        said: list[int] = []
        with torch.no_grad():
            while len(said) < count:
                best = int(self.next_scores([*ids, *said]).argmax())
                if best == stop:
                    break
                said.append(best)
        return said

    def next_scores(self, ids: Sequence[int]) -> Tensor:
        """Log-probabilities [vocabulary] of the token after `ids`, float32."""
        length = len(ids)
        with torch.no_grad():
            mask = torch.ones(length, length, dtype=torch.bool).tril()[None]
            hidden = self.hidden(torch.tensor([list(ids)]), torch.arange(length)[None], mask)
            return self.logits(hidden[0, -1]).float().log_softmax(-1)

    def _rope(self, positions: Tensor, base: float) -> tuple[Tensor, Tensor]:
        half = torch.arange(0, self.shape.head_width, 2).float() / self.shape.head_width
        angles = positions[..., None].float() * base**-half
        angles = torch.cat([angles, angles], -1)
        return angles.cos()[:, None], angles.sin()[:, None]


def _shape(reader: Any) -> Shape:
    def told(key: str) -> Any:
        return reader.fields[f"gemma3.{key}"].contents()

    return Shape(
        layers=told("block_count"),
        width=told("embedding_length"),
        heads=told("attention.head_count"),
        kv_heads=told("attention.head_count_kv"),
        head_width=told("attention.key_length"),
        window=told("attention.sliding_window"),
        epsilon=told("attention.layer_norm_rms_epsilon"),
        rope_base=told("rope.freq_base"),
    )


def _norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return F.rms_norm(x.float(), (x.shape[-1],), weight, epsilon)


def _layer(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
    linears: list[Tensor],
    norms: list[Tensor],
    lora: list[tuple[Tensor, Tensor] | None],
    scale: float,
    shape: Shape,
) -> Tensor:
    """One transformer layer over x [batch, length, width], float32."""
    dtype = linears[0].dtype
    batch, length, _ = x.shape
    epsilon = shape.epsilon

    def linear(t: Tensor, part: int) -> Tensor:
        y = F.linear(t, linears[part])
        pair = lora[part]
        return y if pair is None else y + F.linear(F.linear(t, pair[0].to(dtype)), (pair[1] * scale).to(dtype))

    def heads(t: Tensor, count: int) -> Tensor:
        return t.view(batch, length, count, shape.head_width).transpose(1, 2)

    def turned(t: Tensor) -> Tensor:
        left, right = t.chunk(2, -1)
        return (t * cos + torch.cat([-right, left], -1) * sin).to(dtype)

    h = _norm(x, norms[0], epsilon).to(dtype)
    q = turned(_norm(heads(linear(h, 0), shape.heads), norms[1], epsilon))
    k = turned(_norm(heads(linear(h, 1), shape.kv_heads), norms[2], epsilon))
    v = heads(linear(h, 2), shape.kv_heads)
    # The heads of a group share their keys and values, so their queries are one matrix; on a CPU this takes a quarter
    # of the time of torch's own attention.
    grouped = (batch, shape.kv_heads, -1, shape.head_width)
    scores = (q.reshape(grouped) @ k.transpose(2, 3)).view(batch, shape.heads, length, length)
    shares = (scores.float() * shape.head_width**-0.5 + mask).softmax(-1).to(dtype)
    seen = (shares.view(batch, shape.kv_heads, -1, length) @ v).view(batch, shape.heads, length, shape.head_width)
    x = x + _norm(linear(seen.transpose(1, 2).reshape(batch, length, -1), 3), norms[3], epsilon)
    h = _norm(x, norms[4], epsilon).to(dtype)
    return x + _norm(linear(F.gelu(linear(h, 4), approximate="tanh") * linear(h, 5), 6), norms[5], epsilon)
