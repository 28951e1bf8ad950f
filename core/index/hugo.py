"""Hugo shortcodes -> the text a reader of the rendered page would see.

Line breaks are kept, so that line numbers still point into the file. Linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 4000
"""Characters between the braces; what is longer is text. Keeps the search for the end short, too."""
_CLOSERS: Final = {"<": ">}}", "%": "%}}"}
_PARAMETER: Final = re.compile(r'([\w-]+)\s*=\s*"([^"]*)"|([\w-]+)\s*=\s*`([^`]*)`|"([^"]*)"|([^\s"=]+)')
_CALLOUTS: Final = {"note": "Note:", "warning": "Warning:", "caution": "Caution:", "tip": "Tip:", "danger": "Danger:"}
_UNREADABLE: Final = frozenset({"mermaid", "comment"})
"""What stands between their tags is not for readers."""
_HEADINGS: Final = {
    "whatsnext": "What's next",
    "prerequisites": "Before you begin",
    "cleanup": "Cleaning up",
    "seealso": "See also",
}


def reduce_shortcodes(text: str) -> str:
    """`text` with each `{{< ... >}}` and `{{% ... %}}` replaced by what it shows, or by nothing."""
    out: list[str] = []
    position = 0
    code_tab = False
    while (start := text.find("{{", position)) >= 0:
        closer = _CLOSERS.get(text[start + 2 : start + 3])
        end = text.find(closer, start + 3, start + _LONGEST) if closer else -1
        if end < 0:
            out.append(text[position : start + 2])
            position = start + 2
            continue
        out.append(text[position:start])
        inner = text[start + 3 : end]
        position = end + 3
        if inner.lstrip().startswith("/*"):  # the notation for showing a shortcode instead of running it
            out.append(inner.strip().removeprefix("/*").removesuffix("*/"))
            continue
        name, shown = _show(inner)
        if name == "tab":
            code_tab = shown.startswith("```")
        elif name == "/tab" and code_tab:
            shown = "```"
        if name in _UNREADABLE and (closing := _closing_tag(text, name, position)):
            inner += text[position : closing[0]] + text[closing[0] : closing[1]]
            position = closing[1]
        out.append(shown + "\n" * (inner.count("\n") - shown.count("\n")))
    out.append(text[position:])
    return "".join(out)


def _closing_tag(text: str, name: str, position: int) -> tuple[int, int] | None:
    found = re.compile(r"\{\{[<%]\s{0,9}/\s{0,9}" + name + r"\s{0,9}[>%]\}\}").search(text, position, position + 20_000)
    return found.span() if found else None


def _show(inner: str) -> tuple[str, str]:
    """Name of a shortcode, with a slash in front if it closes, and what it shows."""
    inner = inner.strip()
    if inner.startswith("/"):
        name = "/" + inner[1:].strip()
        return name, "```" if name == "/highlight" else ""
    parameters: dict[str, str] = {}
    positional: list[str] = []
    for match in _PARAMETER.finditer(inner):
        key, value, raw_key, raw_value, quoted, bare = match.groups()
        if key or raw_key:
            parameters[key or raw_key] = " ".join((value or raw_value or "").split())
        else:
            positional.append(" ".join((quoted if quoted is not None else bare).split()))
    name = positional.pop(0) if positional else ""
    return name, _text_of(name, parameters, positional)


def _text_of(name: str, parameters: dict[str, str], positional: list[str]) -> str:
    if name in _CALLOUTS:
        return _CALLOUTS[name]
    if name == "heading" and positional:
        return _HEADINGS.get(positional[0], positional[0].capitalize())
    if name == "tab":
        if parameters.get("codelang"):
            return "```" + parameters["codelang"]  # or a comment in the code would become a heading
        return f"[{parameters['name']}]" if parameters.get("name") else ""
    if name == "highlight":
        return "```" + (positional[0] if positional else "")
    if name == "feature-state":
        return " ".join(["Feature state:", *parameters.values()])
    for key in ("text", "caption", "alt", "title"):
        if parameters.get(key):
            return parameters[key]
    if name == "glossary_tooltip":
        return parameters.get("term_id", "").replace("-", " ")
    return parameters.get("file", "")
