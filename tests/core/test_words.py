from __future__ import annotations

import pytest

from core.smalltalk import reply_to
from core.words import content_words, identifiers, language, script, stands_alone, stems


def test_content_words_leave_out_articles_pronouns_and_question_words_and_keep_codes_whole():
    assert content_words("Does HV-12 fit a 1 mm gap on the Heron?") == ["hv-12", "fit", "mm", "gap", "heron"]


def test_identifiers_are_codes_numbers_flags_file_names_and_quoted_strings():
    found = identifiers('pass --force to v1.31 in `my app.yaml`, "no route", kube-proxy at 10.0.0.1:8080 on port 53')
    assert {"--force", "v1.31", "my app.yaml", "no route", "53"} <= set(found)
    assert identifiers("and on ARM?") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("how do I do this", "en"), ("und wie ist das", "de"), ("et comment je le fais", "fr"), ("Kestrel", None)],
)
def test_the_language_is_told_by_its_function_words(text: str, expected: str | None):
    assert language(text) == expected


def test_the_script_is_that_of_most_letters():
    assert (script("内存限制 x"), script("Как kubectl настроить"), script("123"), script("né")) == (
        "CJK",
        "CYRILLIC",
        None,
        "LATIN",
    )


def test_inflected_forms_share_a_stem():
    assert stems("opens") & stems("opening")
    assert stems("Deployments") & stems("Deployment")
    assert not stems("pump") & stems("valve")


@pytest.mark.parametrize(
    "text", ["At what pressure does the Heron valve open?", "Does HV-12 fit a 1 mm gap on the Heron?"]
)
def test_a_complete_question_stands_alone(text: str):
    assert stands_alone(text)


@pytest.mark.parametrize(
    "text", ["and on ARM?", "when does it open?", "why?", "und unter Windows?", "what about the second valve kit then?"]
)
def test_a_fragment_or_a_pointer_does_not_stand_alone(text: str):
    assert not stands_alone(text)


@pytest.mark.parametrize(
    "text",
    ["hello", "thanks!", "👍", "Thank you!", "Danke schön", "merci beaucoup !", "ok"]
    + [":+1:", "thanks :pray: :tada:", "hi :wave:", ":)", "👍🏽", "thanks again! <3", "hello everyone", "bye"],
)
def test_small_talk_is_answered_without_a_search(text: str):
    assert reply_to(text)


@pytest.mark.parametrize(
    "text",
    ["why?", "...", "", "hi, how do I install it?", "thanks, and on ARM?", "ok?", "hello world example"]
    + [":kubectl: context", "10:30:", "+1 GB", "x<3", "::", "no"],
)
def test_a_question_is_no_small_talk(text: str):
    assert reply_to(text) is None
