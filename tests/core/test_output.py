"""What a model says and what of it is shown, at the end and at every moment before."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.links import REMOVED_LINK
from core.output import Hygiene, repeats
from tests.fakes import passage

D1 = passage(
    "a",
    "The Kestrel pump takes 0.8 L of oil. See https://ok.example/p?a=1 or get.example/kit",
    source="d1.md",
    heading="Oil",
)
D2 = passage("b", "The Heron valve opens at 4 bar.", source="d2.md")
D1_AGAIN = passage("c", "Change its filter every 90 days.", source="d1.md", heading="Filter")
RULES = Hygiene(passages=(D1, D2, D1_AGAIN), question="what about https://asked.example/x ?", names=("Quill",))

CASES = {
    # Citations: by document, unknown ones gone, code left alone
    "0.8 L [1]. Change at 90 days [3]. See also [7].": "0.8 L [1]. Change at 90 days [1]. See also.",
    "Both [1, 2] and [1][3] and [2; 9].": "Both [1][2] and [1][1] and [2].",
    "Opens [2]. Oil [1]. Change [3].": "Opens [1]. Oil [2]. Change [2].",
    "Use `array[7]` and [2].": "Use `array[7]` and [1].",
    "```py\nx = a[9]\n```\nSo [2].": "```py\nx = a[9]\n```\nSo [1].",
    # Names the model echoes
    "Quill: Quill: It opens at 4 bar.": "It opens at 4 bar.",
    "**Quill:** yes": "yes",
    "Note: drain it first.": "Note: drain it first.",
    # Turn markers and run-on
    "The filter lasts 90 days.\n</end_of_turn>\n<start_of_turn>user\nAnd the oil?\n0.8 L": "The filter lasts 90 days.",
    "Yes.<turn|><|turn>user": "Yes.",
    "Yes.<|im_end|>\nno": "Yes.",
    # Reasoning
    "<thought>hmm, d2</thought>It opens at 4 bar.": "It opens at 4 bar.",
    "<think>a</think><thinking>b</thinking>Hi": "Hi",
    "Hi <think>never closed": "Hi",
    "left over</think>Hi": "Hi",
    "<|channel>thought\nWants the volume.<channel|>0.8 L.": "0.8 L.",
    "thought\nWants the volume.<channel|>0.8 L.": "0.8 L.",
    "Thought experiments are allowed.": "Thought experiments are allowed.",
    "if a < b, close it": "if a < b, close it",
    "a <b> tag and List<String>": "a <b> tag and List<String>",
    (quoted := "The `<think>` tag opens it and `</think>` ends it."): quoted,
    (quoted := "Like this:\n```\n<think>plan</think>\n```\nSo it is."): quoted,
    "<think>use `x</think>It opens `y` at 4 bar.": "It opens `y` at 4 bar.",
    "thought\nWants the volume, and was cut off": "",
    "Thought\nis free.": "Thought\nis free.",
    "Yes.</s>": "Yes.",
    "no <s>more</s>": "no <s>more</s>",
    "<start_of_turn>model\nYes.<end_of_turn>": "Yes.",
    # Sources are listed by code, not by the model
    "Use it [1].\n\nSources:\n[1] d1.md\n[2] d2.md": "Use it [1].",
    "Sources: [1]": "",
    "```yaml\nsources:\n- x\n```": "```yaml\nsources:\n- x\n```",
    # Links
    "Done ![logo](https://evil.example/p.png?d=c2VjcmV0) see it": "Done logo see it",
    "[x](https://evil.example/a)": "x",
    "<https://evil.example|x>": "x",
    "go to https://evil.example/?d=1.": f"go to {REMOVED_LINK}.",
    "go to https:\\\\evil.example or //evil.example/x": f"go to {REMOVED_LINK} or {REMOVED_LINK}",
    "go to www.evil.example": f"go to {REMOVED_LINK}",
    "go to evil.example/x now": "go to `evil.example/x` now",
    "go to https:/<|x|>/evil.example/?d=1 now": f"go to {REMOVED_LINK} now",
    "go to https:/[7]/evil.example/?d=1 now": f"go to {REMOVED_LINK} now",
    "_https://evil.example/x_ and 12https://evil.example": f"_{REMOVED_LINK}_ and 12{REMOVED_LINK}",
    (kept := "see <https://ok.example|the page> and set <on|off>"): kept,
    "[[x](https://evil.example)](https://evil.example/2)": f"[x]({REMOVED_LINK})",
    "see https://ok.exam or et.example/kit now": f"see {REMOVED_LINK} or `et.example/kit` now",
    (kept := "see https://ok.example/ and https://ok.example."): kept,
    (kept := "see [page](https://ok.example/p?a=1), https://asked.example/x, get.example/kit"): kept,
    "see https://ok.example/p?a=2": f"see {REMOVED_LINK}",
    # Nothing left
    "": "",
    " \n ": "",
    "\u200b": "",
    "<end_of_turn>": "",
}  # fmt: skip


@pytest.mark.parametrize("raw", CASES)
def test_what_is_shown_in_the_end(raw: str):
    assert RULES.visible(raw, final=True) == CASES[raw]


@pytest.mark.parametrize("raw", [raw for raw in CASES if not raw.startswith("left over")])
def test_at_every_moment_before_only_a_beginning_of_it_is_shown(raw: str):
    final = RULES.visible(raw, final=True)
    for end in range(len(raw) + 1):
        passing = RULES.visible(raw[:end], final=False)
        assert final.startswith(passing), f"after {raw[:end]!r}"


PIECES = st.lists(
    st.sampled_from(
        ["word ", "A sentence. ", "[1]", "[7]", " [2]", "<think>", "</think>", "<end_of_turn>", "```\n", "\n", "\n\n"]
        + ["https://evil.example/x ", "[a](https://ok.example/p?a=1)", "![i](http://x.y/z)", "<", ">", "Sources: "]
        + ["<|channel>", "<channel|>", "**", "é🙂", "`code`", "`"]
    ),
    max_size=12,
).map("".join)


@settings(max_examples=1500, deadline=None)
@given(PIECES)
def test_nothing_hidden_is_ever_shown_in_passing(raw: str):
    for end in range(0, len(raw) + 1, 3):
        passing = RULES.visible(raw[:end], final=False)
        for hidden in ("evil", "<think", "</think", "end_of_turn", "<|channel", "channel|>", "![", "[7]"):
            in_code = "`" in raw
            assert in_code or hidden not in passing


def test_a_reasoning_tag_split_over_deltas_is_never_shown():
    raw = ""
    for piece in ["<", "thought", ">", "hmm, d2", "</tho", "ught>", "It opens ", "at 4 bar."]:
        raw += piece
        shown = RULES.visible(raw, final=False)
        assert "<tho" not in shown
        assert "hmm" not in shown
    assert RULES.visible(raw, final=True) == "It opens at 4 bar."


THOUGHTS = [
    ("<think>", "</think>"),
    ("<THINK>", "</Think>"),
    ('<think type="plan">', "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>\n", "\n</reasoning>\n"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|> final <|message|>"),
]


@pytest.mark.parametrize(("opening", "closing"), THOUGHTS)
def test_a_thought_in_the_tags_of_any_family_is_never_shown_wherever_the_stream_stands(opening: str, closing: str):
    raw = f"{opening}secret plan, word by word {closing}It opens at 4 bar."
    for end in range(len(raw) + 1):
        passing = RULES.visible(raw[:end], final=False)
        assert "It opens at 4 bar.".startswith(passing), f"after {raw[:end]!r}"
    assert RULES.visible(raw, final=True) == "It opens at 4 bar."
    cut_off = raw[: raw.index(closing)]
    assert RULES.visible(cut_off, final=True) == ""


def test_the_name_that_a_model_puts_before_its_answer_is_never_shown_in_passing():
    for raw in ("Quill: It opens.", "Quill : It opens.", "**Quill**: It opens.", "Quill: Quill : It opens."):
        for end in range(len(raw) + 1):
            assert "Quill" not in RULES.visible(raw[:end], final=False)


def test_every_marker_left_in_the_text_has_its_source_and_every_source_its_marker():
    text, cited = RULES.settle("0.8 L [1]. 90 days [3]. Opens [2]. And [7].")
    assert text == "0.8 L [1]. 90 days [1]. Opens [2]. And."
    assert [(c.number, c.source, c.heading) for c in cited] == [(1, "d1.md", "Oil; Filter"), (2, "d2.md", "")]


def test_a_marker_that_only_the_cleaning_brings_out_has_its_source_too():
    text, cited = RULES.settle("Opens [<bos>2]. 0.8 L [1<|eot|>].")
    assert text == "Opens [1]. 0.8 L [2]."
    assert [(c.number, c.source) for c in cited] == [(1, "d2.md"), (2, "d1.md")]


def test_sources_are_numbered_as_they_come_up():
    text, cited = RULES.settle("Opens [2]. 0.8 L [1].")
    assert text == "Opens [1]. 0.8 L [2]."
    assert [(c.number, c.source) for c in cited] == [(1, "d2.md"), (2, "d1.md")]


def test_a_source_names_the_headings_of_the_passages_that_were_cited_only():
    (cited,) = RULES.settle("Change it at 90 days [3].")[1]
    assert (cited.number, cited.heading) == (1, "Filter")


def test_an_answer_plainly_taken_from_a_passage_gets_its_marker():
    text, cited = RULES.settle("The Heron valve opens at 4 bar.")
    assert text == "The Heron valve opens at 4 bar. [1]"
    assert [c.source for c in cited] == ["d2.md"]
    assert RULES.settle("The Heron valve opens at 4 bar [1].")[0] == "The Heron valve opens at 4 bar [1]."
    assert RULES.settle("Elephants live in large herds.") == ("Elephants live in large herds.", ())


def test_a_text_that_repeats_itself_is_noticed():
    assert repeats("one two three. " * 3) == 30
    assert repeats("one two three. one two four. one two five. ") == 0
    assert repeats("a list:\n- x\n- y\n- z\n") == 0


@pytest.mark.parametrize(
    "unit",
    ["`", "<", "[", "![", "<think>", "a.", "http://", "](", "*", "<|", "\n", "~~~\n", "[1]", "sources: "]
    + [
        " ",
        "`<think>",
        "<think>`</think>",
        "</think>`\n",
        "thought\n<channel|>",
        "<|channel|>final",
        "[x](",
        "<s></s>",
    ],
)
def test_hostile_30_kb_are_cleaned_in_a_blink(unit: str):
    raw = unit * (30_000 // len(unit))
    started = time.process_time()
    RULES.visible(raw, final=True)
    RULES.visible(raw, final=False)
    assert time.process_time() - started < 1.0
