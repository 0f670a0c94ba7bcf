#!/usr/bin/env python3
"""Does Cairn see what training saw? The same ids for texts, the same text for conversations, the same logits for ids.

usage: same.py CAIRN CHECKPOINT TOKENIZER.json F32.gguf
"""
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import torch

import mix
import products
from chat import Conversation, render
from export import load_model
from tokenizer import Tokenizer
from words import HELD, TRAIN

NMSE_MAX = 1e-8
products.TYPE = torch.float32  # as Cairn computes it, not as training did
ODD = ["", " ", "  two  spaces ", "\n\n\ttab", "don't I'LL we've", "x1y22z333", "naïve café Übung ¿qué? 你好吗？ 😀👍🏽", "a_b-c.d/e\\f", "{\"a\": [1, 2]}\n\n",
       "<|im_start|>user\nhi<|im_end|>\n", "<think></think><tool_call", "\r\n \r\n", "é", "١٢٣ Ⅷ ½"]


def run(program: str, *arguments: str, lines: list[dict] | None = None) -> str:
    text = "".join(json.dumps(line) + "\n" for line in lines or [])
    return subprocess.run([program, *arguments], input=text, check=True, capture_output=True, text=True).stdout


def conversations(count: int) -> list[Conversation]:
    found = []
    for index in range(count):
        rng = random.Random(f"same:{index}")
        found.append(mix.conversation(rng, HELD if index % 2 else TRAIN))
    return found


def ids_differ(program: str, tokenizer: Tokenizer, model: str, texts: list[str]) -> list[str]:
    output = run(program, "tokenize", model, "--jsonl", lines=[{"text": text, "add_special": False, "parse_special": True} for text in texts])
    return [text for text, line in zip(texts, output.split("\n")) if json.loads(line)["ids"] != tokenizer.encode(text)]


def texts_differ(program: str, model: str, found: list[Conversation]) -> list[str]:
    lines, ours = [], []
    for one in found:
        for prompt in (False, True):
            messages = one.messages[:-1] if prompt else one.messages
            shorter = Conversation(messages, one.tools, one.thinks)
            lines.append({"messages": messages, "add_generation_prompt": prompt, "tools": one.tools or None,
                          **({} if one.thinks else {"enable_thinking": False})})
            ours.append(render(shorter, prompt))
            if not render(one).startswith(render(shorter, prompt)) :
                return [f"a prompt is not how its conversation begins: {ours[-1]}"]
    output = run(program, "render", model, "--jsonl", lines=lines).split("\n")
    return [text for text, line in zip(ours, output) if json.loads(line).get("rendered") != text]


def main() -> int:
    program, checkpoint, vocabulary, model = sys.argv[1:]
    tokenizer, network = Tokenizer.load(pathlib.Path(vocabulary)), load_model(pathlib.Path(checkpoint))
    found = conversations(60)
    texts = ODD + [render(one) for one in found]
    wrong = ids_differ(program, tokenizer, model, texts) + texts_differ(program, model, found)
    worst = 0.0
    for text in texts[-4:]:
        ids = tokenizer.encode(text)
        with torch.no_grad():
            ours = network(torch.tensor([ids])).numpy()
        theirs = np.array(json.loads(run(program, "logits", model, "--tokens", ",".join(map(str, ids))))["logits"])
        worst = max(worst, float(((ours - theirs) ** 2).sum() / (ours ** 2).sum()))
    for text in wrong[:5]:
        print(f"differs: {text!r}")
    print(f"{len(texts)} texts, {len(found)} conversations: {len(wrong)} differ; logits within an NMSE of {worst:.1e}")
    return int(bool(wrong) or worst > NMSE_MAX)


if __name__ == "__main__":
    raise SystemExit(main())
