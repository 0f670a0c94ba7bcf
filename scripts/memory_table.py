#!/usr/bin/env python3
"""Writes the memory that popular models take into docs/models.md: files without weights, of the shapes that
`cairn synth` knows, in the types that people download, planned by `cairn inspect`.

usage: scripts/memory_table.py PROGRAM [--print]
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent.parent / 'docs' / 'models.md'
BEGIN, END = '<!-- memory: scripts/memory_table.py writes this table -->', '<!-- memory: end -->'
CONTEXTS = {'8k': 8192, '128k': 128_000}
# Preset, what people call it, and the type of the usual file; none: the preset's own.
MODELS = [
    ('llama-1b', 'Llama 3.2 1B', 'Q4_K_M'),
    ('llama-8b', 'Llama 3.1 8B', 'Q4_K_M'),
    ('qwen3.5-9b', 'Qwen 3.5 9B', 'Q4_K_M'),
    ('qwen3.5-35b-a3b', 'Qwen 3.5 35B-A3B', 'Q4_K_M'),
    ('gemma4-e4b', 'Gemma 4 E4B', 'Q4_K_M'),
    ('gemma4-26b-a4b', 'Gemma 4 26B-A4B', 'Q4_K_M'),
    ('gpt-oss-20b', 'gpt-oss 20B', None),
    ('lfm2-8b-a1b', 'LFM2 8B-A1B', 'Q4_K_M'),
    ('nemotron-3-nano', 'Nemotron 3 Nano 30B-A3B', 'Q4_K_M'),
    ('kimi-linear-48b', 'Kimi Linear 48B-A3B', 'Q4_K_M'),
    ('v3', 'DeepSeek V3, R1', 'Q4_K_M'),
    ('flash', 'DeepSeek V4 Flash', None),
    ('v4.1-flash', 'DeepSeek V4.1 Flash', None),
]


def gib(bytes_):
    return f'{bytes_ / 2**30:.1f}'


def plan(program, folder, preset, type_):
    """The plans of `cairn inspect` by context."""
    path = pathlib.Path(folder) / 'model.gguf'
    path.unlink(missing_ok=True)
    types = ['--type', type_] if type_ else []
    subprocess.run([program, 'synth', str(path), '--preset', preset, '--hollow', *types], check=True, capture_output=True)
    contexts = [text for tokens in CONTEXTS.values() for text in ('--ctx', str(tokens))]
    # Two threads, one conversation, enough memory: numbers of no machine.
    args = ['--json', '--threads', '2', '--parallel', '1', '--parallel-max', '1', '--memory', '4096GiB']
    out = subprocess.run([program, 'inspect', str(path), *args, *contexts], check=True, capture_output=True).stdout
    return json.loads(out)['memory']


def rows(program):
    names = ' | '.join(f'keys, values, states {name}' for name in CONTEXTS)
    yield f'| model | type | weights | {names} | ' + ' | '.join(f'all, {name}' for name in CONTEXTS) + ' |'
    yield '|---|---|' + '---|' * (1 + 2 * len(CONTEXTS))
    with tempfile.TemporaryDirectory() as folder:
        for preset, name, type_ in MODELS:
            plans = plan(program, folder, preset, type_)['plans']
            cells = [gib(entry['kv_bytes']) for entry in plans] + [gib(entry['bytes']) for entry in plans]
            yield f'| {name} | {type_ or "as published"} | {gib(plans[0]["weight_bytes"])} | ' + ' | '.join(cells) + ' |'


def main():
    table = '\n'.join(rows(sys.argv[1]))
    if '--print' in sys.argv:
        print(table)
        return
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + '\n\n' + table + '\n\n' + END + rest.split(END)[1])


main()
