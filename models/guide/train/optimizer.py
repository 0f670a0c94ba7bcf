"""Muon for the layers' matrices, AdamW for embeddings and norms, in groups that different workers may update.

Muon (K. Jordan and others, 2024) replaces a matrix's momentum by the nearest orthogonal matrix, found with a few
Newton-Schulz steps: every direction of the update has the same size, so far fewer steps are needed.
"""
import torch
from torch import Tensor

from model import Model
from products import TYPE

MUON_RATE, MUON_MOMENTUM = 0.02, 0.95
ADAM_RATE, ADAM_BETAS, ADAM_EPSILON = 0.004, (0.9, 0.95), 1e-8
DECAY = 0.05  # of the matrices, per unit of learning rate
# The odd polynomial a x + b x^3 + c x^5, applied five times, takes singular values of (0, 1] near 1.
NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS = (3.4445, -4.7750, 2.0315), 5


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest orthogonal matrices, about, of [count, rows, columns]."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(1, 2) if tall else matrices
    x = (x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)).to(TYPE)
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = torch.bmm(x, x.transpose(1, 2))
        x = a * x + torch.bmm(b * square + c * torch.bmm(square, square), x)
    x = x.float()
    return x.transpose(1, 2) if tall else x


class Optimizer:
    """Its state lies in shared memory, so that any worker can update any group."""

    def __init__(self, model: Model, workers: int) -> None:
        self.parameters = list(model.parameters())
        count = sum(weight.numel() for weight in self.parameters)
        device = self.parameters[0].device
        self.gradients, self.first, self.second = (
            torch.zeros(size, device=device).share_memory_() for size in ((workers, count), (count,), (count,)))
        names = [name for name, _ in model.named_parameters()]
        matrices: dict[str, list[int]] = {}
        self.offsets, at = [], 0
        for weight in self.parameters:
            self.offsets.append(at)
            at += weight.numel()
        for index, name in enumerate(names):
            if name.startswith("blk.") and self.parameters[index].dim() == 2:
                matrices.setdefault(name.split(".", 2)[2], []).append(index)
        self.groups = list(matrices.values())
        hidden = {index for group in self.groups for index in group}
        self.rest = [index for index in range(len(names)) if index not in hidden]

    def __len__(self) -> int:
        return len(self.groups) + 1

    def view(self, flat: Tensor, index: int) -> Tensor:
        weight = self.parameters[index]
        return flat.narrow(0, self.offsets[index], weight.numel()).view_as(weight)

    def adopt(self, worker: int) -> None:
        """Lets this process's backward passes add to the worker's line of gradients."""
        for index, weight in enumerate(self.parameters):
            weight.grad = self.view(self.gradients[worker], index)

    def _take_gradient(self, index: int) -> Tensor:
        views = [self.view(line, index) for line in self.gradients]
        total = torch.stack(views).sum(0)
        for one in views:
            one.zero_()
        return total

    @torch.no_grad()
    def update(self, group: int, step: int, scale: float) -> None:
        """One step of a group; `scale` is the schedule's part of the learning rate, `step` counts from 1."""
        if group == len(self.groups):
            for index in self.rest:
                self._adam(index, step, scale)
            return
        indices = self.groups[group]
        gradients = torch.stack([self._take_gradient(index) for index in indices])
        moments = [self.view(self.first, index) for index in indices]
        for moment, gradient in zip(moments, gradients):
            moment.mul_(MUON_MOMENTUM).add_(gradient)
        directions = orthogonal(gradients + MUON_MOMENTUM * torch.stack(moments))
        rate = MUON_RATE * scale
        for index, direction in zip(indices, directions):
            weight = self.parameters[index]
            size = max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5
            weight.mul_(1 - rate * DECAY).add_(direction, alpha=-rate * size)

    def _adam(self, index: int, step: int, scale: float) -> None:
        gradient, weight = self._take_gradient(index), self.parameters[index]
        first, second = self.view(self.first, index), self.view(self.second, index)
        first.lerp_(gradient, 1 - ADAM_BETAS[0])
        second.lerp_(gradient.square(), 1 - ADAM_BETAS[1])
        mean = first / (1 - ADAM_BETAS[0] ** step)
        spread = (second / (1 - ADAM_BETAS[1] ** step)).sqrt_().add_(ADAM_EPSILON)
        weight.sub_(mean / spread * (ADAM_RATE * scale))

    def state(self) -> dict[str, Tensor]:
        return {"first": self.first, "second": self.second}

    def load(self, state: dict[str, Tensor]) -> None:
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
