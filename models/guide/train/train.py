#!/usr/bin/env python3
"""Trains the guide from nothing, or goes on from the last checkpoint in FOLDER.

usage: train.py FOLDER [--steps N] [--decay N] ...

The learning rate is constant after a short warm-up and falls to nothing over the last fifth of --steps. Stop it at any
time; `--decay N` instead lets the rate fall over the next N steps from the last checkpoint, so that any stopping point
becomes a finished model. FOLDER gets tokenizer.json, last.pt, decay.pt while the rate falls, final.pt and train.csv.

A finished model learns on in a new FOLDER with its tokenizer.json and a copy of its final.pt as last.pt, best at a lower
rate: `--decay N --peak 0.4`.
"""
import argparse
import csv
import dataclasses
import os
import pathlib
import random
import sys
import time

import cores  # noqa: F401  before torch
import torch

import mix
import tokenizer as bpe
from chat import render
from model import Model, Shape
from optimizer import Optimizer
from words import HELD
from workers import Team

TOKENIZER_CONVERSATIONS = 30_000
WARM_UP = 40
DECAY_SHARE = 0.2


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3500, help="of a whole training (default %(default)s)")
    parser.add_argument("--decay", type=int, metavar="N", help="finish from the last checkpoint in N steps")
    parser.add_argument("--peak", type=float, default=1.0, metavar="SHARE", help="of the full rate, where --decay begins")
    parser.add_argument("--stop-at", type=int, metavar="STEP", help="leave after this step, with a checkpoint")
    parser.add_argument("--rows", type=int, default=1536, help="tokens of one piece of work (default %(default)s)")
    parser.add_argument("--pieces", type=int, default=6, help="pieces of one step (default %(default)s)")
    parser.add_argument("--shard", type=int, default=1500, help="conversations made at a time (default %(default)s)")
    parser.add_argument("--workers", type=int, help="processes (default: one per core; 0: in this one)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--evaluate-every", type=int, default=250, metavar="STEPS")
    parser.add_argument("--evaluate-count", type=int, default=40, metavar="N", help="held-out conversations of each skill")
    parser.add_argument("--skills", help="only these, with commas: for trials")
    for field in dataclasses.fields(Shape):
        if field.type in ("int", int):
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)
    return parser.parse_args()


def get_tokenizer(folder: pathlib.Path, seed: int, size: int, count: int) -> bpe.Tokenizer:
    path = folder / "tokenizer.json"
    if not path.exists():
        rng = random.Random(f"{seed}:tokenizer")
        texts = [render(mix.conversation(rng)) for _ in range(count)]
        bpe.Tokenizer(bpe.train(texts, size), size).save(path)
    return bpe.Tokenizer.load(path)


def save(path: pathlib.Path, state: dict) -> None:
    """Whole or not at all."""
    scratch = path.with_suffix(".new")
    torch.save(state, scratch)
    scratch.replace(path)


class Training:
    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        chosen.folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(chosen.seed)
        torch.set_num_threads(1)
        state = self._stored()
        names = [field.name for field in dataclasses.fields(Shape)]
        shape = Shape(**(state["shape"] if state else {name: getattr(chosen, name) for name in names if hasattr(chosen, name)}))
        count = TOKENIZER_CONVERSATIONS if chosen.shard >= 1000 else 2000
        self.tokenizer = get_tokenizer(chosen.folder, chosen.seed, shape.vocabulary, count)
        self.model = Model(shape).to(chosen.device)
        workers = 0 if chosen.device != "cpu" else len(os.sched_getaffinity(0)) if chosen.workers is None else chosen.workers
        if workers:
            self.model.share_memory()
        self.optimizer = Optimizer(self.model, max(workers, 1))
        self.step = self.shard = self.begin = self.tokens = 0
        self.spent = 0.0  # CPU seconds before this run
        if state:
            self.model.load_state_dict(state["model"])
            self.optimizer.load(state["optimizer"])
            self.step, self.shard, self.begin = state["step"], state["shard"], state["begin"]
            self.tokens, self.spent = state["tokens"], state["cpu_seconds"]
        # Of this run, or of the fall of the rate that it goes on with.
        begun = state["decay_from"] if state and chosen.decay else None
        self.first_step = self.step if begun is None else begun
        self.batches: list[mix.Batch] = []
        self.team = Team(self.model, self.optimizer, workers, chosen.device)

    def _stored(self) -> dict | None:
        last, falling = (torch.load(path, map_location="cpu") if path.exists() else None
                         for path in (self.chosen.folder / name for name in ("last.pt", "decay.pt")))
        if last is not None:
            last["decay_from"] = None  # a copied final.pt has one
        if not self.chosen.decay or falling is None:
            return last
        if last is not None and last["step"] != falling["decay_from"]:
            print(f"decay.pt fell from step {falling['decay_from']}, but last.pt is at {last['step']}: falling anew from there")
            return last
        gone = falling["step"] - falling["decay_from"]
        if gone > self.chosen.decay:
            sys.exit(f"train.py: the rate has been falling for {gone} steps already: give --decay at least so many, or remove decay.pt")
        return falling

    def rate(self) -> float:
        """The schedule's part of the learning rate at this step."""
        if self.chosen.decay:
            return self.chosen.peak * (1 - (self.step - self.first_step) / self.chosen.decay)
        left = (self.chosen.steps - self.step) / (self.chosen.steps * DECAY_SHARE)
        return min(1.0, (self.step + 1) / WARM_UP, left)

    def last_step(self) -> int:
        end = self.first_step + self.chosen.decay if self.chosen.decay else self.chosen.steps
        return min(end, self.chosen.stop_at or end)

    def _load_shard(self) -> None:
        found = mix.examples(self.tokenizer, self.chosen.seed, self.shard, self.chosen.shard)
        self.batches = mix.batches(found, self.chosen.rows, random.Random(f"{self.chosen.seed}:order:{self.shard}"))

    def _next_batches(self) -> list[mix.Batch]:
        """Pieces of one step. `begin` counts within the shard, so that a resumed run reads on where it stopped."""
        taken: list[mix.Batch] = []
        while len(taken) < self.chosen.pieces:
            if not self.batches:
                self._load_shard()
            if self.begin >= len(self.batches):
                self.shard, self.begin, self.batches = self.shard + 1, 0, []
                continue
            taken.append(self.batches[self.begin])
            self.begin += 1
        return taken

    def do_step(self) -> float:
        """Returns the loss per token of the answers."""
        pieces = self._next_batches()
        scale = 1 / sum(float(piece.weights.sum()) for piece in pieces)
        losses = self.team.run([("gradient", piece, scale) for piece in pieces])
        rate = self.rate()
        self.team.run([("update", group, self.step + 1, rate) for group in range(len(self.optimizer))])
        self.step += 1
        self.tokens += sum(piece.ids.size for piece in pieces)
        return sum(losses) / sum(int((piece.weights == 1).sum()) for piece in pieces)

    def evaluate(self) -> dict[str, float]:
        """Share of held-out conversations of each skill whose answers greedy decoding gives token for token."""
        found: dict[str, float] = {}
        for skill, (make, *_) in mix.SHARES.items():
            rng = random.Random(f"evaluate:{skill}")
            examples = [mix.encode(self.tokenizer, make(rng, HELD), rng) for _ in range(self.chosen.evaluate_count)]
            exact = self.team.run([("exact", piece) for piece in mix.batches(examples, self.chosen.rows, rng)])
            found[skill] = sum(map(sum, exact)) / len(examples)
        return found

    def checkpoint(self, name: str) -> None:
        save(self.chosen.folder / name, {
            "shape": dataclasses.asdict(self.model.shape), "model": self.model.state_dict(), "optimizer": self.optimizer.state(),
            "step": self.step, "decay_from": self.first_step if self.chosen.decay else None, "shard": self.shard, "begin": self.begin, "tokens": self.tokens,
            "cpu_seconds": self.spent + self.team.cpu_seconds})

    def run(self) -> None:
        wall, tokens = time.time(), self.tokens
        print(f"{self.model.parameters_count()} parameters; from step {self.step} to {self.last_step()}", flush=True)
        while self.step < self.last_step():
            rate, loss = self.rate(), self.do_step()
            if self.step % 10 == 0 or self.step == self.last_step():
                speed = (self.tokens - tokens) / (time.time() - wall)
                cpu = self.spent + self.team.cpu_seconds
                print(f"step {self.step} loss {loss:.3f} rate {rate:.2f} tokens {self.tokens} {speed:.0f}/s cpu {cpu:.0f} s", flush=True)
                with (self.chosen.folder / "train.csv").open("a") as out:
                    csv.writer(out).writerow([self.step, f"{loss:.4f}", f"{rate:.3f}", self.tokens, f"{cpu:.0f}"])
            if self.step % self.chosen.checkpoint_every == 0:
                self.checkpoint("decay.pt" if self.chosen.decay else "last.pt")
            if self.step % self.chosen.evaluate_every == 0:
                self.report()
        whole = self.step == (self.first_step + self.chosen.decay if self.chosen.decay else self.chosen.steps)
        if not self.chosen.decay:
            self.checkpoint("last.pt")
        if whole:
            self.checkpoint("final.pt")
            (self.chosen.folder / "decay.pt").unlink(missing_ok=True)
        self.report()
        self.team.stop()

    def report(self) -> None:
        shares = self.evaluate()
        print(f"step {self.step} held-out, exact: " + ", ".join(f"{skill} {share:.2f}" for skill, share in shares.items()), flush=True)


def main() -> None:
    chosen = options()
    if chosen.skills:
        keep = chosen.skills.split(",")
        for skill in [name for name in mix.SHARES if name not in keep]:
            del mix.SHARES[skill]
        mix.SEVERAL_SHARE = 0.0
    Training(chosen).run()


if __name__ == "__main__":
    sys.exit(main())
