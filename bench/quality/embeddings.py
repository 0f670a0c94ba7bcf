#!/usr/bin/env python3
"""Embeddings of a running server against transformers, text by text: are the tokens the same, how near are the vectors?

usage: bench/quality/embeddings.py MODEL_FOLDER [--url http://127.0.0.1:8080] [--least 0.999999]
  MODEL_FOLDER  what the server's file was converted from: a sentence-transformers repository
  --least       the least cosine that passes

Texts are those of texts.txt, twenty in each of ten languages, and each language's twenty as one text, cut to the context. Prints a line per
language: texts whose tokens differ, least and mean cosine. Exit status 1 if a cosine is below --least or tokens differ. Needs torch and
transformers.
"""

import argparse
import json
import pathlib
import sys
import urllib.request

import torch
import transformers


def read_texts():
    """{language: [text]}"""
    texts, language = {}, None
    for line in (pathlib.Path(__file__).parent / "texts.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            language = line[2:]
        elif line:
            texts.setdefault(language, []).append(line)
    return {**texts, "long": [" ".join(each) for each in texts.values()]}


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def read_pooling(folder):
    """How the model's authors make one vector of a text's rows, in sentence-transformers' two ways of writing it."""
    file = folder / "1_Pooling" / "config.json"
    config = json.loads(file.read_text()) if file.exists() else {}
    for name, pooling in (("pooling_mode_cls_token", "cls"), ("pooling_mode_lasttoken", "lasttoken")):
        if config.get(name) or config.get("pooling_mode") == pooling:
            return pooling
    return "mean"


class Reference:
    def __init__(self, folder):
        self.pooling = read_pooling(folder)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.context = self.model.config.max_position_embeddings

    def tokens(self, text):
        return self.tokenizer(text, truncation=True, max_length=self.context, padding=False)["input_ids"]

    @torch.inference_mode()
    def vector(self, tokens):
        """One text at a time, so that there is no padding. Of length 1, in double."""
        rows = self.model(input_ids=torch.tensor([tokens])).last_hidden_state[0].double()
        vector = {"mean": rows.mean(0), "cls": rows[0], "lasttoken": rows[-1]}[self.pooling]
        return vector / vector.norm()


def compare(reference, url, texts):
    """[(tokens equal, cosine)]"""
    answer = post(url, "/v1/embeddings", {"input": texts, "truncate": True})
    results = []
    for text, entry in zip(texts, answer["data"], strict=True):
        tokens = reference.tokens(text)
        ours = post(url, "/tokenize", {"content": text, "add_special": True})["tokens"]
        same = ours == tokens if len(ours) <= reference.context else ours[: reference.context - 1] == tokens[:-1]
        vector = torch.tensor(entry["embedding"], dtype=torch.float64)
        results.append((same, float(reference.vector(tokens) @ (vector / vector.norm()))))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--least", type=float, default=0.999999)
    options = parser.parse_args()
    reference = Reference(options.model)
    everything = []
    print(f"{'texts':12} {'count':>5} {'other tokens':>12} {'least cosine':>16} {'mean cosine':>16}   pooling: {reference.pooling}")

    def line(name, results):
        cosines = [cosine for _, cosine in results]
        others = sum(not same for same, _ in results)
        print(f"{name:12} {len(results):5} {others:12} {min(cosines):16.12f} {sum(cosines) / len(cosines):16.12f}")

    for name, texts in read_texts().items():
        results = compare(reference, options.url, texts)
        everything += results
        line(name, results)
    line("all", everything)
    return 0 if all(same and cosine >= options.least for same, cosine in everything) else 1


if __name__ == "__main__":
    sys.exit(main())
