#!/usr/bin/env python3
"""Texts that `cairn grammar sample` draws from masks alone, each validated by Python's jsonschema.

usage: bench/grammar/samples.py --cases maskbench.jsonl --vocabulary VOCABULARY.gguf [--walks 10000] [--seed 1]
  --cases       a line for each schema: {"id", "schema"}, as in MaskBench
  --vocabulary  a GGUF file with a vocabulary; weights are not needed
  --walks       that end, spread over all schemas that compile
  --seed        of the first walk

Walks that reach their limit of tokens have no value to validate; further ones are drawn in their place. Prints each text
that is not valid and why, and at the end of each round over the schemas how many were; exits with 1 if any is not. Takes
some minutes of processor time.

  python3 -m venv venv && venv/bin/pip install 'jsonschema[format]==4.26.0'
  venv/bin/python bench/grammar/samples.py --cases build/test-data/structured/maskbench.jsonl
      --vocabulary build/test-data/tokenizers/ggml-vocab-llama-bpe.gguf
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import warnings

import jsonschema
from jsonschema import validators

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("CAIRN_PROGRAM", str(SOURCE / "build/release/cairn"))
ROUND = 1  # walks of a schema at a time
ROUNDS_MAX = 100
TOKENS_MAX = 400


class Sampler:
    """`cairn grammar sample`, one line after the other."""

    def __init__(self, vocabulary):
        command = [PROGRAM, "grammar", "sample", vocabulary, "--jsonl", "--standard"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, schema, seed):
        line = {"schema": schema, "count": ROUND, "seed": seed, "tokens_max": TOKENS_MAX}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def validator_of(schema):
    kind = validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def why_invalid(validator, text):
    """Why the text is no valid value; None: it is one."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    error = next(validator.iter_errors(value), None)
    return None if error is None else f"/{'/'.join(map(str, error.absolute_schema_path))}: {error.message[:300]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", required=True, type=pathlib.Path)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--walks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    cases = [json.loads(line) for line in options.cases.read_text().split("\n") if line]
    sampler = Sampler(options.vocabulary)
    refused, seen = set(), set()
    ended = cut = failed = 0

    def report():
        print(f"{ended:,} walks of {len(seen):,} schemas ended, {ended - failed:,} valid; {cut:,} were cut at {TOKENS_MAX} "
              f"tokens; {len(refused)} of {len(cases):,} schemas are refused", flush=True)

    for turn in range(ROUNDS_MAX):
        for case in cases:
            if ended >= options.walks or case["id"] in refused:
                continue
            answer = sampler.ask(case["schema"], options.seed + turn)
            if "error" in answer:
                refused.add(case["id"])
                continue
            validator = validator_of(case["schema"])
            for sample in answer["samples"]:
                if not sample["ended"]:
                    cut += 1
                    continue
                ended += 1
                seen.add(case["id"])
                why = why_invalid(validator, sample["text"])
                if why is not None:
                    failed += 1
                    print(f"{case['id']}: {why}\n  {sample['text'][:1000]}", flush=True)
        report()
        if ended >= options.walks:
            break
    sampler.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
