"""The files of `threadwise eval`: what is read from their lines, and which line is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bot.config import load
from bot.evaluate import Evaluation, _documents, evaluate, print_evaluation
from core.errors import IngestError
from core.evaluation import Outcome, items
from core.types import QueryStatus, Turn

ITEM: dict[str, Any] = {
    "id": "1",
    "turns": [{"role": "user", "text": "How much oil?"}, {"role": "bot", "text": "0.8 L."}],
    "question": "and the filter?",
    "relevant": ["a.md#Filter", 7],
    "kind": "followup",
    "gold_rewrite": None,
}


def line(**changes: object) -> str:
    return json.dumps({name: value for name, value in (ITEM | changes).items() if value is not ...})


def test_an_item_is_read_from_its_line() -> None:
    (item,) = items(f"\n{line(id=1)}\n\n")
    assert (item.id, item.question, item.kind, item.gold) == ("1", "and the filter?", "followup", "")
    assert item.history == (Turn(question="How much oil?", answer="0.8 L."),)
    assert item.relevant == {"a.md#Filter", "7"}
    assert items(line(kind=..., gold_rewrite=...))[0].kind == "unlabelled"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("{", "Expecting"),
        ("1" * 5000, "4300"),
        ("[1]", "no JSON object"),
        (line(question=None), '"question" is no text'),
        (line(question=5), '"question" is no text'),
        (line(question=...), "no 'question'"),
        (line(id=None), '"id" is neither'),
        (line(id=True), '"id" is neither'),
        (line(relevant="a.md"), '"relevant" is no list'),
        (line(relevant=[None]), '"relevant" is neither'),
        (line(turns=None), '"turns" is no list'),
        (line(turns=["hello"]), 'in "turns": it is no JSON object'),
        (line(turns=[{"role": "user", "text": None}]), 'in "turns": "text" is no text'),
        (line(gold_rewrite=["a"]), '"gold_rewrite" is no text'),
    ],
)
def test_a_line_that_is_no_item_is_named_with_the_reason(bad: str, reason: str) -> None:
    with pytest.raises(IngestError) as refused:
        items(f"{line()}\n{bad}")
    assert str(refused.value).startswith("line 2 is no evaluation item: ")
    assert reason in str(refused.value)


def test_passages_are_read_and_a_line_separator_in_a_text_ends_no_line() -> None:
    text = "\n".join(json.dumps({"id": i, "text": "a\u2028b\x85c"}, ensure_ascii=False) for i in range(2))
    assert [(document.source, document.blocks[0].text) for document in _documents(text)] == [
        ("0", "a\u2028b\x85c"),
        ("1", "a\u2028b\x85c"),
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"id": "b", "text": null}', '"text" is no text'),
        ('{"id": null, "text": "b"}', '"id" is neither'),
        ('{"text": "b"}', "no 'id'"),
        ("null", "no JSON object"),
        ('{"id": "1", "text": "again"}', "id '1' is that of a line before"),
    ],
)
def test_a_line_that_is_no_passage_is_named_with_the_reason(bad: str, reason: str) -> None:
    with pytest.raises(IngestError) as refused:
        _documents(f'{{"id": 1, "text": "a"}}\n{bad}')
    assert str(refused.value).startswith("line 2 is no passage of the corpus: ")
    assert reason in str(refused.value)


async def test_a_broken_line_is_told_with_its_file_its_line_and_its_column(tmp_path: Path):
    file = tmp_path / "questions.jsonl"
    file.write_text(f"{line()}\n{{'single': 1}}\n")
    with pytest.raises(IngestError) as refused:
        await evaluate(load({"DATA_DIR": str(tmp_path / "data")}), file, None, None, None, lambda *_: None)
    where = f"{file}: line 2 is no evaluation item: "
    assert str(refused.value) == where + "Expecting property name enclosed in double quotes at column 2"


def test_a_rewriter_that_failed_is_not_passed_over_in_silence():
    item = items(line())[0]
    outcome = Outcome(
        item=item,
        rankings={"typed": [], "searched": []},
        query="q",
        status=QueryStatus.FAILED.value,
        reason="ModelTimeout",
        seconds=1.0,
    )
    out = io.StringIO()
    print_evaluation(Evaluation(outcomes=[outcome] * 3), Console(file=out, width=200))
    assert "The rewriter failed, and the typed words were searched: ModelTimeout (3)." in out.getvalue()
