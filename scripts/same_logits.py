#!/usr/bin/env python3
"""Compares what two builds of the program compute of every model fixture, to the bit: logits on several instruction
sets, types of keys and values and lengths of steps, with a LoRA adapter and with control vectors; vectors of embeddings; what
the server answers with drafts; and the memory that is planned. Models of kinds without a fixture are made by `synth`. A
table says how much was compared, and then each file and case that differs, with the largest difference.

usage: scripts/same_logits.py --old PROGRAM --new PROGRAM [--data FOLDER] [--only WORD] [--quick]
  --data FOLDER  where the fixtures lie (default: build/test-data)
  --only WORD    only models whose path has the word in it
  --quick        each model once: the best instruction set, float32

The exit status is 1 if anything differs, or if nothing was compared. A change that must not touch a number, such as a
part of a layer that moves, is tested by it: build the commit before, keep its program, and compare.
"""
import argparse
import base64
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ('models', 'trained', 'converted')
# Models of architectures or forms that no fixture has: name, flags of `synth`.
MADE = {
    'deepseek41': ['--arch', 'deepseek41', '--layers', '6', '--vocab', '300', '--context', '512'],
    'lfm2moe': ['--arch', 'lfm2moe'],
    'nemotron_h_moe': ['--arch', 'nemotron_h_moe'],
    'kimi-linear': ['--arch', 'kimi-linear'],
    'gpt-oss-bf16': ['--arch', 'gpt-oss', '--type', 'BF16'],
    'qwen3moe-q4_k_m': ['--arch', 'qwen3moe', '--type', 'Q4_K_M'],
    'gemma4-q8_0': ['--arch', 'gemma4', '--type', 'Q8_0'],
}
# A prompt longer than a page and a window of keys, and a short one for models whose context is shorter.
PROMPTS = [','.join(str((7 * i + 3) % 61) for i in range(length)) for length in (150, 24)]
CASES = {
    'best': [],
    'generic': ['--isa', 'generic'],
    'avx2': ['--isa', 'avx2'],
    'f16': ['--kv-type', 'f16'],
    'q8_0': ['--kv-type', 'q8_0'],
    'steps of 7': ['--chunk', '7'],
}
TEXTS = ['the rain in the thin inn', 'a', ' '.join(['on and in the other end'] * 6)]
ADAPTED = re.compile(r'^blk\.\d+\.(attn_(q|k|v|qkv|output|q_a|q_b|kv|kv_a_mqa)|ffn_(gate|up|down)|ffn_(gate|up|down)_(exps|shexp))\.weight$')
GGUF_STRING, GGUF_FLOAT, ALIGNMENT = 8, 6, 32


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def write_adapter(path, architecture, tensors, rank=3):
    """A LoRA adapter of the matrices [rows, cols] or [experts, rows, cols], with random products."""
    numbers = random.Random(1)
    text = lambda value: struct.pack('<Q', len(value)) + value.encode()
    keys = {'general.type': 'adapter', 'general.architecture': architecture, 'adapter.type': 'lora'}
    added = []
    for tensor in tensors:
        cols, rows, *experts = tensor['shape']
        added.append((tensor['name'] + '.lora_a', [cols, rank, *experts]))
        added.append((tensor['name'] + '.lora_b', [rank, rows, *experts]))
    header = b'GGUF' + struct.pack('<IQQ', 3, len(added), len(keys) + 1)
    for key, value in keys.items():
        header += text(key) + struct.pack('<I', GGUF_STRING) + text(value)
    header += text('adapter.lora.alpha') + struct.pack('<If', GGUF_FLOAT, 3)
    data = b''
    for name, shape in added:
        header += text(name) + struct.pack(f'<I{len(shape)}QIQ', len(shape), *shape, 0, len(data))
        count = 1
        for size in shape:
            count *= size
        data += struct.pack(f'<{count}f', *(numbers.uniform(-.1, .1) for _ in range(count)))
        data += b'\0' * (-len(data) % ALIGNMENT)
    path.write_bytes(header + b'\0' * (-len(header) % ALIGNMENT) + data)


class Server:
    """`serve` with one model, for what no command prints."""

    def __init__(self, program, model, *flags):
        command = [program, 'serve', str(model), '--port', '0', '-t', '1', '--no-web', *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.address = None
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r'serving .* on (http://\S+)', line):
                self.address = found[1]
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, path, body):
        if self.address is None:
            return ('refused', 'serve: ' + self.log[-1].strip() if self.log else '')
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), {'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return ('answer', json.load(answer))
        except urllib.error.HTTPError as error:
            return ('refused', error.read().decode(errors='replace'))


def logits(program, model, flags):
    """All logits of the first prompt that fits, or why there are none."""
    for prompt in PROMPTS:
        done = run(program, 'logits', model, '--tokens', prompt, '-t', 1, *flags)
        if done.returncode == 0:
            return ('numbers', [float(number) for row in json.loads(done.stdout)['logits'] for number in row], done.stdout)
    last = done.stderr.strip().splitlines()[-1:] or ['']
    return ('refused', last[0])


def embeddings(program, model, _):
    """Vectors of texts one by one and together, and every row, as the model gives them."""
    values = []
    with Server(program, model) as server:
        for texts in [[text] for text in TEXTS] + [TEXTS]:
            kind, answer = server.post('/v1/embeddings', {'input': texts, 'encoding_format': 'base64', 'embd_normalize': -1})
            if kind != 'answer':
                return (kind, answer)
            values += [base64.b64decode(each['embedding']) for each in answer['data']]
        kind, answer = server.post('/v1/rerank', {'query': TEXTS[0], 'documents': TEXTS})
        ranks = sorted((each['index'], each['relevance_score']) for each in answer['results']) if kind == 'answer' else []
    whole = b''.join(values)
    return ('numbers', [*struct.unpack(f'<{len(whole) // 4}f', whole), *(score for _, score in ranks)], whole.hex() + str(ranks))


def drafts(program, model, _):
    """A text that drafts have helped with, and how likely each token was. How many were right depends on time, too."""
    with Server(program, model, '--speculate', '3') as server:
        kind, answer = server.post('/completion', {'prompt': TEXTS[0], 'n_predict': 48, 'temperature': 0, 'n_probs': 3, 'ignore_eos': True})
    if kind != 'answer':
        return (kind, answer)
    rows = answer.get('completion_probabilities', [])
    numbers = [each['logprob'] for row in rows for each in [row, *row.get('top_logprobs', [])]]
    return ('numbers', numbers, answer['content'] + str(rows))


def plans(program, model, flags):
    done = run(program, 'inspect', model, '--json', '--memory', '64GiB', '--ctx', 128, *flags)
    if done.returncode != 0:
        return ('refused', done.stderr.strip().splitlines()[-1])
    plan = json.loads(done.stdout)['memory']
    return ('numbers', [value for each in plan['plans'] for value in each.values() if isinstance(value, int)], str(plan))


def cases_of(program, model, scratch, quick):
    """(name, what computes it, its flags) of all that is compared of the model."""
    shown = run(program, 'inspect', model, '--json')
    if shown.returncode != 0:
        return
    about = json.loads(shown.stdout)
    tensors = about['tensors']
    if not any(tensor['name'].startswith('blk.') for tensor in tensors):
        return  # a vocabulary alone
    for name, flags in (list(CASES.items())[:1] if quick else CASES.items()):
        yield name, logits, flags
    if about['architecture'].startswith('deepseek4'):
        yield 'no rounding', logits, ['--no-rounding']
    yield 'embeddings', embeddings, []
    yield 'plan', plans, []
    if any('nextn' in tensor['name'] for tensor in tensors):
        yield 'drafts', drafts, []
        yield 'plan of drafts', plans, ['--speculate', '3']
    if not quick:
        path = scratch / f'{model.parent.name}-{model.stem}-steer'
        sizes = [int(value['value']) for key, value in about['metadata'].items() if re.search(r'\.(block_count|embedding_length)$', key)]
        path.write_bytes(struct.pack(f'<{sizes[0] * sizes[1]}f', *(random.Random(2).uniform(-1, 1) for _ in range(sizes[0] * sizes[1]))))
        yield 'control vectors', logits, ['--steer', path, '--steer-attn', 0.5]
    # An adapter of so large matrices would take long to write.
    adapted = [tensor for tensor in tensors if ADAPTED.match(tensor['name']) and 'bias' not in tensor['name']]
    if not quick and adapted and about['file_bytes'] < 4 << 20:
        path = scratch / f'{model.parent.name}-{model.stem}-lora.gguf'
        write_adapter(path, about['architecture'], adapted)
        yield 'LoRA', logits, ['--lora', path]


def compare(old, new, model, case):
    name, compute, flags = case
    before, after = compute(old, model, flags), compute(new, model, flags)
    if before[0] != 'numbers' and after[0] != 'numbers':
        return (model, name, 0, None, before[1])
    if before[0] != after[0]:
        return (model, name, 0, f'{before[0]} before, {after[0]} now: {(after if after[0] == "refused" else before)[1]}', '')
    if before[2] == after[2]:
        return (model, name, len(before[1]), None, '')
    if len(before[1]) != len(after[1]):
        return (model, name, len(after[1]), f'{len(before[1])} numbers before, {len(after[1])} now', '')
    differing = [(abs(a - b), a, b) for a, b in zip(before[1], after[1]) if a != b]
    if not differing:
        return (model, name, len(after[1]), 'the texts differ', '')
    _, a, b = max(differing)
    return (model, name, len(after[1]), f'{len(differing)} of {len(after[1])} numbers differ, most {b} from {a}', '')


def models_of(data, program, scratch, word):
    found = [path for folder in FOLDERS for path in sorted((data / folder).glob('*.gguf'))]
    for name, flags in MADE.items():
        path = scratch / f'made-{name}.gguf'
        made = run(program, 'synth', path, *flags)
        if made.returncode != 0:
            sys.exit(f'same_logits.py: {" ".join(flags)}: {made.stderr.strip()}')
        found.append(path)
    return [path for path in found if word in str(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--old', required=True)
    parser.add_argument('--new', required=True)
    parser.add_argument('--data', type=pathlib.Path, default=ROOT / 'build' / 'test-data')
    parser.add_argument('--only', default='')
    parser.add_argument('--quick', action='store_true')
    options = parser.parse_args()
    old, new = os.path.abspath(options.old), os.path.abspath(options.new)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        work = []
        for model in models_of(options.data, old, scratch, options.only):
            work += [(model, case) for case in cases_of(old, model, scratch, options.quick)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda each: compare(old, new, *each), work))
    table = collections.OrderedDict()
    for model, name, numbers, difference, refused in results:
        row = table.setdefault(name, collections.Counter())
        row['models'] += 0 if refused else 1
        row['numbers'] += numbers
        row['refused'] += 1 if refused else 0
        row['differ'] += 1 if difference else 0
    print(f'{"case":<16}{"models":>8}{"refused by both":>17}{"numbers":>12}{"differ":>8}')
    for name, row in table.items():
        print(f'{name:<16}{row["models"]:>8}{row["refused"]:>17}{row["numbers"]:>12,}{row["differ"]:>8}')
    differing = [each for each in results if each[3]]
    for model, name, _, difference, _ in differing:
        print(f'{model.parent.name}/{model.name}, {name}: {difference}')
    compared = sum(numbers for _, _, numbers, _, _ in results)
    print(f'{len({model for model, *_ in results})} models, {compared:,} numbers compared, {len(differing)} cases differ')
    return 1 if differing or compared == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
