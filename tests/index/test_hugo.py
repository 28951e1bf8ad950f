from __future__ import annotations

import time

import pytest

from core.index.hugo import reduce_shortcodes


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('A {{< glossary_tooltip text="Pod" term_id="pod" >}} runs.', "A Pod runs."),
        ('A {{< glossary_tooltip term_id="service-account" >}} is', "A service account is"),
        ("{{< note >}}\nMind this.\n{{< /note >}}", "Note:\nMind this.\n"),
        ("{{<warning>}}Hot{{</ warning >}}", "Warning:Hot"),
        ('## {{% heading "whatsnext" %}}', "## What's next"),
        ('## {{% heading "objectives" %}}', "## Objectives"),
        ('{{% code_sample file="pods/simple.yaml" %}}', "pods/simple.yaml"),
        ('{{< feature-state for_k8s_version="v1.29" state="beta" >}}', "Feature state: v1.29 beta"),
        ('{{< figure src="/x.svg" alt="How it works" >}}', "How it works"),
        ('{{< include "prereqs.md" >}} {{< version-check >}}', " "),
        ('{{< tab name="Bash" codelang="bash" >}}\n# all\nls\n{{< /tab >}}', "```bash\n# all\nls\n```"),
        ('{{% tab name="Bash" %}}\ntext\n{{% /tab %}}', "[Bash]\ntext\n"),
        ("{{< mermaid >}}\ngraph LR\n{{< /mermaid >}}after", "\n\nafter"),
        ("Write {{</* note */>}} for a note", "Write  note  for a note"),
        ("{{ .Values.image }} and {{< never closed", "{{ .Values.image }} and {{< never closed"),
    ],
)
def test_a_shortcode_becomes_what_the_rendered_page_shows(written: str, shown: str) -> None:
    assert reduce_shortcodes(written) == shown


def test_line_numbers_stay_where_a_shortcode_goes_over_several_lines() -> None:
    written = 'a\n{{< glossary_tooltip\n  text="x"\n  term_id="y" >}}\nb'
    assert reduce_shortcodes(written).split("\n").index("b") == written.split("\n").index("b")


@pytest.mark.parametrize("hostile", ["{{<" * 30_000, "{{<" * 30_000 + ">}}", '{{< a="' * 15_000, "{{< a >}}" * 10_000])
def test_unclosed_shortcodes_take_linear_time(hostile: str) -> None:
    started = time.process_time()
    reduce_shortcodes(hostile)
    assert time.process_time() - started < 2
