#!/usr/bin/env python3
"""lm-evaluation-harness through /v1/completions against its own transformers backend on the same F32 weights.

usage: bench/quality/lm_eval_agrees.py CAIRN MODEL.gguf [--texts N] [--most 0.0001]
  CAIRN   the program
  MODEL   a file of F32 tensors that transformers can read (build/test-data/trained/stories260K-f32.gguf)
  --texts of how many texts each task is made (default: all)
  --most  the largest difference of the bits per byte that passes; accuracies must be equal

Two tasks are made of texts.txt. `ends`: which of four ends belongs to the beginning of a sentence, of which the others are
of the sentences after it. `texts`: the perplexity of each language's sentences as one text, as
bits per byte. Each runs three times: by
transformers, by `local-completions` with the harness's own tokenizer, and with the server's (`tokenizer_backend=remote`).
Prints a row for each and what differs; exit status 1 if that is too much. Needs
torch, transformers, gguf, accelerate and lm-eval 0.4.13.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import gguf
import lm_eval
import lm_eval.tasks
import torch
import transformers

from embeddings import read_texts

ENDS = """task: ends
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/ends.json}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{begin}}}}"
doc_to_choice: "{{{{ends}}}}"
doc_to_target: right
target_delimiter: " "
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
TEXTS = """task: texts
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/texts.json}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: bits_per_byte}}]
"""
METRICS = [("ends", "acc"), ("ends", "acc_norm"), ("texts", "bits_per_byte")]


def write_tasks(folder, most):
    texts = [text for of_language in read_texts().values() for text in of_language if " " in text][:most]
    halves = [(" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])) for words in map(str.split, texts)]
    rows = []
    for i, (begin, _) in enumerate(halves):
        ends = [halves[(i + step) % len(halves)][1] for step in range(4)]
        right = i % 4
        rows.append({"begin": begin, "ends": ends[1 : right + 1] + ends[:1] + ends[right + 1 :], "right": right})
    (folder / "ends.json").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    whole = [" ".join(of_language) for of_language in read_texts().values()][:most]
    (folder / "texts.json").write_text("\n".join(json.dumps({"text": text}) for text in whole), encoding="utf-8")
    (folder / "ends.yaml").write_text(ENDS.format(folder=folder))
    (folder / "texts.yaml").write_text(TEXTS.format(folder=folder))


def write_checkpoint(model, folder):
    """What transformers reads of the file, as a folder that the harness takes."""
    copy = folder.parent / model.name
    shutil.copy(model, copy)
    reader = gguf.GGUFReader(copy, "r+")
    padding = reader.fields.get("tokenizer.ggml.padding_token_id")
    if padding is not None and padding.contents() >= len(reader.fields["tokenizer.ggml.tokens"].data):
        padding.parts[-1][0] = 0  # the file has none, and says so in a way that transformers does not know
        reader.data.flush()
    where = {"pretrained_model_name_or_path": str(copy.parent), "gguf_file": copy.name}
    config = transformers.AutoConfig.from_pretrained(**where)
    checkpoint = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    read = transformers.AutoModelForCausalLM.from_pretrained(**where, config=config, dtype=torch.float32)
    checkpoint.load_state_dict(read.state_dict())
    checkpoint.save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    tokenizer.add_bos_token = False  # the server's tokens are asked for without it
    tokenizer.save_pretrained(folder)
    return checkpoint.config.max_position_embeddings


def serve(program, model):
    """The server, where it listens, and what it calls the model."""
    server = subprocess.Popen([program, "serve", str(model), "--port", "0", "--kv-type", "f32"], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r'serving .+ on (http:[^\s"]+)', line):
            break
    else:
        sys.exit("the server has ended")
    threading.Thread(target=server.stderr.read, daemon=True).start()
    with urllib.request.urlopen(f"{found[1]}/v1/models") as models:
        return server, found[1], json.load(models)["data"][0]["id"]


def evaluate(folder, model, args):
    results = lm_eval.simple_evaluate(
        model=model, model_args=args, tasks=["ends", "texts"], batch_size=8, bootstrap_iters=0, verbosity="ERROR",
        task_manager=lm_eval.tasks.TaskManager(include_path=str(folder), include_defaults=False))["results"]
    return {metric: results[task][f"{metric},none"] for task, metric in METRICS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cairn")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--texts", type=int)
    parser.add_argument("--most", type=float, default=0.0001)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_tasks(folder, options.texts)
        checkpoint = folder / "checkpoint"
        context = write_checkpoint(options.model.resolve(), checkpoint)
        # The harness keeps two tokens of a server's context free, so that windows of texts are as much shorter.
        local = {"pretrained": str(checkpoint), "dtype": "float32", "device": "cpu", "max_length": context - 2}
        rows = {"transformers": evaluate(folder, "hf", local)}
        server, url, model = serve(options.cairn, options.model)
        try:
            common = {"model": model, "base_url": f"{url}/v1/completions", "num_concurrent": 4, "max_length": context}
            rows["own"] = evaluate(folder, "local-completions", {**common, "tokenizer": str(checkpoint)})
            rows["remote"] = evaluate(folder, "local-completions", {**common, "tokenizer_backend": "remote"})
        finally:
            server.terminate()
            server.wait()
    print(" ".join(["".ljust(14), *(metric.rjust(16) for _, metric in METRICS)]))
    wrong = False
    for who, row in rows.items():
        print(" ".join([who.ljust(14), *(f"{row[metric]:16.6f}" for _, metric in METRICS)]))
        for task, metric in METRICS:
            expected = rows["transformers"][metric]
            wrong |= row[metric] != expected if task == "ends" else abs(row[metric] - expected) > options.most
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
