#!/usr/bin/env python3
"""Writes the memory that popular models take into docs/models.md, and that of the models which Cairn proposes to people
who have none into src/loader/proposals.cpp: files without weights, of the shapes that `cairn synth` knows, in the types
that people download, planned by `cairn inspect`.

usage: scripts/memory_table.py PROGRAM [--print]
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs' / 'models.md'
SOURCE = ROOT / 'src' / 'loader' / 'proposals.cpp'
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

CODER = ['--arch', 'llama', '--head-dim', '128', '--context', '32768']
# What Cairn proposes, from the least to the most capable: the name of a hub, the shape as `cairn synth` takes it, and
# what it is good for. The shapes are those of the published models' configurations; llama stands for qwen2, which has a
# few more vectors. Names are Ollama's where its file holds nothing but the text model, else a repository's of Hugging Face.
# Models for code alone stand below those of their size that talk.
PROPOSED = [
    ('qwen2.5-coder:1.5b', [*CODER, '--layers', '28', '--width', '1536', '--ffn', '8960', '--heads', '12', '--kv-heads', '2',
                            '--vocab', '151936', '--tied'], 'completing code'),
    ('qwen3:0.6b', ['--preset', 'qwen3-0.6b'], 'short answers'),
    ('qwen3:1.7b', ['--preset', 'qwen3-0.6b', '--width', '2048', '--ffn', '6144'], 'simple chat'),
    ('llama3.2:3b', ['--preset', 'llama-1b', '--layers', '28', '--width', '3072', '--heads', '24', '--head-dim', '128'],
     'general chat'),
    ('qwen3:4b', ['--preset', 'qwen3-0.6b', '--layers', '36', '--width', '2560', '--ffn', '9728', '--heads', '32'],
     'general chat'),
    ('qwen2.5-coder:7b', [*CODER, '--layers', '28', '--width', '3584', '--ffn', '18944', '--heads', '28', '--kv-heads', '4',
                          '--vocab', '152064', '--untied'], 'code'),
    ('LiquidAI/LFM2-8B-A1B-GGUF:Q4_K_M', ['--preset', 'lfm2-8b-a1b'], 'quick chat'),
    ('unsloth/Qwen3.5-9B-GGUF:Q4_K_M', ['--preset', 'qwen3.5-9b'], 'general chat'),
    ('ggml-org/gpt-oss-20b-GGUF', ['--preset', 'gpt-oss-20b'], 'reasoning and tools'),
    ('qwen3-coder:30b', ['--arch', 'moe', '--layers', '48', '--width', '2048', '--ffn', '6144', '--heads', '32', '--kv-heads',
                         '4', '--head-dim', '128', '--vocab', '151936', '--context', '262144', '--experts', '128',
                         '--experts-used', '8', '--expert-ffn', '768', '--untied'], 'code'),
    ('unsloth/gemma-4-26B-A4B-it-GGUF:Q4_K_M', ['--preset', 'gemma4-26b-a4b'], 'chat in many languages'),
    ('unsloth/Qwen3.5-35B-A3B-GGUF:Q4_K_M', ['--preset', 'qwen3.5-35b-a3b'], 'chat and coding agents'),
    ('ggml-org/gpt-oss-120b-GGUF', ['--preset', 'gpt-oss-20b', '--layers', '36', '--experts', '128'],
     'reasoning and tools'),
]
ROWS_BEGIN, ROWS_END = '    // known models: begin\n', '    // known models: end\n'


def gib(bytes_):
    return f'{bytes_ / 2**30:.1f}'


def plan(program, folder, shape, contexts):
    """What `cairn inspect` says of the memory, with a plan for each context."""
    path = pathlib.Path(folder) / 'model.gguf'
    path.unlink(missing_ok=True)
    subprocess.run([program, 'synth', str(path), '--hollow', *shape], check=True, capture_output=True)
    # Two threads, one conversation, enough memory: numbers of no machine.
    args = ['--json', '--threads', '2', '--parallel', '1', '--parallel-max', '1', '--memory', '4096GiB']
    lengths = [text for tokens in contexts for text in ('--ctx', str(tokens))]
    out = subprocess.run([program, 'inspect', str(path), *args, *lengths], check=True, capture_output=True).stdout
    return json.loads(out)['memory']


def rows(program):
    names = ' | '.join(f'keys, values, states {name}' for name in CONTEXTS)
    yield f'| model | type | weights | {names} | ' + ' | '.join(f'all, {name}' for name in CONTEXTS) + ' |'
    yield '|---|---|' + '---|' * (1 + 2 * len(CONTEXTS))
    with tempfile.TemporaryDirectory() as folder:
        for preset, name, type_ in MODELS:
            shape = ['--preset', preset, *(['--type', type_] if type_ else [])]
            plans = plan(program, folder, shape, CONTEXTS.values())['plans']
            cells = [gib(entry['kv_bytes']) for entry in plans] + [gib(entry['bytes']) for entry in plans]
            yield f'| {name} | {type_ or "as published"} | {gib(plans[0]["weight_bytes"])} | ' + ' | '.join(cells) + ' |'


def proposed(program):
    """The rows of the table in SOURCE."""
    with tempfile.TemporaryDirectory() as folder:
        for name, shape, good_for in PROPOSED:
            # gpt-oss is published in four bits of its own.
            memory = plan(program, folder, shape if 'gpt-oss' in name else [*shape, '--type', 'Q4_K_M'], [CONTEXTS['8k']])
            figures = memory['file_weight_bytes'], memory['plans'][0]['bytes'], memory['bytes_read_per_token']
            yield f'    {{"{name}", {", ".join(str(figure) for figure in figures)}, "{good_for}"}},\n'


def replace(path, begin, end, text):
    before, rest = path.read_text().split(begin)
    path.write_text(before + begin + text + end + rest.split(end)[1])


def main():
    program = sys.argv[1]
    table, models = '\n'.join(rows(program)), ''.join(proposed(program))
    if '--print' in sys.argv:
        print(table + '\n' + models, end='')
        return
    replace(PAGE, BEGIN, END, '\n\n' + table + '\n\n')
    replace(SOURCE, ROWS_BEGIN, ROWS_END, models)


main()
