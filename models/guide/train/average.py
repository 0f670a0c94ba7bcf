#!/usr/bin/env python3
"""Makes a model whose weights are the mean of several checkpoints of one training.

usage: average.py OUT.pt A.pt B.pt ...

What a step learns last goes to and fro between the skills; the mean of two such ends keeps most of both.
"""
import pathlib
import sys

import torch


def main() -> None:
    out, *paths = map(pathlib.Path, sys.argv[1:])
    states = [torch.load(path, map_location="cpu") for path in paths]
    first = states[0]
    if any(state["shape"] != first["shape"] for state in states):
        sys.exit("average.py: the checkpoints are of networks of different shapes")
    first["model"] = {name: sum(state["model"][name] for state in states) / len(states) for name in first["model"]}
    first["step"] = max(state["step"] for state in states)
    torch.save(first, out)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main()
