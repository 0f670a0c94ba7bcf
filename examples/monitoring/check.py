#!/usr/bin/env python3
"""Runs a real Prometheus against a server under load, and asks it every query of the dashboard and of the alerts.

usage: check.py CAIRN MODEL.gguf

Needs `prometheus` in PATH (Debian: the package of that name). Everything is on loopback, in a temporary folder. Prints a
line for each query with the number of series that it returned; exit code 1 if a query of the dashboard returned none or
a rule does not evaluate.
"""
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent
LOAD_SECONDS = 25
CLIENTS = 8


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, timeout=5):
    with urllib.request.urlopen(url, timeout=timeout) as reply:
        return reply.read().decode()


def until(what, done, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if done():
                return
        except OSError:
            pass
        time.sleep(0.2)
    sys.exit(f"{what}: not within {seconds} s")


def load(url, end, number):
    """Chats until `end`; every third asks for what is refused."""
    turn = 0
    while time.monotonic() < end:
        turn += 1
        body = {"messages": [{"role": "user", "content": f"Hello {number} {turn % 3}"}], "max_tokens": 24}
        if turn % 3 == 0:
            body["max_tokens"] = 0
        request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer key-{number}"})
        try:
            urllib.request.urlopen(request, timeout=30).read()
        except OSError:
            pass


def main():
    program, model = sys.argv[1:]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-prometheus-"))
    port, prometheus_port = free_port(), free_port()
    url, prometheus_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{prometheus_port}"
    config = (HERE / "prometheus.yml").read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("15s", "1s")
    (folder / "prometheus.yml").write_text(config)
    shutil.copy(HERE / "alerts.yml", folder)
    children = []
    try:
        children.append(subprocess.Popen([program, "serve", model, "--port", str(port), "--log-level", "error",
                                          "--speculate", "4"]))
        until("the server", lambda: "ready" in get(f"{url}/ready"))
        children.append(subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{prometheus_port}", "--log.level=warn"]))
        until("Prometheus", lambda: "Ready" in get(f"{prometheus_url}/-/ready"))
        end = time.monotonic() + LOAD_SECONDS
        threads = [threading.Thread(target=load, args=(url, end, number)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        dashboard = json.loads((HERE / "dashboard.json").read_text())
        queries = [(target["expr"], True) for panel in dashboard["panels"] for target in panel["targets"]]
        queries += [(expr, False) for expr in re.findall(r"expr: (.*)", (HERE / "alerts.yml").read_text())]
        empty = 0
        for query, must_have in queries:
            text = query.replace("$__rate_interval", "20s").replace("$model", ".*")
            answer = json.loads(get(f"{prometheus_url}/api/v1/query?" + urllib.parse.urlencode({"query": text})))
            series = len(answer["data"]["result"])
            missing = must_have and series == 0
            empty += missing
            print(f"{'EMPTY' if missing else 'ok   '} {series:3} {query}")
        targets = json.loads(get(f"{prometheus_url}/api/v1/targets"))["data"]["activeTargets"]
        print(f"target {targets[0]['health']}, last scrape took {targets[0]['lastScrapeDuration'] * 1e3:.1f} ms")
        rules = json.loads(get(f"{prometheus_url}/api/v1/rules"))["data"]["groups"][0]["rules"]
        sick = [rule["name"] for rule in rules if rule["health"] == "err"]
        print(f"{len(queries)} queries, {empty} without data; {len(rules)} rules, {len(sick)} with errors {sick}")
        sys.exit(1 if empty or sick or targets[0]["health"] != "up" else 0)
    finally:
        for child in reversed(children):
            child.send_signal(signal.SIGTERM)
        for child in children:
            child.wait(30)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
