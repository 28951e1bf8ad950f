from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core.index.records import Root
from core.index.sources import Scan, scan


def sources(result: Scan) -> list[str]:
    return [found.source for found in result.files]


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Text of {name}.")
    return folder


def known(number: int, path: Path, label: str) -> Root:
    return Root(id=number, path=str(path), label=label, whole=True)


def test_a_source_begins_with_the_folders_name_wherever_the_command_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = write(tmp_path / "docs", "a.md", "sub/b.html", "sub/c.TXT")
    expected = ["docs/a.md", "docs/sub/b.html", "docs/sub/c.TXT"]
    assert sources(scan([docs], [])) == expected
    monkeypatch.chdir(docs)
    assert sources(scan([Path(".")], [])) == expected
    monkeypatch.chdir(tmp_path)
    assert sources(scan([Path("docs/")], [])) == expected


def test_other_kinds_and_hidden_things_are_skipped(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", "a.md", "b.png", "Makefile", ".git/c.md", "node_modules/d.md", ".hidden.md")
    result = scan([docs], [])
    assert sources(result) == ["docs/a.md"]
    assert result.skipped == 2


def test_a_file_named_by_itself_must_be_readable(tmp_path: Path) -> None:
    write(tmp_path, "b.png")
    result = scan([tmp_path / "b.png", tmp_path / "missing.md"], [])
    assert [reason for _, reason in result.failed] == ["not Markdown, HTML or text", "no such file or directory"]


def test_a_file_has_the_same_source_alone_and_with_its_folder(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", "a.md", "sub/b.md")
    assert sources(scan([docs / "a.md"], [])) == ["docs/a.md"]
    assert sources(scan([docs / "sub" / "b.md"], [known(1, docs, "docs")])) == ["docs/sub/b.md"]


def test_files_in_two_given_folders_are_counted_once(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", "a.md", "sub/b.md")
    result = scan([docs / "sub", docs, docs, docs / "a.md", docs / "sub" / "b.md"], [])
    assert sources(result) == ["docs/a.md", "docs/sub/b.md"]


def test_a_folder_inside_a_known_one_belongs_to_it(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", "a.md", "sub/b.md")
    result = scan([docs / "sub"], [known(1, docs, "docs")])
    assert sources(result) == ["docs/sub/b.md"]
    assert result.covered == ["docs/sub/"]


def test_a_folder_around_a_known_one_takes_its_files_over(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", "a.md", "sub/b.md")
    result = scan([docs], [known(1, docs / "sub", "sub")])
    assert sources(result) == ["docs/a.md", "docs/sub/b.md"]
    assert set(result.covered) == {"docs/", "sub/"}


def test_two_folders_of_one_name_are_told_apart_and_a_moved_one_keeps_it(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one" / "docs", "a.md"), write(tmp_path / "two" / "docs", "a.md")
    assert sources(scan([one, two], [])) == ["docs/a.md", "two/docs/a.md"]
    assert sources(scan([two], [known(1, one, "docs")])) == ["two/docs/a.md"]
    assert sources(scan([two], [known(1, tmp_path / "gone" / "docs", "docs")])) == ["docs/a.md"]


def test_links_inside_the_folder_are_followed_once_and_loops_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = write(tmp_path / "docs", "real/a.md")
    (docs / "loop").symlink_to(docs)
    (docs / "real" / "up").symlink_to("..")
    (docs / "same.md").symlink_to("real/a.md")
    (docs / "self.md").symlink_to("self.md")
    (docs / "one").mkdir()
    (docs / "two").mkdir()
    (docs / "one" / "to_two").symlink_to(docs / "two")
    (docs / "two" / "to_one").symlink_to(docs / "one")
    listed: list[str] = []
    real = os.scandir

    def counted(path: str) -> Any:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", counted)
    assert sources(scan([docs], [])) == ["docs/real/a.md"]
    assert len(listed) == 4


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "secret.md", "outside/c.md")
    docs = write(tmp_path / "docs", "a.md")
    (docs / "b.md").symlink_to(tmp_path / "secret.md")
    (docs / "out").symlink_to(tmp_path / "outside")
    result = scan([docs], [])
    assert sources(result) == ["docs/a.md"]
    assert result.skipped == 2


def test_a_given_link_keeps_its_name_when_it_points_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "releases" / "1", "a.md")
    write(tmp_path / "releases" / "2", "a.md", "b.md")
    current = tmp_path / "current"
    current.symlink_to("releases/1")
    assert sources(scan([current], [])) == ["current/a.md"]
    current.unlink()
    current.symlink_to("releases/2")
    assert sources(scan([current], [known(1, current, "current")])) == ["current/a.md", "current/b.md"]


def test_hostile_names_become_one_readable_line(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", "a\nb.md", "c\x1b[31m.md", "d\u202eelif.md", "%s {0} 'x\".md", "é.md")
    with open(os.path.join(os.fsencode(docs), b"bad\xff.md"), "w") as file:
        file.write("text")
    result = sources(scan([docs], []))
    assert len(result) == 6
    assert all(source.isprintable() and source.encode() for source in result)
    assert "docs/%s {0} 'x\".md" in result
    assert "docs/é.md" in result


def test_a_thousand_folders_deep_is_no_problem(tmp_path: Path) -> None:
    deep = tmp_path / "docs"
    deep.mkdir()
    here = os.getcwd()
    try:
        os.chdir(deep)
        for _ in range(300):
            os.mkdir("dir")
            os.chdir("dir")
        Path("a.md").write_text("text")
    finally:
        os.chdir(here)
    assert len(scan([deep], []).files) == 1


ALIKE = [b"a\xff.md", b"a\xfe.md", b"a\n.md", "a\u202e.md".encode(), "a\ufffd.md".encode()]


def write_raw(folder: Path, *names: bytes) -> Path:
    for name in names:
        path = os.path.join(os.fsencode(folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"Text of " + repr(name).encode())
    return folder


def test_names_that_read_alike_are_told_apart_the_same_way_each_time(tmp_path: Path) -> None:
    docs = write_raw(tmp_path / "docs", *ALIKE, *(b"d\xff/" + name for name in ALIKE), b"d\xfe/x.md")
    found = sources(scan([docs], []))
    assert len(set(found)) == 11
    assert all(source.isprintable() and source.endswith(".md") for source in found)
    assert found == sources(scan([docs], []))
    (tmp_path / "moved").mkdir()
    assert found == sources(scan([docs.rename(tmp_path / "moved" / "docs")], []))
    # Each alone, as well, whatever stands beside it.
    docs = tmp_path / "moved" / "docs"
    alone = [scan([Path(os.fsdecode(os.path.join(os.fsencode(docs), name)))], []).files[0].source for name in ALIKE]
    assert set(alone) < set(found)


def test_a_folder_says_nothing_about_another_whose_name_reads_alike(tmp_path: Path) -> None:
    docs = write_raw(tmp_path / "docs", b"d\xff/x.md", b"d\xfe/x.md")
    result = scan([Path(os.fsdecode(os.fsencode(docs) + b"/d\xff"))], [known(1, docs, "docs")])
    assert len(sources(scan([docs], []))) == 2
    assert len([source for source in sources(scan([docs], [])) if source.startswith(tuple(result.covered))]) == 1


def test_folders_whose_names_read_alike_have_their_own_labels(tmp_path: Path) -> None:
    write_raw(tmp_path, b"d\xff/x.md", b"d\xfe/x.md")
    folders = [Path(os.fsdecode(os.fsencode(tmp_path) + name)) for name in (b"/d\xff", b"/d\xfe")]
    assert len(set(sources(scan(folders, [])))) == 2


def test_a_label_is_never_the_beginning_of_another(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a" / "docs", "x.md"), write(tmp_path / "b" / "one" / "docs", "x.md")
    three = write(tmp_path / "longer" / "c" / "one", "docs/x.md")
    result = scan([one, two, three], [])
    assert sources(result) == ["c/one/docs/x.md", "docs/x.md", "one/docs/x.md"]
