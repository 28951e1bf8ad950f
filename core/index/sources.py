"""Given paths -> the files to read, each with a name that does not depend on where the command is run.

A file's source is its path inside the given folder with the folder's name in front: `docs/install.md`.
A file inside a folder that was given before, or is given as well, belongs to that one. Two folders of
the same name are told apart by what stands before it; a folder that was moved keeps its name.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core.index.readers import SUFFIXES
from core.index.records import Root

_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to be read."""

    path: Path
    source: str
    label: str
    """Of its root."""


@dataclass(slots=True)
class Scan:
    """What is behind the given paths."""

    files: list[Found] = field(default_factory=list)
    roots: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Absolute path, and whether the whole folder was given, by label."""
    covered: list[str] = field(default_factory=list)
    """Beginnings of sources; a known source with one of them that is not among `files` is gone."""
    unlisted: list[str] = field(default_factory=list)
    """Beginnings of sources in folders that could not be listed: nothing is known to be gone there."""
    skipped: int = 0
    """Files of other kinds, and links that lead out of their folder."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Paths that cannot be listed, with the reason."""


def scan(paths: Iterable[Path], known: Sequence[Root]) -> Scan:
    """Lists what is to be read, sorted. Blocks: for a thread."""
    result = Scan()
    folders: list[str] = []
    files: list[str] = []
    for path in paths:
        _sort(path, folders, files, result)
    whole = {root.path for root in known if root.whole and os.path.isdir(root.path)} | set(folders)
    labels = _Labels(known)
    seen: set[str] = set()
    for folder in sorted(dict.fromkeys(folders), key=len):
        root = _outermost(folder, whole) or folder
        _Walk(folder, root, labels.of(root, whole=True, result=result), seen, result).run()
        # What was known by a root further in is known by this one now.
        inner = (root for root in known if root.path != folder and _inside(root.path, folder))
        result.covered += [f"{root.label}/" for root in inner if root.label not in result.roots]
    for file in sorted(set(files)):
        if os.path.realpath(file) not in seen:
            root = _outermost(file, whole) or os.path.dirname(file)
            _add(file, root, labels.of(root, whole=root in whole, result=result), seen, result)
    result.files.sort(key=lambda found: found.source)
    return result


def readable(name: str) -> str:
    """`name` fit for one line of text: a file name may hold anything but a slash."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def distinct(name: str) -> str:
    """`name`, one part of a path, fit for one line and different from that of any other name.

    A name that had to be changed, or looks as if it had, carries a hash of what it was before its suffix.
    """
    shown = readable(name)
    if shown == name and "\N{REPLACEMENT CHARACTER}" not in name:
        return name
    stem, suffix = os.path.splitext(shown)
    return f"{stem}-{_short_hash(name)}{suffix}"


def _short_hash(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


def _sort(path: Path, folders: list[str], files: list[str], result: Scan) -> None:
    # Not resolved: a link to the current version of some pages keeps its name when it points elsewhere.
    given = os.path.abspath(path)
    try:
        mode = os.stat(given).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        result.failed.append((readable(str(path)), reason.lower()))
        return
    if stat.S_ISDIR(mode):
        folders.append(given)
    elif _suffix(given) in SUFFIXES:
        files.append(given)
    else:
        result.failed.append((readable(str(path)), "not Markdown, HTML or text"))


class _Labels:
    """First parts of sources: one a root, kept once given."""

    def __init__(self, known: Sequence[Root]) -> None:
        self._by_path = {root.path: root.label for root in known}
        self._taken = {root.label: root.path for root in known}

    def of(self, root: str, *, whole: bool, result: Scan) -> str:
        label = self._by_path.get(root) or self._new(root)
        self._by_path[root], self._taken[label] = label, root
        result.roots[label] = (root, whole)
        return label

    def _new(self, root: str) -> str:
        parts = [distinct(part) for part in root.split(os.sep) if part] or ["root"]
        for length in range(1, len(parts) + 1):
            label = "/".join(parts[-length:])
            if self._is_free(label):
                return label
        return f"{parts[-1]}-{_short_hash(root)}"

    def _is_free(self, label: str) -> bool:
        # Under "one" a file may be called as one under "one/docs" is.
        if any(label.startswith(f"{other}/") or other.startswith(f"{label}/") for other in self._taken):
            return False
        # A folder that is no more has moved: what is found here is what was found there.
        return label not in self._taken or not os.path.isdir(self._taken[label])


class _Walk:
    """Everything in a folder. Links come last, so that a page has its own name even if a link to it is met first."""

    def __init__(self, folder: str, root: str, label: str, seen: set[str], result: Scan) -> None:
        self._root = root
        self._real_root = os.path.realpath(root)
        self._label = label
        self._seen = seen
        self._result = result
        self._pending, self._links = [folder], deque[os.DirEntry[str]]()
        self._visited = {os.path.realpath(folder)}
        result.covered.append(f"{_source(label, folder, root)}/")

    def run(self) -> None:
        while self._pending or self._links:
            if self._pending:
                for entry in self._entries(self._pending.pop()):
                    if entry.is_symlink():
                        self._links.append(entry)
                    else:
                        self._take(entry)
            else:
                entry = self._links.popleft()
                if _inside(os.path.realpath(entry.path), self._real_root) and os.path.exists(entry.path):
                    self._take(entry)
                else:
                    self._result.skipped += 1

    def _take(self, entry: os.DirEntry[str]) -> None:
        real = os.path.realpath(entry.path)
        if os.path.isdir(real):
            if entry.name not in _SKIPPED_FOLDERS and real not in self._visited:
                self._visited.add(real)  # a link to a folder above would never end
                self._pending.append(entry.path)
        elif _suffix(entry.name) not in SUFFIXES:
            self._result.skipped += 1
        elif real not in self._seen:
            _add(entry.path, self._root, self._label, self._seen, self._result)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What is in `folder`, sorted, without what is hidden."""
        try:
            with os.scandir(folder) as listing:
                shown = [entry for entry in listing if not entry.name.startswith(".")]
        except OSError as error:
            self._result.failed.append((readable(folder), (error.strerror or "cannot be listed").lower()))
            self._result.unlisted.append(f"{_source(self._label, folder, self._root)}/")
            return []
        return sorted(shown, key=lambda entry: entry.name)


def _add(path: str, root: str, label: str, seen: set[str], result: Scan) -> None:
    seen.add(os.path.realpath(path))
    result.files.append(Found(path=Path(path), source=_source(label, path, root), label=label))


def _source(label: str, path: str, root: str) -> str:
    inside = os.path.relpath(path, root)
    return label if inside == "." else "/".join([label, *map(distinct, inside.split(os.sep))])


def _outermost(path: str, folders: Iterable[str]) -> str | None:
    return min((folder for folder in folders if _inside(path, folder)), key=len, default=None)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
