"""Nomic's BERT with experts, which transformers does not have: the tensors of its repositories, and its results in double precision.

Written from the description of the architecture. hf_fixture.py uses it as it uses a model of transformers.
"""

import json
import types

import torch
from torch.nn import functional


class NomicBertMoe(torch.nn.Module):
    def __init__(self, hub):
        super().__init__()
        self.hub = hub
        self.config = types.SimpleNamespace(vocab_size=hub["vocab_size"], hidden_size=hub["n_embd"], tie_word_embeddings=False)
        width, inner, experts = hub["n_embd"], hub["n_inner"], hub["num_experts"]
        self.values = {}
        self.declare("embeddings.word_embeddings.weight", hub["vocab_size"], width)
        self.declare("embeddings.token_type_embeddings.weight", hub["type_vocab_size"], width)
        self.declare_norm("emb_ln", width)
        for layer in range(hub["n_layer"]):
            at = f"encoder.layers.{layer}."
            self.declare_linear(at + "attn.Wqkv", 3 * width, width)
            self.declare_linear(at + "attn.out_proj", width, width)
            self.declare_norm(at + "norm1", width)
            self.declare_norm(at + "norm2", width)
            if self.routed(layer):
                self.declare(at + "mlp.router.layer.weight", experts, width)
                self.declare(at + "mlp.experts.mlp.w1", experts * inner, width)
                self.declare(at + "mlp.experts.mlp.w2", experts * inner, width)
            else:
                self.declare_linear(at + "mlp.fc1", inner, width)
                self.declare_linear(at + "mlp.fc2", width, inner)

    def routed(self, layer):
        return layer % self.hub["moe_every_n_layers"] == 1

    def declare(self, name, *shape):
        self.values[name] = torch.zeros(shape)

    def declare_linear(self, name, outputs, inputs):
        self.declare(name + ".weight", outputs, inputs)
        self.declare(name + ".bias", outputs)

    def declare_norm(self, name, width):
        self.values[name + ".weight"] = torch.ones(width)
        self.declare(name + ".bias", width)

    def named_parameters(self, *_args, **_kwargs):
        return self.values.items()

    def save_pretrained(self, folder):
        from safetensors.torch import save_file

        save_file(self.values, folder / "model.safetensors", metadata=dict(format="pt"))
        (folder / "config.json").write_text(json.dumps(self.hub))

    def forward(self, input_ids):
        w = {name: value.double() for name, value in self.values.items()}
        x = w["embeddings.word_embeddings.weight"][input_ids[0]] + w["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(w, "emb_ln", x)
        for layer in range(self.hub["n_layer"]):
            at = f"encoder.layers.{layer}."
            x = self.norm(w, at + "norm1", x + self.attention(w, at + "attn.", x))
            block = self.experts(w, at + "mlp.", x) if self.routed(layer) else self.dense(w, at + "mlp.", x)
            x = self.norm(w, at + "norm2", x + block)
        return types.SimpleNamespace(last_hidden_state=x[None])

    def norm(self, w, name, x):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + self.hub["layer_norm_epsilon"]).sqrt()
        return x * w[name + ".weight"] + w[name + ".bias"]

    def attention(self, w, at, x):
        rows, width = x.shape
        heads = self.hub["n_head"]
        size = width // heads
        qkv = (x @ w[at + "Wqkv.weight"].T + w[at + "Wqkv.bias"]).reshape(rows, 3, heads, size)
        angles = torch.arange(rows).double()[:, None] * self.hub["rotary_emb_base"] ** (-torch.arange(0, size, 2).double() / size)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]

        def turned(v):
            first, second = v[..., : size // 2], v[..., size // 2 :]
            return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)

        q, k, v = turned(qkv[:, 0]), turned(qkv[:, 1]), qkv[:, 2]
        weights = (torch.einsum("qhd,khd->hqk", q, k) / size**0.5).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, v).reshape(rows, width) @ w[at + "out_proj.weight"].T + w[at + "out_proj.bias"]

    def dense(self, w, at, x):
        return functional.gelu(x @ w[at + "fc1.weight"].T + w[at + "fc1.bias"]) @ w[at + "fc2.weight"].T + w[at + "fc2.bias"]

    def experts(self, w, at, x):
        """Each row goes through the experts of the largest shares, which are not normalised again."""
        shape = (self.hub["num_experts"], self.hub["n_inner"], self.hub["n_embd"])
        up, down = w[at + "experts.mlp.w1"].view(shape), w[at + "experts.mlp.w2"].view(shape)
        shares = (x @ w[at + "router.layer.weight"].T).softmax(-1)
        out = torch.zeros_like(x)
        for row in range(len(x)):
            for expert in shares[row].topk(self.hub["moe_top_k"]).indices:
                out[row] += shares[row, expert] * (functional.gelu(up[expert] @ x[row]) @ down[expert])
        return out
