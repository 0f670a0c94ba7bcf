#!/usr/bin/env python3
"""Cases of structured output, asked of `cairn grammar check`: how many are right, refused, wrongly taken or rejected.

usage: bench/grammar/cases.py [--structured build/test-data/structured] [--suite build/test-data/json-schema]
           [--drafts draft2020-12,draft7] [--list]
  --structured  a folder of maskbench.jsonl, traps.jsonl, gbnf.jsonl, regex.jsonl and lark.jsonl (tests/data/structured.md)
  --suite       a folder of JSON-Schema-Test-Suite: tests/DRAFT/*.json and remotes/
  --drafts      folders of its tests; the suite in the repository has two, the sdist of PyPI's jsonschema (json/) has all
  --list        also prints each case that is not right, and why

A schema of MaskBench's sample is right if all its texts are taken or rejected as they should be; texts whose keys come in
another order than the schema's are asked for with "order": "any". Each test of the suite counts by itself; those of
a refused schema are not right, but for a schema that no value fits, whose refusal rejects every instance.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("CAIRN_PROGRAM", str(SOURCE / "build/release/cairn"))
DRAFTS = {"draft4": "4", "draft6": "6", "draft7": "7", "draft2019-09": "2019-09", "draft2020-12": "2020-12"}
KINDS = ["schema", "gbnf", "regex", "lark"]
OUTCOMES = ["right", "refused", "wrongly taken", "wrongly rejected"]
NO_VALUE = "no value fits"


def check(requests):
    """The answers to the requests, in order."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([PROGRAM, "grammar", "check", "--jsonl", "--standard"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


class Table:
    def __init__(self, name, listing):
        self.name, self.listing, self.counts = name, listing, collections.Counter()

    def add(self, case, outcome, why):
        self.counts[outcome] += 1
        if self.listing and outcome != "right":
            print(f"{self.name} {case}: {outcome}: {why}")

    def show(self):
        total = sum(self.counts.values())
        right = 100 * self.counts["right"] / max(total, 1)
        parts = ", ".join(f"{self.counts[outcome]:,} {outcome}" for outcome in OUTCOMES)
        print(f"{self.name:<22} {total:6,} cases, {right:.1f} % right: {parts}")


def outcome_of(answer, expected):
    """Of an answer and, by instance, whether it must be taken (None: either is right)."""
    if "error" in answer:
        return "refused", answer["error"]
    wrong = [
        ("wrongly taken" if taken else "wrongly rejected", at, stuck)
        for taken, must, at, stuck in zip(answer["accepted"], expected, range(len(expected)), answer["stuck_at"])
        if must is not None and taken != must
    ]
    for outcome, at, stuck in sorted(wrong):  # a wrong acceptance weighs more
        return outcome, f"instance {at}, stuck at {stuck}"
    return "right", ""


def read_lines(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def maskbench(folder, listing):
    cases = [case for case in read_lines(folder / "maskbench.jsonl") if case["tests"]]
    for order in ["schema", "any"]:
        table = Table(f"maskbench, order {order}", listing)
        requests, expected = [], []
        for case in cases:
            tests = case["tests"]
            requests.append({"schema": case["schema"], "instances": [test["text"] for test in tests], "options": {"order": order}})
            free = order == "schema"
            expected.append([None if free and not test.get("ordered", True) else test["valid"] for test in tests])
        for case, answer, must in zip(cases, check(requests), expected):
            table.add(case["id"], *outcome_of(answer, must))
        table.show()


def small_files(folder, listing):
    for name in ["traps", "gbnf", "regex", "lark"]:
        table = Table(name, listing)
        cases = read_lines(folder / f"{name}.jsonl")
        requests = []
        for case in cases:
            kind = next(kind for kind in KINDS if kind in case)
            instances = case.get("accept", []) + case.get("reject", [])
            requests.append({kind: case[kind], "instances": instances, "options": case.get("options", {})})
        for case, answer in zip(cases, check(requests)):
            must = [True] * len(case.get("accept", [])) + [False] * len(case.get("reject", []))
            outcome, why = outcome_of(answer, must)
            if outcome == "refused" and (case.get("must_refuse") or case.get("may_refuse")):
                outcome = "right"
            elif case.get("must_refuse"):
                outcome, why = "wrongly taken", "must be refused"
            table.add(case["id"], outcome, why)
        table.show()


def suite(folder, draft, listing):
    table = Table(draft, listing)
    remotes = {}
    for path in sorted((folder / "remotes").rglob("*.json")):
        remotes["http://localhost:1234/" + path.relative_to(folder / "remotes").as_posix()] = json.loads(path.read_text())
    requests, tests = [], []
    for path in sorted((folder / "tests" / draft).glob("*.json")):
        for group in json.loads(path.read_text()):
            instances = [json.dumps(test["data"], ensure_ascii=False) for test in group["tests"]]
            options = {"order": "any", "format": "annotate", "draft": DRAFTS[draft]}
            requests.append({"schema": group["schema"], "instances": instances, "options": options, "remotes": remotes})
            tests.append((f"{path.name}: {group['description']}", group["tests"]))
    for (name, group), answer in zip(tests, check(requests)):
        for at, test in enumerate(group):
            if "error" in answer:
                empty = NO_VALUE in answer["error"]["message"] and not test["valid"]
                table.add(f"{name}: {test['description']}", "right" if empty else "refused", answer["error"])
                continue
            one = {"accepted": [answer["accepted"][at]], "stuck_at": [answer["stuck_at"][at]]}
            table.add(f"{name}: {test['description']}", *outcome_of(one, [test["valid"]]))
    table.show()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = SOURCE / "build/test-data"
    parser.add_argument("--structured", type=pathlib.Path, default=data / "structured")
    parser.add_argument("--suite", type=pathlib.Path, default=data / "json-schema")
    parser.add_argument("--drafts", default="draft2020-12,draft7")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    maskbench(options.structured, options.list)
    small_files(options.structured, options.list)
    for draft in options.drafts.split(","):
        suite(options.suite, draft, options.list)


if __name__ == "__main__":
    main()
