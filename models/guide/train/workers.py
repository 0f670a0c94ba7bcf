"""Processes of one thread each that share the weights: each takes the next piece of a step's work when it is free.

On a few busy cores this is twice as fast as one process with several threads, which wait for each other in every
operation. Sums of gradients are added in the order in which work ended up, so two runs agree in their data, not in
their last bits.
"""
import multiprocessing
import os
import queue
import time
from typing import Any

import torch
import torch.nn.functional as F

from mix import Batch
from model import Model
from optimizer import Optimizer


class Worker:
    def __init__(self, model: Model, optimizer: Optimizer, line: int, device: str = "cpu") -> None:
        self.model, self.optimizer, self.device = model, optimizer, device
        optimizer.adopt(line)

    def _forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        ids, wanted, targets = (torch.from_numpy(part).to(self.device) for part in (batch.ids, batch.wanted, batch.targets))
        return self.model(ids, wanted), targets

    def gradient(self, batch: Batch, scale: float) -> float:
        """Adds the gradient of scale * weighted loss; returns that loss of the answers' tokens alone."""
        logits, targets = self._forward(batch)
        losses = F.cross_entropy(logits, targets, reduction="none")
        weights = torch.from_numpy(batch.weights).to(self.device)
        ((losses * weights).sum() * scale).backward()
        return float(losses.detach()[weights == 1].sum())

    def update(self, group: int, step: int, scale: float) -> None:
        self.optimizer.update(group, step, scale)

    @torch.no_grad()
    def exact(self, batch: Batch) -> list[bool]:
        """For each example: would greedy decoding give the wanted answers token for token?"""
        logits, targets = self._forward(batch)
        right = (logits.argmax(-1) == targets).cpu().numpy() | (batch.weights < 1)
        lines = batch.wanted // batch.ids.shape[1]
        return [bool(right[lines == line].all()) for line in range(len(batch.ids))]

    def run(self, work: tuple[Any, ...]) -> Any:
        return getattr(self, work[0])(*work[1:])


def _serve(worker: Worker, tasks: Any, results: Any) -> None:
    torch.set_num_threads(1)
    parent = os.getppid()
    while True:
        try:
            item = tasks.get(timeout=20)
        except queue.Empty:
            if os.getppid() != parent:  # killed without a word to us
                return
            continue
        if item is None:
            return
        index, work = item
        begin = time.process_time()
        try:
            value = worker.run(work)
        except Exception as error:  # reported where the work came from
            results.put((index, error, 0.0))
            return
        results.put((index, value, time.process_time() - begin))


class Team:
    """Runs lists of work on all workers and returns the results in order."""

    def __init__(self, model: Model, optimizer: Optimizer, workers: int, device: str = "cpu") -> None:
        self.cpu_seconds = 0.0
        self._alone = Worker(model, optimizer, 0, device) if workers == 0 else None
        self._processes = []
        if self._alone:
            return
        context = multiprocessing.get_context("fork")
        self._tasks, self._results = context.Queue(), context.Queue()
        for line in range(workers):
            process = context.Process(target=_start, args=(model, optimizer, line, self._tasks, self._results), daemon=True)
            process.start()
            self._processes.append(process)

    def run(self, works: list[tuple[Any, ...]]) -> list[Any]:
        if self._alone:
            begin = time.process_time()
            values = [self._alone.run(work) for work in works]
            self.cpu_seconds += time.process_time() - begin
            return values
        for item in enumerate(works):
            self._tasks.put(item)
        values = [None] * len(works)
        for _ in works:
            index, values[index], seconds = self._take()
            if isinstance(values[index], Exception):
                raise values[index]
            self.cpu_seconds += seconds
        return values

    def _take(self) -> tuple[int, Any, float]:
        while True:
            try:
                return self._results.get(timeout=60)
            except queue.Empty as error:  # slow, or dead?
                if not all(process.is_alive() for process in self._processes):
                    raise RuntimeError("a worker has died") from error

    def stop(self) -> None:
        for _ in self._processes:
            self._tasks.put(None)
        for process in self._processes:
            process.join()


def _start(model: Model, optimizer: Optimizer, line: int, tasks: Any, results: Any) -> None:
    _serve(Worker(model, optimizer, line), tasks, results)
