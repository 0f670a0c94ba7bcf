#!/usr/bin/env python3
"""Runs a real Prometheus against a server under load, asks it every query of the dashboard and of the alerts, and counts
the lines of the log.

usage: check.py CAIRN MODEL.gguf

Needs `prometheus` and `promtool` in PATH (Debian: the package prometheus). Everything is on loopback, in a temporary
folder. Prints a line for each query with the number of series that it returned; exit code 1 if a query or a rule returned
none, a rule does not evaluate, promtool finds something in /metrics, or log and metrics have other counts than were sent.
"""
import collections
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
import urllib.error
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


def load(url, end, number, counts):
    """Chats until `end`; every third asks for what is refused. Appends how many had which status."""
    turn = 0
    sent = collections.Counter()
    while time.monotonic() < end:
        turn += 1
        body = {"messages": [{"role": "user", "content": f"Hello {number} {turn % 3}"}], "max_tokens": 24}
        if turn % 3 == 0:
            body["max_tokens"] = 0
        request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer key-{number}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                reply.read()
                status = reply.status
        except urllib.error.HTTPError as error:
            status = error.code
        sent[status] += 1
    counts.append(sent)


def promtool(url):
    """What promtool has to say of /metrics, without llama-server's names: its linter refuses their colons."""
    lines = [line for line in get(f"{url}/metrics").split("\n") if "llamacpp:" not in line]
    done = subprocess.run(["promtool", "check", "metrics"], input="\n".join(lines), capture_output=True, text=True)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def counted(log, url):
    """Requests of the load by status, as the log and as the metrics have them."""
    in_log, in_metrics = collections.Counter(), collections.Counter()
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("event") == "request_out" and entry["method"] == "POST":
            in_log[entry["status"]] += 1
    for labels, value in re.findall(r'^cairn_requests_total\{(.*)\} (\d+)$', get(f"{url}/metrics"), re.MULTILINE):
        if 'protocol="openai"' in labels:
            in_metrics[int(re.search(r'status="(\d+)"', labels)[1])] += int(value)
    return in_log, in_metrics


def main():
    program, model = sys.argv[1:]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-prometheus-"))
    port, prometheus_port = free_port(), free_port()
    url, prometheus_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{prometheus_port}"
    config = (HERE / "prometheus.yml").read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("15s", "1s")
    (folder / "prometheus.yml").write_text(config)
    shutil.copy(HERE / "alerts.yml", folder)
    log = folder / "log"
    counts = []
    children = []
    try:
        children.append(subprocess.Popen([program, "serve", model, "--port", str(port), "--log-format", "json",
                                          "--speculate", "4"], stderr=log.open("w")))
        until("the server", lambda: "ready" in get(f"{url}/ready"))
        children.append(subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{prometheus_port}", "--log.level=warn"]))
        until("Prometheus", lambda: "Ready" in get(f"{prometheus_url}/-/ready"))
        end = time.monotonic() + LOAD_SECONDS
        threads = [threading.Thread(target=load, args=(url, end, number, counts)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        dashboard = json.loads((HERE / "dashboard.json").read_text())
        queries = [(target["expr"], True) for panel in dashboard["panels"] for target in panel["targets"]]
        # With the truth of its comparison as the value, a rule returns data if there is anything to compare. Statuses that
        # no request has had have no series.
        for rule in re.findall(r"expr: (.*)", (HERE / "alerts.yml").read_text()):
            queries.append((re.sub(r" (>|==) ", r" \1 bool ", rule), "status=~" not in rule))
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
        found = promtool(url)
        print(f"promtool: {found or 'nothing to mend'}")
        sent = sum(counts, collections.Counter())
        in_log, in_metrics = counted(log, url)
        print(f"requests by status: sent {dict(sent)}, in the log {dict(in_log)}, in the metrics {dict(in_metrics)}")
        same = sent == in_log and all(in_metrics[status] == count for status, count in sent.items())
        sys.exit(1 if empty or sick or found or not same or targets[0]["health"] != "up" else 0)
    finally:
        for child in reversed(children):
            child.send_signal(signal.SIGTERM)
        for child in children:
            child.wait(30)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
