"""The rewrite gate: what needs no rewrite in several languages, and all that does in doubt."""

from __future__ import annotations

import pytest

from core.evaluation import Outcome, items
from core.gate import is_complete
from core.gate_effect import gate_effect
from core.types import QueryStatus
from tests.core.test_pipeline import OIL, ask, pipeline, rewrites, searched
from tests.fakes import ScriptedModel

COMPLETE = [
    "At what pressure does the Heron 4 valve open?",
    "How many replicas does a Postgres cluster need?",
    "Why does Postgres lock a table during vacuum?",
    "Is there a size limit for uploaded files in Nextcloud?",
    "which ports does etcd need open on control plane nodes",
    "Wie viele Replikate braucht ein Postgres-Cluster mit Patroni?",
    "Gibt es eine Grenze für hochgeladene Dateien in Nextcloud?",
    "Hoeveel geheugen heeft een Postgres-cluster van Patroni nodig op ARM?",
    "Combien de mémoire faut-il pour une instance Postgres avec Patroni ?",
    "¿Cuántas réplicas puede tener un clúster de Postgres por nodo?",
]


@pytest.mark.parametrize("question", COMPLETE)
def test_a_complete_question_needs_no_rewrite(question: str):
    assert is_complete(question)


@pytest.mark.parametrize(
    "question",
    [
        # pronouns
        "How do I install it on a Debian server?",
        "Does Patroni need those on every Postgres node?",
        "Wie installiere ich das auf einem Debian-Server?",
        "Wat kost die uitbreiding van Patroni in Nederland?",
        "Comment puis-je installer cela sur un serveur Debian ?",
        "¿Cómo puedo instalar eso en un servidor Debian?",
        # ellipsis, fragments, short ones
        "and on ARM?",
        "why not?",
        "why?",
        "on a Debian 12 server with Postgres and Patroni",
        "who is the CEO?",
        "How do I install on Windows?",
        "und mit Postgres auf einem Debian-Server?",
        "et avec Postgres sur un serveur Debian ?",
        "¿y con Postgres en un servidor Debian?",
        # an article before a bare noun: the one that was talked about
        "How do I copy the file between Debian servers with rsync?",
        "Does the song have a Spanish version by Shakira?",
        # measured against something before
        "Does Patroni have a better way to restore backups?",
        "Which other Postgres clusters does Patroni support on Debian?",
        # announced, taken up, no question
        "By the way, how many replicas does a Postgres cluster need?",
        "unrelated: which ports does etcd need open on control plane nodes",
        "I mean how many replicas a Postgres cluster needs on Debian",
        "Postgres clusters with Patroni lock tables during vacuum.",
        # languages and scripts whose pointing words are not known
        "Как установить это на сервер Debian с Postgres?",
        "Patroni では Postgres のメモリはどのくらい必要ですか？",
        "Jak zainstalować to na serwerze Debian z bazą Postgres?",
        "Hur installerar man detta på en Debian-server med Postgres?",
        "Bunu Debian sunucusuna Postgres ile nasıl kurarım?",
        "",
        "???",
    ],
)
def test_in_doubt_a_question_is_rewritten(question: str):
    assert not is_complete(question)


async def test_a_complete_follow_up_costs_no_call_is_searched_as_typed_and_says_why():
    before = rewrites("complete")
    model = ScriptedModel(generate=["At 4 bar [1]."])
    pipe = pipeline(model, gate=True)
    answer = await ask(pipe, "At what pressure does the Heron 4 valve open?", (OIL,))
    assert [request.purpose for request in model.requests] == ["generate"]
    assert searched(pipe) == ["At what pressure does the Heron 4 valve open?"]
    assert (answer.query.status, answer.query.reason) == (QueryStatus.COMPLETE, "complete as it was typed")
    assert rewrites("complete") == before + 1


async def test_the_gate_is_closed_for_first_questions_doubtful_ones_and_where_it_is_switched_off():
    question = "At what pressure does the Heron 4 valve open?"
    first = await ask(pipeline(ScriptedModel(generate=["At 4 bar [1]."]), gate=True), question)
    assert first.query.reason == "first message"
    doubtful = ScriptedModel(rewrite=["Kestrel filter change"], generate=["Every 90 days [1]."])
    assert (await ask(pipeline(doubtful, gate=True), "and the filter?", (OIL,))).query.status is QueryStatus.REWRITTEN
    off = ScriptedModel(rewrite=[question], generate=["At 4 bar [1]."])
    assert (await ask(pipeline(off), question, (OIL,))).query.status is QueryStatus.REWRITTEN


def test_the_effect_of_the_gate_is_told_from_the_rankings_of_a_run_without_it():
    def outcome(id_: str, question: str, *, needs: str, searched: str, status: str = "rewritten") -> Outcome:
        line = (
            f'{{"id": "{id_}", "turns": [{{"role": "user", "text": "What?"}}], "question": "{question}", '
            f'"relevant": ["x"], "kind": "followup", "needs_history": {needs}}}'
        )
        rankings = {"typed": ["x"], "searched": [searched]}
        return Outcome(item=items(line)[0], rankings=rankings, query="q", status=status, reason="", seconds=1.0)

    effect = gate_effect(
        [
            outcome("1", COMPLETE[0], needs="false", searched="y"),  # bent by the rewriter
            outcome("2", COMPLETE[1], needs="true", searched="x"),
            outcome("3", COMPLETE[2], needs="null", searched="x"),
            outcome("4", "and on ARM?", needs="false", searched="x"),
            outcome("5", COMPLETE[3], needs="false", searched="x", status="skipped"),
        ]
    )
    assert effect is not None
    assert str(effect.spared) == "75.0% (3 of 4)"
    assert (str(effect.precision), str(effect.recall)) == ("50.0% (1 of 2)", "50.0% (1 of 2)")
    assert (effect.recall_without, effect.recall_with, effect.better, effect.worse) == (0.75, 1.0, 1, 0)
    assert effect.change[0] <= 0.25 <= effect.change[1]
    assert gate_effect([]) is None
