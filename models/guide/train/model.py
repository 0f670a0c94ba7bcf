"""The network: a small qwen3 (grouped keys, normalised queries and keys, SwiGLU, tied output), as GGUF defines it."""
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from products import batched, products


@dataclasses.dataclass(frozen=True)
class Shape:
    vocabulary: int = 3072
    width: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    hidden: int = 768
    context: int = 2048
    rope_base: float = 10000.0
    epsilon: float = 1e-6


class _RmsNorm(torch.autograd.Function):
    """x / rms(x) * weight; by hand because the automatic form keeps four copies of x."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:  # type: ignore[override]
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True).add_(epsilon))
        normal = x * scale
        ctx.save_for_backward(normal, scale, weight)
        return normal * weight

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        normal, scale, weight = ctx.saved_tensors
        of_weight = (grad * normal).flatten(0, -2).sum(0)
        grad = grad * weight
        along = (grad * normal).mean(-1, keepdim=True)
        return torch.addcmul(grad, normal, along, value=-1).mul_(scale), of_weight, None


class Norm(nn.Module):
    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return _RmsNorm.apply(x, self.weight, self.epsilon)


def rope_table(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    rate = shape.rope_base ** (-torch.arange(0, shape.head, 2, dtype=torch.float64) / shape.head)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().float(), angle.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [batch, rows, heads, head]; pairs are (i, i + head / 2)."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
        self.attn_norm = Norm(shape.width, shape.epsilon)
        self.attn_q = nn.Linear(shape.width, queries, bias=False)
        self.attn_k = nn.Linear(shape.width, keys, bias=False)
        self.attn_v = nn.Linear(shape.width, keys, bias=False)
        self.attn_q_norm = Norm(shape.head, shape.epsilon)
        self.attn_k_norm = Norm(shape.head, shape.epsilon)
        self.attn_output = nn.Linear(queries, shape.width, bias=False)
        self.ffn_norm = Norm(shape.width, shape.epsilon)
        self.ffn_gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.ffn_up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.ffn_down = nn.Linear(shape.hidden, shape.width, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """x [batch, rows, width] plus its attention."""
        s, (batch, rows, _) = self.shape, x.shape
        y = self.attn_norm(x)
        q, k, v = products(y, self.attn_q.weight, self.attn_k.weight, self.attn_v.weight)
        q = rotate(self.attn_q_norm(q.reshape(batch, rows, s.heads, s.head)), cos, sin)
        k = rotate(self.attn_k_norm(k.reshape(batch, rows, s.kv_heads, s.head)), cos, sin)
        v = v.reshape(batch, rows, s.kv_heads, s.head)
        group = s.heads // s.kv_heads
        # Query heads that share a key head are rows of one product.
        q = q.view(batch, rows, s.kv_heads, group, s.head).permute(0, 2, 3, 1, 4).reshape(batch * s.kv_heads, group * rows, s.head)
        k = k.permute(0, 2, 3, 1).reshape(batch * s.kv_heads, s.head, rows)
        v = v.transpose(1, 2).reshape(batch * s.kv_heads, rows, s.head)
        scores = batched(q * (1 / math.sqrt(s.head)), k).add_(mask.repeat(group, 1))
        mixed = batched(F.softmax(scores, dim=-1), v)
        mixed = mixed.view(batch, s.kv_heads, group, rows, s.head).permute(0, 3, 1, 2, 4).reshape(batch, rows, -1)
        return x + products(mixed, self.attn_output.weight)

    def feed(self, x: Tensor) -> Tensor:
        y = self.ffn_norm(x)
        gate, up = products(y, self.ffn_gate.weight, self.ffn_up.weight)
        return x + products(F.silu(gate) * up, self.ffn_down.weight)


class Model(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocabulary, shape.width)
        self.blk = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.output_norm = Norm(shape.width, shape.epsilon)
        cos, sin = rope_table(shape, shape.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02 if "token_embd" in name else weight.shape[1] ** -0.5)
            if name.endswith(("attn_output.weight", "ffn_down.weight")):
                nn.init.zeros_(weight)

    def forward(self, ids: Tensor, wanted: Tensor | None = None) -> Tensor:
        """ids [batch, rows] -> logits of the rows that `wanted` (flat indices) names, or of all."""
        rows = ids.shape[1]
        cos, sin = self.cos[:rows, None, :], self.sin[:rows, None, :]
        mask = torch.full((rows, rows), float("-inf"), device=ids.device).triu_(1)
        x = self.token_embd(ids)
        for index, layer in enumerate(self.blk):
            x = layer.attend(x, cos, sin, mask)
            if index + 1 == len(self.blk):  # only attention looks at other rows
                x = x.flatten(0, 1)
                x = x if wanted is None else x[wanted]
            x = layer.feed(x)
        return products(self.output_norm(x), self.token_embd.weight)

    def parameters_count(self) -> int:
        return sum(weight.numel() for weight in self.parameters())
