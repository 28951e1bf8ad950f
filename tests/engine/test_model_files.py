"""What becomes of the model files: refused, made anew, never left half written."""

import errno
import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest

from bot import minilm_gguf, model_files
from bot.model_files import CHAT_FILE, EMBEDDING_FILE, Sources
from core.errors import EngineError
from tests.engine.conftest import Started


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    """A small chat model in two parts that counts as the published one, and a zip that is not the embedder."""
    parts = (tmp_path / "part00", tmp_path / "part01")
    parts[0].write_bytes(b"GGUF" * 1000)
    parts[1].write_bytes(b"more")
    monkeypatch.setattr(model_files, "CHAT_SHA256", hashlib.sha256(b"GGUF" * 1000 + b"more").hexdigest())
    archive = tmp_path / "model.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model.safetensors", b"other weights")
        file.writestr("config.json", "{}")
        file.writestr("tokenizer.json", "{}")
    return Sources(parts, archive)


@pytest.fixture
def steps() -> list[str]:
    return []


def files_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_published_models_are_found_and_joined(started: Started) -> None:
    models = started.data_dir / "models"
    assert files_in(models) == sorted([CHAT_FILE, EMBEDDING_FILE, EMBEDDING_FILE.replace(".gguf", ".sha256")])
    with (models / CHAT_FILE).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == model_files.CHAT_SHA256


def test_a_joined_model_is_used_again(tmp_path: Path, sources: Sources, steps: list[str]) -> None:
    target = model_files.chat_model(tmp_path / "models", sources, steps.append)
    assert target.read_bytes() == b"GGUF" * 1000 + b"more"
    for part in sources.chat_parts:
        part.unlink()
    assert model_files.chat_model(tmp_path / "models", sources, steps.append) == target
    assert len(steps) == 1


@pytest.mark.parametrize("damage", [b"", b"GGUF" * 1000 + b"mora"])
def test_a_damaged_chat_model_is_joined_anew(tmp_path: Path, sources: Sources, steps: list[str], damage: bytes) -> None:
    target = model_files.chat_model(tmp_path / "models", sources, steps.append)
    target.write_bytes(damage)
    model_files.chat_model(tmp_path / "models", sources, steps.append)
    assert target.read_bytes() == b"GGUF" * 1000 + b"more"
    assert len(steps) == 2


def test_parts_that_are_not_the_published_model_are_refused(tmp_path: Path, sources: Sources, steps: list[str]) -> None:
    sources.chat_parts[1].write_bytes(b"evil")
    with pytest.raises(EngineError, match=r"gemma-3-270m-q4_k_m\.gguf has the wrong sha256"):
        model_files.chat_model(tmp_path / "models", sources, steps.append)
    assert files_in(tmp_path / "models") == []


def test_a_missing_part_is_named(tmp_path: Path, sources: Sources, steps: list[str]) -> None:
    sources.chat_parts[1].unlink()
    with pytest.raises(EngineError, match="part01 cannot be read"):
        model_files.chat_model(tmp_path / "models", sources, steps.append)
    assert files_in(tmp_path / "models") == []


def test_other_weights_of_the_embedder_are_refused(tmp_path: Path, sources: Sources, steps: list[str]) -> None:
    with pytest.raises(EngineError, match=r"model\.safetensors in .*model\.zip has the wrong sha256"):
        model_files.embedding_model(tmp_path / "models", sources, steps.append)
    assert files_in(tmp_path / "models") == []


@pytest.mark.parametrize("content", [b"", b"PK not a zip"])
def test_a_broken_package_of_the_embedder_is_named(
    tmp_path: Path, sources: Sources, steps: list[str], content: bytes
) -> None:
    sources.embedding_zip.write_bytes(content)
    with pytest.raises(EngineError, match=r"model\.zip cannot be read"):
        model_files.embedding_model(tmp_path / "models", sources, steps.append)


def test_a_damaged_embedder_is_converted_anew_to_the_same_bytes(
    tmp_path: Path, started: Started, steps: list[str]
) -> None:
    whole = (started.data_dir / "models" / EMBEDDING_FILE).read_bytes()
    note = (started.data_dir / "models" / EMBEDDING_FILE).with_suffix(".sha256")
    target = tmp_path / EMBEDDING_FILE
    target.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    target.with_suffix(".sha256").write_bytes(note.read_bytes())
    model_files.embedding_model(tmp_path, Sources.installed(chat=False, embeddings=True), steps.append)
    assert target.read_bytes() == whole
    assert len(steps) == 1


def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, sources: Sources, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> NoReturn:
        del descriptor
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left on device") as caught:
        model_files.chat_model(tmp_path / "models", sources, steps.append)
    assert "\n" not in str(caught.value)
    assert files_in(tmp_path / "models") == []


LIMITED = """
import resource, sys
from pathlib import Path
from bot import model_files
from core.errors import EngineError

resource.setrlimit(resource.RLIMIT_FSIZE, (30_000_000, 30_000_000))
sources = model_files.Sources.installed(chat=True, embeddings=True)
for make in (model_files.chat_model, model_files.embedding_model):
    try:
        make(Path(sys.argv[1]), sources, lambda step: None)
    except EngineError as error:
        print(error)
"""


def test_writing_that_ends_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"The model files cannot be written to {tmp_path}: ") for line in lines)
    assert files_in(tmp_path) == []


def test_a_place_that_is_no_directory_is_one_line(tmp_path: Path, sources: Sources, steps: list[str]) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(EngineError, match="cannot be written to") as caught:
        model_files.chat_model(tmp_path / "models", sources, steps.append)
    assert "DATA_DIR" in str(caught.value)


def leave(path: Path, *, hours: float) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (time.time() - hours * 3600,) * 2)
    return path


def test_every_start_removes_what_a_killed_one_left_though_the_models_are_whole(
    tmp_path: Path, sources: Sources, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    model_files.chat_model(models, sources, steps.append)
    leave(models / ".old.gguf.x.partial", hours=1.1)
    leave(models / ".new.gguf.x.partial", hours=0.9)
    model_files.chat_model(models, sources, steps.append)
    assert files_in(models) == [".new.gguf.x.partial", CHAT_FILE]
    monkeypatch.setattr(minilm_gguf, "convert", lambda archive, partial: partial.write_bytes(b"GGUF"))
    model_files.embedding_model(models, sources, steps.append)
    leave(models / ".new.gguf.x.partial", hours=1.1)
    model_files.embedding_model(models, sources, steps.append)
    assert ".new.gguf.x.partial" not in files_in(models)
    assert len(steps) == 2


WRITING = """
import os, sys
from pathlib import Path
from bot import model_files

with model_files._replacing(Path(sys.argv[1]) / "model.gguf") as partial:
    os.utime(partial, (0, 0))
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_what_another_process_still_writes_stays_however_long_ago_it_wrote_last(
    tmp_path: Path, sources: Sources, steps: list[str]
) -> None:
    models = tmp_path / "models"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(models)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        model_files.chat_model(models, sources, steps.append)
        assert [name for name in files_in(models) if name.endswith(".partial")]
        writer.kill()
    # Killed, it holds nothing any more.
    model_files.chat_model(models, sources, steps.append)
    assert files_in(models) == [CHAT_FILE]


def test_word_pieces_are_spelled_as_llama_cpp_does() -> None:
    assert [minilm_gguf.phantom(piece) for piece in ("play", "##ing", "#", "##")] == ["▁play", "ing", "▁#", ""]
