#!/usr/bin/env python3
"""Checkpoint and tokenizer to a GGUF file of float32 weights; `cairn quantize IN OUT Q8_0` makes the small one.

usage: export.py CHECKPOINT TOKENIZER.json OUT.gguf
"""
import argparse
import pathlib

import torch

import gguf
from chat import TEMPLATE
from model import Model, Shape
from tokenizer import Tokenizer

NAME = "Cairn Guide"
DESCRIPTION = ("Cairn's demonstration model: answers questions about Cairn, adds and subtracts two-digit numbers, calls "
               "tools, writes JSON and short stories. Trained from scratch on synthetic text; it knows nothing else.")


def metadata(shape: Shape, tokenizer: Tokenizer) -> list[tuple[str, str, object]]:
    return [
        ("general.architecture", "string", "qwen3"),
        ("general.type", "string", "model"),
        ("general.name", "string", NAME),
        ("general.description", "string", DESCRIPTION),
        ("general.license", "string", "that of the Cairn repository"),
        ("general.languages", "[string]", ["en"]),
        ("general.file_type", "u32", 0),
        ("general.quantization_version", "u32", 2),
        ("qwen3.vocab_size", "u32", shape.vocabulary),
        ("qwen3.context_length", "u32", shape.context),
        ("qwen3.embedding_length", "u32", shape.width),
        ("qwen3.block_count", "u32", shape.layers),
        ("qwen3.feed_forward_length", "u32", shape.hidden),
        ("qwen3.attention.head_count", "u32", shape.heads),
        ("qwen3.attention.head_count_kv", "u32", shape.kv_heads),
        ("qwen3.attention.key_length", "u32", shape.head),
        ("qwen3.attention.value_length", "u32", shape.head),
        ("qwen3.attention.layer_norm_rms_epsilon", "f32", shape.epsilon),
        ("qwen3.rope.dimension_count", "u32", shape.head),
        ("qwen3.rope.freq_base", "f32", shape.rope_base),
        ("tokenizer.ggml.model", "string", "gpt2"),
        ("tokenizer.ggml.pre", "string", "qwen2"),
        ("tokenizer.ggml.tokens", "[string]", tokenizer.tokens),
        ("tokenizer.ggml.token_type", "[i32]", tokenizer.types),
        ("tokenizer.ggml.merges", "[string]", [f"{left} {right}" for left, right in tokenizer.merges]),
        ("tokenizer.ggml.add_bos_token", "bool", False),
        ("tokenizer.ggml.bos_token_id", "u32", tokenizer.ids["<|endoftext|>"]),
        ("tokenizer.ggml.eos_token_id", "u32", tokenizer.ids["<|im_end|>"]),
        ("tokenizer.ggml.padding_token_id", "u32", tokenizer.ids["<|endoftext|>"]),
        ("tokenizer.chat_template", "string", TEMPLATE.read_text().strip()),
    ]


def export(model: Model, tokenizer: Tokenizer, path: pathlib.Path) -> None:
    tensors = [(name, weight.detach().float().numpy()) for name, weight in model.named_parameters()]
    gguf.write(path, metadata(model.shape, tokenizer), tensors)


def load_model(checkpoint: pathlib.Path) -> Model:
    state = torch.load(checkpoint, map_location="cpu")
    model = Model(Shape(**state["shape"]))
    model.load_state_dict(state["model"])
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    export(load_model(options.checkpoint), Tokenizer.load(options.tokenizer), options.out)


if __name__ == "__main__":
    main()
