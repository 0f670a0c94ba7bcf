#!/usr/bin/env python3
"""Writes models/guide/faq.md from the facts file.

usage: faq.py [--check [CAIRN]]
With --check it only says whether the page is current and, given the program, whether every flag, command, endpoint, field
and so on that the facts name still exists in its help texts or in the other pages. Exit status 1: no.
"""
import pathlib
import re
import subprocess
import sys

from skills import facts

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "models" / "guide" / "faq.md"
TITLES = {"command": "Commands", "flag": "Flags", "endpoint": "Endpoints", "field": "Fields of a request", "timing": "`timings`",
          "counter": "Counters of `/stats`", "folder": "Folders", "script": "Scripts", "status": "HTTP statuses", "type": "Tensor types",
          "architecture": "Architectures", "parameter": "Sampling parameters", "term": "Terms", "target": "Fuzz targets"}


def page() -> str:
    lines = ["# Questions and answers", "",
             "`models/guide/train/faq.py` generates this page from [facts.json](facts.json), from which the demonstration",
             "model learnt as well. Change the facts there.", ""]
    for fact in facts.load():
        if "name" not in fact:
            lines += [f"**{fact['ask'][0]}** {_shown(fact['answer'])}", ""]
    for kind, title in TITLES.items():
        lines += [f"## {title}", "", "| | |", "|---|---|"]
        lines += [f"| {fact['name'] if kind == 'term' else '`' + fact['name'] + '`'} | {_shown(fact['answer'])} |"
                  for fact in facts.load() if fact.get("kind") == kind]
        lines += [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _shown(answer: str) -> str:
    return f"`{answer}`" if answer.startswith("curl") else answer.replace("|", "\\|").replace("<", "\\<")


def _help(program: str) -> str:
    commands = [[], ["serve"], ["chat"], ["generate"], ["inspect"], ["quantize"], ["logits"], ["tokenize"], ["render"],
                ["bench"], ["bench", "model"], ["bench", "serve"]]
    return "\n".join(subprocess.run([program, *command, "--help-all"], capture_output=True, text=True, check=True).stdout for command in commands)


def stale(program: str) -> list[str]:
    """Names that the facts know and the program and its pages do not."""
    text = _help(program) + (ROOT / "README.md").read_text()
    text += "".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")) if path != PAGE)
    found = []
    for fact in facts.load():
        name, kind = fact.get("name"), fact.get("kind")
        if not name or kind == "term":
            continue
        known = (ROOT / name).exists() if kind in ("folder", "script") else re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
        if not known:
            found.append(f"{fact['id']}: {name}")
    return found


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    problems = [f"no longer there: {name}" for name in (stale(sys.argv[2]) if len(sys.argv) > 2 else [])]
    if not PAGE.exists() or PAGE.read_text() != page():
        problems.append("models/guide/faq.md is not what models/guide/facts.json says: run models/guide/train/faq.py")
    print("\n".join(problems), end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
