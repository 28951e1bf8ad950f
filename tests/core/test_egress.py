"""What goes out to Slack and Discord: no mention is live, no foreign link, and nothing else is changed."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.egress import discord_out, slack_out
from core.links import REMOVED_LINK, held_by, no_link, without_bare_links

PAGE = held_by("See https://ok.example/p?a=1&b=2 and https://x.example or mailto:help@ok.example.")
SURFACES = {"slack": slack_out, "discord": discord_out}

SLACK = {
    "<!channel> ask <@U0ASKER> & see <https://x.example|page>, a<b": "&lt;!channel&gt; ask &lt;@U0ASKER&gt; &amp; see "
    "<https://x.example|page>, a&lt;b",
    "<!here> <!everyone> <!subteam^S012AB|@crew> <#C2|ops>": "&lt;!here&gt; &lt;!everyone&gt; "
    "&lt;!subteam^S012AB|@crew&gt; &lt;#C2|ops&gt;",
    "<!ch": "&lt;!ch",
    "`<!channel>` and `a && b`": "`&lt;!channel&gt;` and `a &amp;&amp; b`",
    "```\nVec<String> & x\n```": "```\nVec&lt;String&gt; &amp; x\n```",
    "`<https://x.example|page>`": "`&lt;https://x.example|page&gt;`",
    "<https://ok.example/p?a=1&b=2>": "<https://ok.example/p?a=1&amp;b=2>",
    "<https://ok.example/p?a=1&amp;b=2|a & b>": "<https://ok.example/p?a=1&amp;b=2|a &amp; b>",
    "see https://ok.example/p?a=1&b=2.": "see https://ok.example/p?a=1&amp;b=2.",
    "<https://evil.example/?d=1|x> <https://evil.example> <javascript:x|y>": f"x {REMOVED_LINK} y",
    "write &lt;br&gt; or &amp;nbsp;": "write &lt;br&gt; or &amp;nbsp;",
    "a &nbsp; b": "a &amp;nbsp; b",
    "<https://x.example|<!channel>>": "&lt;https://x.example|&lt;!channel&gt;&gt;",
    "> quoted": "&gt; quoted",
    "set it to <on|off>": "set it to &lt;on|off&gt;",
    "_https://evil.example/x_ 12https://evil.example": f"_{REMOVED_LINK}_ 12{REMOVED_LINK}",
}
DISCORD = {
    "@everyone the answer is 42 <@&123456789012345678>": "@ everyone the answer is 42 < @&123456789012345678>",
    "@here <@102> <@!102> <#50>": "@ here < @102> < @!102> < #50>",
    "</ban:99> <id:customize>": "< /ban:99> < id:customize>",
    "@Everyone @everyone@here": "@ Everyone @ everyone@ here",
    "@every\u200bone ＠everyone <＠102>": "@ every\u200bone ＠ everyone < ＠102>",
    "@[every](https://evil.example)one": "@ everyone",
    "`@everyone` and\n```\n<@102>\n```": "`@ everyone` and\n```\n< @102>\n```",
    "mail me@work.example, <t:1700000000:D> <:gear:99> a<b @everybody": "mail me@work.example, <t:1700000000:D> "
    "<:gear:99> a<b @everybody",
    "Vec<String> & `x < y`": "Vec<String> & `x < y`",
    "Done ![logo](https://evil.example/p.png?d=c2Vj) see": "Done logo see",
    "[docs](https://ok.example/p) and <https://x.example>": "[docs](https://ok.example/p) and <https://x.example>",
}  # fmt: skip


@pytest.mark.parametrize("text", SLACK)
def test_what_slack_gets(text: str):
    assert slack_out(text, PAGE) == SLACK[text]


@pytest.mark.parametrize("text", DISCORD)
def test_what_discord_gets(text: str):
    assert discord_out(text, PAGE) == DISCORD[text]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    "written",
    ["[x](https://evil.example/?d=1)", "<https://evil.example/?d=1|x>", "https:\\\\evil.example/x", "//evil.example/x"]
    + ["evil.example/x", "![](https://evil.example/?d=1)", "<https://evil.example/>", "HTTPS://EVIL.EXAMPLE/x"]
    + ["[[x](https://evil.example/1)](https://evil.example/2)", "www.evil.example", "[r]: https://evil.example/?d=1"],
)
def test_an_address_that_no_source_holds_is_not_live_in_any_spelling(surface: str, written: str):
    out = SURFACES[surface](f"Done {written} see the runbook", PAGE)
    assert not re.search(r"evil\.example", out, re.IGNORECASE)
    assert out.startswith("Done ")
    assert out.endswith(" see the runbook")


def test_without_a_word_on_links_no_link_is_live():
    assert slack_out("see <https://x.example|page>") == "see page"
    assert discord_out("see [page](https://x.example)") == "see page"


@pytest.mark.parametrize(
    "text",
    [
        "Run `pip install widget` and **wait**.\n\n```py\nif a < b and c > d:\n    x = y & z\n```\n- one\n- two [1]",
        "👩‍👩‍👧 می‌خواهم 北京 e\u0301",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n# Title\n~~old~~ *new* 5 > 3",
    ],
)
def test_what_is_no_mention_and_no_link_comes_out_as_it_was(text: str):
    assert discord_out(text) == text
    shown = slack_out(text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert shown == text


FRAGMENTS = st.lists(
    st.sampled_from(
        ["@everyone", "@", "every", "one", "@here", "<@102>", "<@&44>", "<#50>", "<!channel>", "<@U0ASKER>", "<", ">"]
        + ["&", "&amp;", "&lt;", "&gt;", "|", "`", "```\n", "\n", "\n\n", "[", "]", "](", "(", ")", "![", " ", "x"]
        + ["https://evil.example/x", "https://ok.example/p?a=1&b=2", "evil.example/x", "//", "https:", "/", ".", "12"]
        + ["<https://x.example|page>", "\u200b", "＠", "＜", "é🙂", "<|im_start|>", "~~~\n", "www.", "%40"]
    ),
    max_size=14,
).map("".join)
LIVE_DISCORD = re.compile(r"@(?:everyone|here)|<(?:@[!&]?|#)[0-9]+>", re.IGNORECASE)
LIVE_SLACK = re.compile(r"<[!@#]|&(?!amp;|lt;|gt;)")


@settings(max_examples=4_000, deadline=None)
@given(FRAGMENTS)
def test_no_text_leaves_a_live_mention_and_a_second_look_changes_nothing(text: str):
    to_discord, to_slack = discord_out(text, PAGE), slack_out(text, PAGE)
    assert not LIVE_DISCORD.search(to_discord)
    assert not LIVE_SLACK.search(to_slack)
    assert discord_out(to_discord, PAGE) == to_discord
    assert slack_out(to_slack, PAGE) == to_slack
    for out in (to_discord, to_slack):
        prose = re.sub(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|(`+)(?!`).*?(?<!`)\1(?!`)", "", out, flags=re.DOTALL)
        assert "`" in out or "~" in out or "https://evil" not in prose


@settings(max_examples=2_000, deadline=None)
@given(FRAGMENTS)
def test_what_is_taken_out_of_a_text_does_not_hang_on_an_address_further_on(text: str):
    tail = "\nhttps://evil.example/x\nevil.example/x"
    plain = without_bare_links(text, no_link, "({})".format)
    assert without_bare_links(text + tail, no_link, "({})".format) == f"{plain}\n{REMOVED_LINK}\n(evil.example/x)"


PLAIN = st.text(st.sampled_from("ab <>&@#!*_~-'\"\n0é🙂"), max_size=60)


@settings(max_examples=2_000, deadline=None)
@given(PLAIN)
def test_nothing_is_lost_but_the_markup(text: str):
    assert discord_out(text).replace("@ ", "@").replace("< ", "<") == text.replace("@ ", "@").replace("< ", "<")
    assert slack_out(text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "@",
        "&",
        "@everyone",
        "<@1>",
        "[x](",
        "![",
        "`",
        "`` ` ",
        "a.",
        "http://",
        "<!",
        "＜",
        "[[[](x)",
        "\n",
        "//a.",
    ]
    + ["https://evil.example/x ", "&lt;", "~~~\n"],
)
def test_hostile_64_kb_take_no_more_than_a_blink(surface: str, unit: str):
    text = (unit * (65_536 // len(unit) + 1))[:65_536]
    started = time.process_time()
    SURFACES[surface](text, PAGE)
    assert time.process_time() - started < 1.5
