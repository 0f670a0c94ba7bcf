#!/usr/bin/env python3
"""Masks of JSON schemas: cairn, llguidance and xgrammar on the same schemas, texts and vocabulary, in turn.

usage: bench/grammar/masks.py --cases maskbench.jsonl.gz --vocabulary VOCABULARY.gguf [--every 10] [--seconds 15]
           [--engines cairn,llguidance,xgrammar] [--csv bench/results/grammar-masks-CPU.csv]
  --cases       a line for each schema: {"id", "schema", "tests": [{"valid", "text"}]}, as in MaskBench
  --vocabulary  a GGUF file with a vocabulary of byte-level BPE and Llama 3's pretokenizer; weights are not needed
  --every       one schema of so many
  --seconds     of processor time after which work on a schema is ended, and it counts as out of time

For each schema the engines take turns, each in a process: the schema is compiled, and of each valid text, at each token, a
mask is made and the token taken. Times are processor time in microseconds: `cairn grammar check` reports that of its
thread, the others are measured around their calls, all threads of the process. Prints a table and, with --csv, writes
it, and does so every 50 schemas: those seen by then are spread over the file.

The results in bench/results were made so:
  python3 -m venv venv && venv/bin/pip install llguidance==1.9.1 xgrammar==0.2.8 tokenizers gguf
  gzip -dc fixtures/tokenizers/ggml-vocab-llama-bpe.gguf.gz > llama.gguf
  venv/bin/python bench/grammar/masks.py --cases fixtures/structured/maskbench.jsonl.gz --vocabulary llama.gguf
      --every 1 --seconds 2 --csv bench/results/grammar-masks-CPU.csv
  and with --engines cairn,llguidance for bench/results/grammar-masks-two-CPU.csv
xgrammar works on each schema in a process of its own, so that it can be ended. In the run of all three llguidance did so,
too, whose first writes to memory then cost it time: that of the two has its times.
"""

import argparse
import csv
import gc
import gzip
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ENGINES = ["cairn", "llguidance", "xgrammar"]
SPREAD = 16  # the cases are taken in so many rounds over the file
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("CAIRN_PROGRAM", str(SOURCE / "build/release/cairn"))


def read_vocabulary(path):
    """The tokenizer of a GGUF file, for the tokenizers library, and the ids that end generation."""
    import gguf
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    fields = gguf.GGUFReader(path).fields
    texts = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"].contents()]
    kinds = fields["tokenizer.ggml.token_type"].contents()
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, merges, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text, kind in zip(texts, kinds) if kind != 1])
    return tokenizer, [fields["tokenizer.ggml.eos_token_id"].contents()]


class Llguidance:
    own_process = False

    def __init__(self, tokenizer, ends):
        import llguidance
        import llguidance.hf
        import llguidance.numpy

        self.library, self.size = llguidance, tokenizer.get_vocab_size()
        self.tokenizer = llguidance.LLTokenizer(tokenizer.to_str(), eos_token=ends[0])
        self.mask = llguidance.numpy.allocate_token_bitmask(1, self.size)

    def compile(self, schema):
        grammar = self.library.LLMatcher.grammar_from_json_schema(schema)
        return lambda: self.start(grammar)

    def start(self, grammar):
        matcher = self.library.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def step(self, matcher, token):
        self.library.numpy.fill_next_token_bitmask(matcher, self.mask, 0)
        return matcher.consume_token(token)


class Xgrammar:
    own_process = True  # of each case: it may have to be ended

    def __init__(self, tokenizer, ends):
        import xgrammar

        size = tokenizer.get_vocab_size()
        self.library = xgrammar
        texts = [tokenizer.id_to_token(i) for i in range(size)]
        info = xgrammar.TokenizerInfo(texts, xgrammar.VocabType.BYTE_LEVEL, vocab_size=size, stop_token_ids=ends)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, size)

    def compile(self, schema):
        grammar = self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)
        return lambda: self.library.GrammarMatcher(grammar)

    def step(self, matcher, token):
        matcher.fill_next_token_bitmask(self.mask)
        return matcher.accept_token(token)


def microseconds():
    return time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) * 1e6


def answer(engine, tokenizer, case):
    begin = microseconds()
    start = engine.compile(json.dumps(case["schema"]))
    matcher = start()
    compile_us = microseconds() - begin
    times, taken = [], 0
    for text in case["instances"]:
        matcher = matcher or start()
        ok = True
        for token in tokenizer.encode(text, add_special_tokens=False).ids:
            begin = microseconds()
            ok = engine.step(matcher, token)
            times.append(round(microseconds() - begin, 1))
            if not ok:
                break
        matcher = None
        taken += ok
    return {"compile_us": compile_us, "us": times, "taken": taken}


def answer_or_error(engine, tokenizer, line):
    try:
        return json.dumps(answer(engine, tokenizer, json.loads(line)))
    except Exception as error:  # whatever it is, the schema is refused
        return json.dumps({"error": str(error)[:200]})


def answer_apart(engine, tokenizer, line, seconds):
    """In a process of its own."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        with os.fdopen(into, "w") as file:
            file.write(answer_or_error(engine, tokenizer, line))
        os._exit(0)
    os.close(into)
    data = read_all(out, child, seconds)
    os.close(out)
    if data is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return '{"error": "out of time"}' if data is None else data or '{"error": "crashed"}'


def work(name, vocabulary, seconds):
    """A peer's process: a case a line in, an answer a line out."""
    tokenizer, ends = read_vocabulary(vocabulary)
    engine = {"llguidance": Llguidance, "xgrammar": Xgrammar}[name](tokenizer, ends)
    gc.freeze()
    print("{}", flush=True)
    for line in sys.stdin:
        if engine.own_process:
            print(answer_apart(engine, tokenizer, line, seconds), flush=True)
        else:
            print(answer_or_error(engine, tokenizer, line), flush=True)


def processor_seconds(process):
    with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
        user, system = stat.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def read_all(file, process, seconds, line=False):
    """What the process writes, to the end or to that of a line. None: it takes longer, or has ended in a line."""
    until = processor_seconds(process) + seconds
    give_up = time.monotonic() + 20 * seconds
    data = b""
    while not (line and data.endswith(b"\n")):
        ready, _, _ = select.select([file], [], [], 0.2)
        if not ready:
            if processor_seconds(process) > until or time.monotonic() > give_up:
                return None
            continue
        part = os.read(file, 1 << 20)
        if not part:
            return None if line else data.decode()
        data += part
    return data.decode()


class Process:
    def __init__(self, name, options):
        self.name, self.options, self.process = name, options, None

    def begin(self):
        vocabulary = self.options.vocabulary
        own = [PROGRAM, "grammar", "check", vocabulary, "--jsonl", "--standard"]
        peer = [sys.executable, __file__, "--worker", self.name, "--vocabulary", vocabulary]
        peer += ["--seconds", str(self.options.seconds)]
        command = own if self.name == "cairn" else peer
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.name == "cairn":
            self.send({"id": "warm", "json": True})
        self.receive(120)

    def send(self, line):
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, seconds):
        """None: it has ended or takes longer."""
        data = read_all(self.process.stdout.fileno(), self.process.pid, seconds, line=True)
        return None if data is None else json.loads(data)

    def ask(self, case):
        if self.process is None:
            self.begin()
        self.send({**case, "tokens": "canonical"} if self.name == "cairn" else case)
        # xgrammar's worker ends what takes too long by itself.
        out = self.receive(self.options.seconds * (30 if self.name == "xgrammar" else 1))
        if out is None:
            self.process.kill()
            self.process.wait()
            self.process = None
            return {"error": "out of time"}
        if self.name == "cairn" and "error" not in out:
            out = {"compile_us": out["compile_us"], "us": out["masks"]["us"], "taken": sum(out["accepted"])}
        return out


def percentile(values, percent):
    values = sorted(values)
    return values[max(-(-len(values) * percent // 100), 1) - 1] if values else 0


def row_of(name, answers, cases):
    masks = [us for out in answers for us in out.get("us", [])]
    compiles = [out["compile_us"] for out in answers if "compile_us" in out]
    row = {"engine": name, "schemas": len(cases)}
    row["refused"] = sum("error" in out and out["error"] != "out of time" for out in answers)
    row["out of time"] = sum(out.get("error") == "out of time" for out in answers)
    row["texts"] = sum(len(case["instances"]) for case in cases)
    row["taken"] = sum(out.get("taken", 0) for out in answers)
    row["masks"] = len(masks)
    row["mean us"] = round(sum(masks) / max(len(masks), 1), 1)
    row.update({f"p{percent} us": round(percentile(masks, percent), 1) for percent in (50, 99)})
    row["max us"] = round(max(masks, default=0))
    row.update({f"compile p{percent} us": round(percentile(compiles, percent)) for percent in (50, 99)})
    row["compile max us"] = round(max(compiles, default=0))
    return row


def rows_of(answers, cases):
    rows = [row_of(name, out, cases) for name, out in answers.items()]
    # The schemas that all of them build: the same masks for all.
    common = [i for i in range(len(cases)) if all("error" not in out[i] for out in answers.values())]
    for name, out in answers.items():
        rows.append(row_of(f"{name} (schemas that all build)", [out[i] for i in common], [cases[i] for i in common]))
    return rows


def write(rows, path):
    if path:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases")
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--csv")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.vocabulary, options.seconds)
    cases = []
    with gzip.open(options.cases, "rt", encoding="utf-8") as lines:
        for line in list(lines)[:: options.every]:
            case = json.loads(line)
            texts = [test["text"] for test in case["tests"] if test["valid"]]
            cases.append({"id": case["id"], "schema": case["schema"], "instances": texts})
    cases = [case for first in range(SPREAD) for case in cases[first::SPREAD]]
    engines = [Process(name, options) for name in options.engines.split(",")]
    answers = {engine.name: [] for engine in engines}
    for i, case in enumerate(cases):
        for engine in engines[i % len(engines) :] + engines[: i % len(engines)]:
            answers[engine.name].append(engine.ask(case))
        if (i + 1) % 50 == 0:
            print(f"{i + 1} of {len(cases)} schemas", file=sys.stderr, flush=True)
            write(rows_of(answers, cases[: i + 1]), options.csv)
    rows = rows_of(answers, cases)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    write(rows, options.csv)
    return None


if __name__ == "__main__":
    main()
