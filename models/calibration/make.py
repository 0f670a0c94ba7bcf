#!/usr/bin/env python3
"""Writes calibration.txt, the text that `cairn imatrix` reads where none is given: languages, code, tool calls and
mathematics. All of it was written for Cairn: parts/ by hand, code and pages are this repository's own, and problems and
calls are made here.

usage: models/calibration/make.py    (the same text each time, as long as the files that it takes are the same)
"""
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RANDOM = random.Random(20261130)
PIECE = 1200  # characters after which the next kind of text comes, so that every window has several

# Files and how many of their characters are taken.
CODE = {
    "src/sampling/truncation.cpp": 7000, "src/cache/page_pool.cpp": 7000, "src/net/http/http_request_parser.cpp": 6000,
    "src/kernels/cpu/rows/moe_route.cpp": 4000, "web/src/markdown.ts": 5000, "web/src/main.tsx": 4000,
    "scripts/measured.py": 3500, "bench/quality/lm_eval_agrees.py": 5000, "models/guide/train/tokenizer.py": 4500,
    "tests/e2e/help.test.mjs": 4000, "scripts/package.sh": 2500, "cmake/cairn_module.cmake": 3000,
    "examples/systemd/cairn.service": 1500,
}
PAGES = {"docs/network.md": 9000, "docs/sampling.md": 6000, "docs/troubleshooting.md": 8000, "docs/which-model.md": 5000, "docs/api/anthropic.md": 5000}

NAMES = ["Amara", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Grace", "Hiroshi", "Ines", "Jonas", "Keiko", "Lina"]
THINGS = ["apples", "tickets", "books", "tiles", "eggs", "stamps", "bricks", "coins"]
CITIES = ["Lisbon", "Osaka", "Nairobi", "Lima", "Tallinn", "Pune", "Quebec", "Izmir"]


def arithmetic():
    """A word problem with its solution."""
    a, b, c = RANDOM.randint(12, 96), RANDOM.randint(3, 19), RANDOM.randint(2, 9)
    name, other = RANDOM.sample(NAMES, 2)
    thing = RANDOM.choice(THINGS)
    forms = [
        (f"{name} has {a} {thing} and gets {b} more each day. How many are there after {c} days?",
         f"In {c} days {c} * {b} = {b * c} come. {a} + {b * c} = {a + b * c}.", a + b * c),
        (f"{name} buys {c} boxes with {a} {thing} each, and gives {b} to {other}. How many are left?",
         f"{c} * {a} = {c * a}, and {c * a} - {b} = {c * a - b}.", c * a - b),
        (f"What is {a} * {b} - {c}^2?", f"{a} * {b} = {a * b}; {c}^2 = {c * c}; {a * b} - {c * c} = {a * b - c * c}.", a * b - c * c),
        (f"Solve {c}x + {b} = {c * a + b}.", f"Subtract {b}: {c}x = {c * a}. Divide by {c}: x = {a}.", a),
        (f"What is {a * b} modulo {c + 4}?", f"{a * b} = {(a * b) // (c + 4)} * {c + 4} + {(a * b) % (c + 4)}.", (a * b) % (c + 4)),
    ]
    question, steps, answer = RANDOM.choice(forms)
    return f"Question: {question}\nAnswer: {steps} The answer is {answer}.\n"


def tool():
    """A function, and a call of it with its result."""
    city, name = RANDOM.choice(CITIES), RANDOM.choice(NAMES)
    number = RANDOM.randint(1, 900)
    return RANDOM.choice([
        ("get_weather", "Weather at a place", {"city": "string", "unit": "string"}, {"city": city, "unit": "celsius"},
         f"How warm is it in {city}?", {"temperature": number % 35, "sky": "cloudy"}, f"It is {number % 35} degrees in {city}, and cloudy."),
        ("search_orders", "Finds orders of a customer", {"customer": "string", "limit": "integer"}, {"customer": name, "limit": 3},
         f"What did {name} order last?", {"orders": [{"id": number, "total": number / 4}]}, f"The last order of {name} is number {number}, for {number / 4:.2f} euros."),
        ("create_event", "Writes into the calendar", {"title": "string", "start": "string", "minutes": "integer"},
         {"title": f"Call with {name}", "start": f"2027-0{number % 9 + 1}-1{number % 10}T09:30:00", "minutes": 30},
         f"Put a call with {name} into my calendar, half past nine, half an hour.", {"created": True, "id": number}, f"Done: the call with {name} is in your calendar."),
        ("run_sql", "Runs a query on the sales database", {"query": "string"},
         {"query": f"SELECT city, SUM(amount) AS total FROM sales WHERE year = 2026 AND amount > {number} GROUP BY city ORDER BY total DESC LIMIT 5;"},
         f"Which five cities had the largest sales over {number} last year?", {"rows": [[city, number * 7]]}, f"{city} leads with {number * 7}."),
    ])


def call():
    """A conversation with a call, in one of the forms that models use."""
    name, about, parameters, arguments, question, result, answer = tool()
    schema = {"type": "function", "function": {"name": name, "description": about, "parameters": {
        "type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}, "required": list(parameters)}}}
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    forms = [
        f"<|im_start|>system\nYou have these tools: {json.dumps(schema)}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        f"<tool_call>\n{written}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n{json.dumps(result)}\n</tool_response><|im_end|>\n"
        f"<|im_start|>assistant\n{answer}<|im_end|>\n",
        f"### Tools\n{json.dumps([schema], indent=2)}\n### User\n{question}\n### Assistant\n[TOOL_CALLS] [{written}]\n[TOOL_RESULTS] {json.dumps(result)}\n{answer}\n",
        json.dumps({"messages": [{"role": "user", "content": question},
                                 {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]},
                                 {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(result)},
                                 {"role": "assistant", "content": answer}]}, indent=1) + "\n",
    ]
    return RANDOM.choice(forms)


def pieces(text):
    """The text in parts of about PIECE characters that end with a line."""
    part = ""
    for line in text.splitlines(keepends=True):
        part += line
        if len(part) >= PIECE:
            yield part
            part = ""
    if part:
        yield part


def main():
    def taken(files):
        return [piece for name, length in files.items() for piece in pieces((ROOT / name).read_text(encoding="utf-8")[:length])]

    kinds = [
        list(pieces((HERE / "parts" / "english.txt").read_text(encoding="utf-8"))),
        list(pieces((HERE / "parts" / "languages.txt").read_text(encoding="utf-8"))),
        list(pieces((HERE / "parts" / "mathematics.txt").read_text(encoding="utf-8"))) + list(pieces("".join(arithmetic() for _ in range(90)))),
        list(pieces("".join(call() for _ in range(40)))),
        taken(CODE),
        taken(PAGES),
    ]
    # Each kind is spread evenly over the whole, so that the first windows alone have some of all.
    placed = [((i + 0.5) / len(kind), number, piece) for number, kind in enumerate(kinds) for i, piece in enumerate(kind)]
    text = "\n".join(piece for _, _, piece in sorted(placed))
    (HERE / "calibration.txt").write_text(text, encoding="utf-8")
    print(f"{len(text.encode())} bytes")


if __name__ == "__main__":
    main()
