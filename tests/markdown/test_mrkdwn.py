"""Standard Markdown as Slack shows it."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.markdown.mrkdwn import mrkdwn

AS_SLACK = {
    "## Steps": "*Steps*",
    "## **Steps** and `code`": "*Steps and `code`*",
    "**Do** this: [page](https://x.example/a_b_c)": "*Do* this: <https://x.example/a_b_c|page>",
    "* item *one*\n* two": "• item _one_\n• two",
    "- a\n  - b\n- c": "• a\n    • b\n• c",
    "3. x\n4. y": "3. x\n4. y",
    "~~old~~": "~old~",
    "***both***": "_*both*_",
    "`**keep**`": "`**keep**`",
    "```py\n# not a heading\na*b*c < d\n```": "```\n# not a heading\na*b*c &lt; d\n```",
    "| a | bcd |\n|---|---|\n| **1** | 2 |": "```\na | bcd\n--+----\n1 | 2\n```",
    "> quoted\n> more": "&gt; quoted\n&gt; more",
    "a\n\n---\n\nb": "a\n\n———\n\nb",
    "one\ntwo  \nthree": "one\ntwo\nthree",
    "![a plan](https://evil.example/?d=1)": "a plan",
    "<@U0ASKER> <!channel> <!subteam^S1|@crew> <#C2|ops>": "&lt;@U0ASKER&gt; &lt;!channel&gt; "
    "&lt;!subteam^S1|@crew&gt; &lt;#C2|ops&gt;",
    "a && b < c": "a &amp;&amp; b &lt; c",
    "I put <br> and Vec<String> in it": "I put &lt;br&gt; and Vec&lt;String&gt; in it",
    "write `&lt;br&gt;`": "write `&amp;lt;br&amp;gt;`",
    "<b>\nbold\n</b>": "&lt;b&gt;\nbold\n&lt;/b&gt;",
    "[x](javascript:alert)": "x",
    "**重要**です": "*重要*\u200bです",
    "the `x`s": "the `x`\u200bs",
    "`` a`b ``": "`aˋb`",
    "````\n```py\n```\n````": "```\n``\u200b`py\n``\u200b`\n```",
    "*<https://x.example|page>* and *note*": "*<https://x.example|page>* and *note*",
    "**[page](https://x.example)**": "*<https://x.example|page>*",
    "[a|b](https://x.example/?a=1&b=2)": "<https://x.example/?a=1&amp;b=2|a¦b>",
    "snake_case_name and 5 > 3": "snake_case_name and 5 &gt; 3",
    "**Do": "**Do",
    "```py\nx = 1": "```\nx = 1\n```",
    "": "",
}


@pytest.mark.parametrize("text", AS_SLACK)
def test_markdown_becomes_what_slack_shows(text: str):
    assert mrkdwn(text) == AS_SLACK[text]


@pytest.mark.parametrize("text", [text for text, shown in AS_SLACK.items() if "<http" in shown])
def test_a_finished_slack_link_is_left_as_it_is(text: str):
    once = mrkdwn(text)
    assert mrkdwn(once) == once


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "<!channel>",
            "<@U0ASKER>",
            "<",
            ">",
            "&",
            "&lt;",
            "&amp;",
            "|",
            "`",
            "```\n",
            "\n",
            "\n\n",
            "[",
            "](",
            ")",
            "![",
        ]
        + [
            "https://x.example/a?b=1&c=2",
            "*",
            "**",
            "_",
            "~~",
            "# ",
            "- ",
            "> ",
            "| a | b |\n|---|---|\n",
            " ",
            "word",
            "é",
        ]
        + ["<https://x.example|page>", "1. ", "    ", "\\", "<!ch", "annel>"]
    ),
    max_size=16,
).map("".join)


@settings(max_examples=2_000, deadline=None)
@given(FRAGMENTS)
def test_nothing_that_a_model_writes_notifies_anybody(text: str):
    shown = mrkdwn(text)
    assert not re.search(r"<[!@#]|&(?!amp;|lt;|gt;)", shown)
    assert not re.search(r"<(?!https?://|mailto:)", shown)


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from("ab c.\n"), max_size=200))
def test_no_word_is_lost(text: str):
    assert re.findall(r"\w+", mrkdwn(text)) == re.findall(r"\w+", text)


@pytest.mark.parametrize("unit", ["*", "_", "[", "](", "> ", "- ", "`", "<", "&", "| a ", "**a", "![", "<https://x|"])
def test_hostile_16_kb_take_no_more_than_a_blink(unit: str):
    text = (unit * (16_384 // len(unit) + 1))[:16_384]
    started = time.process_time()
    mrkdwn(text)
    assert time.process_time() - started < 2.0
