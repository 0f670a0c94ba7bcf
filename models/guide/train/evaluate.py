#!/usr/bin/env python3
"""What the guide can do, measured on the held-out set over HTTP against a server that this starts.

usage: evaluate.py CAIRN MODEL.gguf [--float F32.gguf] [--count N] [--json OUT] [--wrong]

Prints a table of skills. With --float also how many greedy tokens of the answers agree between the two files.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import threading
import urllib.request
from typing import Any, Callable, NamedTuple

from chat import Conversation, answer, render, user
from mix import several
from skills import arithmetic, facts, json_schema, repeat, smalltalk, stories, tools, unknown
from words import HELD

ANSWER_TOKENS_MAX = 400
PARALLEL = 8
CALL = re.compile(r"<tool_call>\s*(\{.*\})\s*</tool_call>", re.DOTALL)


class Case(NamedTuple):
    skill: str
    conversation: Conversation  # its last message is what we would answer
    right: Callable[[str], bool]

    def prompt(self) -> str:
        return render(Conversation(self.conversation.messages[:-1], self.conversation.tools, self.conversation.thinks), prompt=True)


class Server:
    """`cairn serve` on a free port, until the end of the `with` block."""

    def __init__(self, program: pathlib.Path, model: pathlib.Path) -> None:
        self._process = subprocess.Popen([program, "serve", model, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self) -> "Server":
        seen = ""
        assert self._process.stdout
        for line in self._process.stdout:
            seen += line
            if found := re.search(r"http://[0-9.]+:\d+", line):
                self.url = found[0]
                # A server whose log nobody reads would stop when the pipe is full.
                threading.Thread(target=collections.deque, args=(self._process.stdout, 0), daemon=True).start()
                return self
        raise RuntimeError(f"the server did not start: {seen}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)

    def complete(self, prompt: str) -> str:
        body = {"prompt": prompt, "temperature": 0, "max_tokens": ANSWER_TOKENS_MAX}
        return self.post("/v1/completions", body)["choices"][0]["text"]


def without_thought(text: str) -> str:
    return text.split("</think>")[-1].strip()


def called(text: str) -> dict[str, Any]:
    """The tool call in an answer, or an empty object."""
    found = CALL.search(text)
    try:
        value = json.loads(found[1]) if found else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def follows(schema: dict[str, Any], value: Any) -> bool:
    """The part of JSON Schema that the generator uses, with all properties wanted and no others."""
    kind = schema["type"]
    if kind == "object":
        return (isinstance(value, dict) and set(value) == set(schema["properties"])
                and all(follows(schema["properties"][key], one) for key, one in value.items()))
    if kind == "array":
        return isinstance(value, list) and all(follows(schema["items"], one) for one in value)
    if kind == "string":
        return isinstance(value, str) and value in schema.get("enum", [value])
    return isinstance(value, bool) if kind == "boolean" else isinstance(value, int) and not isinstance(value, bool)


def valid_json(schema: dict[str, Any], text: str) -> bool:
    try:
        return follows(schema, json.loads(text))
    except ValueError:
        return False


def exact(conversation: Conversation, skill: str) -> Case:
    wanted = conversation.messages[-1]["content"]
    return Case(skill, conversation, lambda text: without_thought(text) == wanted)


def _fact_cases(rng: random.Random, count: int) -> list[Case]:
    chosen = facts.load() if count >= 100 else rng.sample(facts.load(), count)
    return [exact(Conversation([user(facts.question(rng, HELD, fact)), answer(fact["answer"])]), "facts about Cairn") for fact in chosen]


def _tool_cases(rng: random.Random, count: int) -> list[Case]:
    cases = []
    for _ in range(count):
        one = tools.make_call(rng, HELD)
        wanted = one.messages[-1]["tool_calls"][0]["function"]
        cases += [Case("tool choice", one, lambda text, wanted=wanted: called(text).get("name") == wanted["name"]),
                  Case("tool arguments", one, lambda text, wanted=wanted: called(text) == wanted)]
    return cases


def _json_cases(rng: random.Random, count: int) -> list[Case]:
    cases = []
    for _ in range(count):
        one = json_schema.make(rng, HELD)
        asked = one.messages[-2]["content"]
        schema, _ = json.JSONDecoder().raw_decode(asked[asked.index('{"type"'):])
        wanted = json.loads(one.messages[-1]["content"])
        cases += [Case("JSON valid for its schema", one, lambda text, schema=schema: valid_json(schema, text)),
                  Case("JSON with the right values", one, lambda text, wanted=wanted: text.strip() == json.dumps(wanted, ensure_ascii=False))]
    return cases


def _several_cases(rng: random.Random, count: int) -> list[Case]:
    cases: list[Case] = []
    while len(cases) < count:
        one = several(rng, HELD)
        if len(one.messages[-1]["content"]) > 250:
            continue  # a story: any is right
        replies = smalltalk.replies_to(one.messages[-2]["content"]) or [one.messages[-1]["content"]]
        cases.append(Case("last of several turns", one, lambda text, replies=replies: without_thought(text) in replies))
    return cases


def cases(count: int, seed: int = 7) -> list[Case]:
    rng = random.Random(seed)
    found = _fact_cases(rng, count)
    for _ in range(count):
        found.append(exact(arithmetic.make(rng, HELD), "arithmetic in <think>"))
        quick = arithmetic.make(rng, HELD)
        found.append(exact(Conversation(quick.messages, thinks=False), "arithmetic, thinking off"))
        found.append(Case("says that it does not know", unknown.make(rng, HELD), lambda text: text.startswith("I don't know")))
        small = smalltalk.make(rng, HELD)
        replies = smalltalk.replies_to(small.messages[0]["content"])
        found.append(Case("small talk, five languages", small, lambda text, replies=replies: text.strip() in replies))
        found.append(exact(repeat.make(rng, HELD), "repeats and counts"))
        found.append(exact(tools.make_result(rng, HELD), "uses a tool's result"))
        found.append(Case("leaves tools alone", tools.make_none(rng, HELD), lambda text: "<tool_call>" not in text))
    for _ in range(max(1, count // 2)):
        tale = stories.make(rng, HELD)
        found.append(Case("stories, coherent", tale, lambda text, asked=tale.messages[0]["content"]: stories.coherent(asked, text)))
    return found + _tool_cases(rng, count) + _json_cases(rng, count) + _several_cases(rng, count)


def misgraded(found: list[Case]) -> list[str]:
    """Skills whose graders refuse our own answer or accept an empty one; asked before anything is measured."""
    wrong = []
    for case in found:
        ours = render(case.conversation)[len(case.prompt()):].rsplit("<|im_end|>", 1)[0]
        if not case.right(ours) or (case.right("") and case.skill != "leaves tools alone"):
            wrong.append(f"{case.skill}: {ours!r}")
    return wrong


def ask(server: Server, found: list[Case]) -> list[str]:
    """The answers; cases that share a conversation share the request."""
    prompts = [case.prompt() for case in found]
    distinct = list(dict.fromkeys(prompts))
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        answers = dict(zip(distinct, pool.map(server.complete, distinct)))
    return [answers[prompt] for prompt in prompts]


def chat_agrees(server: Server, found: list[Case]) -> bool:
    """The chat endpoint renders the file's template to the same answer, without thoughts if they are empty."""
    plain = [case for case in found if not case.conversation.tools and case.conversation.thinks and case.skill.startswith("facts")][:3]
    for case in plain:
        body = {"messages": case.conversation.messages[:-1], "temperature": 0, "max_tokens": ANSWER_TOKENS_MAX}
        if server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"] != server.complete(case.prompt()).removeprefix("<think>\n\n</think>\n\n"):
            return False
    return True


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """With all properties wanted and no others, as follows() means it."""
    if schema["type"] != "object":
        return schema
    properties = {key: closed(one) for key, one in schema["properties"].items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def held_json(server: Server, count: int, seed: int = 7) -> list[bool]:
    """Whether answers that response_format holds to the schema are valid for it."""
    rng = random.Random(seed)

    def right(one: Conversation) -> bool:
        asked = one.messages[-2]["content"]
        schema, _ = json.JSONDecoder().raw_decode(asked[asked.index('{"type"'):])
        form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": closed(schema)}}
        body = {"messages": one.messages[:-1], "temperature": 0, "max_tokens": ANSWER_TOKENS_MAX, "response_format": form}
        choice = server.post("/v1/chat/completions", body)["choices"][0]
        return choice["finish_reason"] == "stop" and valid_json(schema, choice["message"]["content"])

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(right, [json_schema.make(rng, HELD) for _ in range(count)]))


def greedy(program: pathlib.Path, model: pathlib.Path, ids: list[int]) -> list[int]:
    """The likeliest next token after each of `ids`."""
    command = [program, "logits", model, "--tokens", ",".join(map(str, ids))]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["logits"]
    return [row.index(max(row)) for row in rows]


def agreement(program: pathlib.Path, small: pathlib.Path, exact_file: pathlib.Path, pairs: list[tuple[str, str]]) -> tuple[int, int]:
    """Tokens of the float file's answers where both files' likeliest token is the same, and all of them."""
    lines = "".join(json.dumps({"text": text, "add_special": False, "parse_special": True}) + "\n" for pair in pairs for text in (pair[0], "".join(pair)))
    output = subprocess.run([program, "tokenize", exact_file, "--jsonl"], input=lines, check=True, capture_output=True, text=True).stdout
    ids = [json.loads(line)["ids"] for line in output.splitlines()]
    same = total = 0
    for prompt, whole in zip(ids[::2], ids[1::2]):
        first, second = greedy(program, exact_file, whole), greedy(program, small, whole)
        both = list(zip(first, second))[len(prompt) - 1:]
        same += sum(a == b for a, b in both)
        total += len(both)
    return same, total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--float", type=pathlib.Path, dest="exact_file", help="the float32 file that MODEL was made from")
    parser.add_argument("--count", type=int, default=200, help="cases of each skill (default %(default)s)")
    parser.add_argument("--agree", type=int, default=150, help="answers compared with --float (default %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the shares here")
    parser.add_argument("--wrong", action="store_true", help="print what was wrong")
    options = parser.parse_args()
    found = cases(options.count)
    if wrong := misgraded(found):
        print("\n".join(["the graders are wrong about:", *wrong]))
        return 1
    with Server(options.program, options.exact_file or options.model) as server:
        reference = ask(server, found) if options.exact_file else []
    with Server(options.program, options.model) as server:
        answers = ask(server, found)
        if not chat_agrees(server, found):
            print("the chat endpoint answers otherwise than the rendered prompt")
            return 1
        shares: dict[str, list[bool]] = {"JSON valid, held to its schema": held_json(server, options.count)}
    for case, text in zip(found, answers):
        shares.setdefault(case.skill, []).append(case.right(text))
        if options.wrong and not case.right(text):
            print(f"--- {case.skill}: {case.prompt()[-400:]!r}\n    got {text!r}")
    print("| skill | right | of |\n|---|---|---|")
    for skill, right in shares.items():
        print(f"| {skill} | {100 * sum(right) / len(right):.1f} % | {len(right)} |")
    result = {skill: sum(right) / len(right) for skill, right in shares.items()}
    if options.exact_file:
        picked = random.Random(1).sample(list(zip((case.prompt() for case in found), reference)), min(options.agree, len(found)))
        same, total = agreement(options.program, options.model, options.exact_file, picked)
        result["greedy tokens equal"] = same / total
        print(f"| greedy tokens equal to float32's | {100 * same / total:.2f} % | {total} |")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
