#!/usr/bin/env python3
"""Plants the faults of tests/faults/faults.json, one after the other, in a copy of the source, and tells whether the
tests that are said to catch them do.

usage: scripts/faults.py check
       scripts/faults.py run [--only ID...] [--folder FOLDER] [--from COMMIT] [--again] [--limit SECONDS] [--jobs N]
  check            whether the list fits the source: takes a second, run as the test `faults`
  --only ID...     these faults and no others
  --folder FOLDER  the copy, what is built of it and results.csv (default build/faults); what is there is used again
  --from COMMIT    the source and tests of that commit instead of HEAD's: a fault that it has no place for is told
  --again          repeats what results.csv has
  --limit SECONDS  that each test has; a hang counts as caught (default 300)
  --jobs N         of the build (default: one for each core)
The exit status of `run` is 1 if a fault was missed or does not compile, and if a test fails without any fault.
"""
import argparse
import contextlib
import csv
import fcntl
import fnmatch
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "faults" / "faults.json"
END_SECONDS = 10  # for which an interrupted process may go on
FAULTS_LEAST = 40
PRESETS = ("release", "dev", "neon", "web")
MODULES = re.search(r"^set\(modules (.*)\)$", (ROOT / "CMakeLists.txt").read_text(), re.M)[1].split()
# Where faults must be, besides modules: each of these has at least one.
PLACES = [f"src/{module}/" for module in MODULES] + ["apps/cairn/", "web/src/"] + [
    f"src/kernels/{folder}/" for folder in ("cpu/isa/generic", "cpu/isa/avx2", "cpu/isa/avx512", "cpu/isa/neon", "cuda")]
COLUMNS = ["commit", "id", "text", "preset", "test", "filter", "outcome", "seconds"]
NO_FAULT = "-"  # the id of a test's run without any fault
CAUGHT = ("caught", "hang")
BAD = ("missed", "does not compile", "fails without it", "no such test", "is no test")


# --- the list ---

def read_list():
    return json.loads(LIST.read_text())


def known_tests():
    """The ctest names that build a program or start one, as CMake's files have them."""
    text = re.sub(r"#.*", "", (ROOT / "tests" / "CMakeLists.txt").read_text())
    names = set(re.findall(r"cairn_test\(NAME (\w+)", text))
    names.update(f"e2e_{path.name.removesuffix('.test.mjs')}" for path in (ROOT / "tests" / "e2e").glob("*.test.mjs"))
    for module in MODULES:
        if any((ROOT / "src" / module).rglob("*_test.cpp")):
            names.add(f"{module}_test")
    return names


def known_cases():
    """"Suite.Name" of every GoogleTest in the source."""
    cases = set()
    for folder in ("src", "tests"):
        for path in (ROOT / folder).rglob("*_test.cpp"):
            cases.update(f"{suite}.{name}" for suite, name in
                         re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(errors="replace"), re.M))
    return cases


def pattern_of(word):
    """A word of a filter without what a parameterised test has around its name: "Files/A.B/c" is A.B."""
    suite, _, name = word.partition(".")
    return f"{suite.split('/')[-1]}.{name.split('/')[0] or '*'}"


def problems_of(fault, tests, cases):
    for key, kind in (("id", str), ("file", str), ("old", str), ("new", str), ("why", str), ("caught_by", list)):
        if not isinstance(fault.get(key), kind) or not fault[key] and key != "new":
            yield f"{key} is missing"
            return
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fault["id"]):
        yield "its id is not in kebab-case"
    if fault["old"] == fault["new"]:
        yield "old and new are the same"
    path = ROOT / fault["file"]
    times = path.read_text().count(fault["old"]) if path.is_file() else -1
    if times < 0:
        yield f"there is no {fault['file']}"
    elif times != 1:
        yield f"{fault['file']} has the old text {times} times, not once"
    for each in fault["caught_by"]:
        if set(each) != {"preset", "test", "filter"}:
            yield "an entry of caught_by has other keys than preset, test and filter"
            continue
        preset, test = each["preset"], each["test"]
        if preset not in PRESETS:
            yield f"there is no preset {preset}"
        elif preset == "web" and (test, each["filter"]) != ("web", ""):
            yield "the preset web has one test, web, without a filter"
        elif preset == "neon" and test != "kernels_test":
            yield "the preset neon has one test, kernels_test"
        elif preset != "web" and test not in tests:
            yield f"there is no test {test}"
        elif test.startswith("e2e_") and each["filter"]:
            yield f"{test} takes no filter"
        for word in filter(None, re.split(r"[:\-]", each["filter"])):
            if not fnmatch.filter(cases, pattern_of(word)):
                yield f"no test of GoogleTest is called {word}"


def check():
    try:
        faults = read_list()
    except ValueError as error:
        print(f"tests/faults/faults.json: {error}")
        return 1
    tests, cases = known_tests(), known_cases()
    findings = [f"{fault.get('id', '?')}: {problem}" for fault in faults for problem in problems_of(fault, tests, cases)]
    ids = [fault.get("id") for fault in faults]
    findings += [f"{name}: {ids.count(name)} faults have this id" for name in sorted({i for i in ids if ids.count(i) > 1}, key=str)]
    for place in PLACES:
        if not any(str(fault.get("file", "")).startswith(place) for fault in faults):
            findings.append(f"no fault is in {place}")
    if len(faults) < FAULTS_LEAST:
        findings.append(f"there are {len(faults)} faults, at least {FAULTS_LEAST} are wanted")
    print("\n".join(findings) if findings else f"faults: {len(faults)} that fit the source")
    return 1 if findings else 0


# --- the copy of the source ---

def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def copy_source(commit, tree):
    """Makes `tree` the commit's files. Those that are right already are not written, so that little is built again; what
    an interrupted run planted is taken out."""
    wanted = set()
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))) as archive:
        for member in archive:
            path = tree / member.name
            if member.issym():
                wanted.add(member.name)
                if not path.is_symlink() or os.readlink(path) != member.linkname:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink(missing_ok=True)
                    path.symlink_to(member.linkname)
            if not member.isfile():
                continue
            wanted.add(member.name)
            data = archive.extractfile(member).read()
            if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if member.mode & 0o100 else 0o644)
    names = tree / ".names"  # of the files that the last run wrote
    before = set(names.read_text().split("\0")) if names.exists() else set()
    for name in before - wanted:
        (tree / name).unlink(missing_ok=True)
    names.write_text("\0".join(sorted(wanted)))


class Workplace:
    """The copy, and what is built of it."""

    def __init__(self, folder, commit, jobs):
        self.tree = folder / "tree"
        self.jobs = jobs
        self.log = folder / "log.txt"  # what builds and tests said
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"faults: another run has {folder}")
        self.log.write_text("")
        copy_source(commit, self.tree)
        # The data that the tests read is unpacked once for all, but for another commit's.
        same_data = len({git("ls-tree", name, "tests/data") for name in (commit, "HEAD")}) == 1
        self.data = (ROOT / "build" if same_data else folder) / "test-data"
        self.configured = set()
        self.prepared = set()

    def build_folder(self, preset):
        return self.tree / "build" / preset

    def run(self, command, limit=None, cwd=None, environment=None):
        """(exit status or None for a hang, output). An interruption ends what was started, too."""
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
        process = subprocess.Popen(command, cwd=cwd or self.tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, start_new_session=True)
        status, output = None, b""
        try:
            output, _ = process.communicate(timeout=limit)
            status = process.returncode
        except subprocess.TimeoutExpired:
            pass
        finally:
            if status is None:
                output = self.end(process)
        text = output.decode(errors="replace")
        with self.log.open("a") as log:
            log.write(text + f"\n[{'hang' if status is None else status}]\n")
        return status, text

    @staticmethod
    def end(process):
        """Ends the process and returns its output. scripts/measured.py passes the first signal on to the test's own group, which
        the second one would not reach."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=END_SECONDS)[0] or b""
        return b""

    def run_well(self, command, cwd=None):
        status, text = self.run(command, cwd=cwd)
        if status != 0:
            print("\n".join(text.splitlines()[-20:]))
            sys.exit(f"faults: {' '.join(map(str, command))} failed; {self.log} has all of it")

    def packages_of_node(self, folder):
        """node_modules of the source's folder: those of the working tree, if it has the same, else from the registry."""
        if folder in self.prepared:
            return
        own, theirs = self.tree / folder, ROOT / folder
        if not (own / "node_modules").exists():
            lock = "package-lock.json"
            if (theirs / "node_modules").is_dir() and (theirs / lock).read_bytes() == (own / lock).read_bytes():
                shutil.copytree(theirs / "node_modules", own / "node_modules", symlinks=True)
            else:
                self.run_well(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], own)
        self.prepared.add(folder)

    def configure(self, preset):
        if preset in self.configured or preset == "web":
            return
        self.run_well(["cmake", "--preset", preset, "-DCAIRN_TESTS=ON", f"-DCAIRN_TEST_DATA={self.data}"])
        self.configured.add(preset)

    def build(self, preset, test):
        """Whether what the test needs compiles."""
        if preset == "web":
            self.packages_of_node("web")
            return True
        self.configure(preset)
        if test.startswith("e2e_"):
            self.packages_of_node("tests/e2e")
        target = "cairn" if test.startswith("e2e_") else test
        status, _ = self.run(["cmake", "--build", str(self.build_folder(preset)), "--target", target, "-j", str(self.jobs)])
        return status == 0

    def registered(self, preset, test):
        """The test as ctest knows it, or its first shard, or none."""
        told = subprocess.run(["ctest", "--show-only=json-v1", "-R", f"^{test}(_1)?$"], cwd=self.build_folder(preset),
                              capture_output=True, text=True, check=True).stdout
        return next(iter(json.loads(told)["tests"]), None)

    def command_of(self, preset, test, filter_):
        """The test's command, folder and variables, as ctest has them, which knows emulators; none if there is no such
        test."""
        if preset == "web":
            return ["npm", "run", "--silent", "test"], self.tree / "web", {}
        found = self.registered(preset, test)
        if found is None or "command" not in found:  # a program that is not there has no command
            return None
        properties = {each["name"]: each["value"] for each in found.get("properties", [])}
        variables = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
        for name in ("GTEST_FILTER", "GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"):
            variables.pop(name, None)
        folder = pathlib.Path(properties.get("WORKING_DIRECTORY", self.build_folder(preset)))
        return found["command"] + ([f"--gtest_filter={filter_}"] if filter_ else []), folder, variables

    def test(self, preset, test, filter_, limit):
        """"passes", "fails", "hang", "no such test" or "is no test" (the filter leaves none)."""
        found = self.command_of(preset, test, filter_)
        if found is None:
            return "no such test"
        command, folder, variables = found
        status, text = self.run(command, limit, folder, variables)
        if status is None:
            return "hang"
        if status == 0 and filter_ and re.search(r"^\[  PASSED  \] 0 tests\.", text, re.M):
            return "is no test"
        return "passes" if status == 0 else "fails"


# --- the run ---

class Results:
    """results.csv, which a later run reads."""

    def __init__(self, folder, commit, again):
        self.path = folder / "results.csv"
        self.commit = commit
        self.known = {}
        if self.path.exists() and not again:
            with self.path.open(newline="") as file:
                for row in csv.DictReader(file):
                    if row["commit"] == commit:
                        self.known[self.key(row)] = row
        elif not self.path.exists():
            with self.path.open("w", newline="") as file:
                csv.writer(file).writerow(COLUMNS)

    @staticmethod
    def key(row):
        return tuple(row[name] for name in ("id", "text", "preset", "test", "filter"))

    def add(self, fault, each, outcome, seconds):
        row = {"commit": self.commit, "id": fault["id"] if fault else NO_FAULT, "text": text_of(fault), **each,
               "outcome": outcome, "seconds": f"{seconds:.0f}"}
        self.known[self.key(row)] = row
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)
        return row

    def find(self, fault, each):
        return self.known.get((fault["id"] if fault else NO_FAULT, text_of(fault), *(each[k] for k in ("preset", "test", "filter"))))


def text_of(fault):
    """Of what is planted: a fault that was changed in the list is planted again."""
    return hashlib.sha256(json.dumps([fault["file"], fault["old"], fault["new"]]).encode()).hexdigest()[:12] if fault else ""


def tell(row):
    where = f"{row['preset']} {row['test']}" + (f" {row['filter']}" if row["filter"] else "")
    print(f"{row['id']:<34} {row['outcome']:<17} {row['seconds']:>5} s  {where}", flush=True)


def run_without(place, results, each, limit):
    """Runs a test in the source as it is; true if it passes."""
    row = results.find(None, each)
    if row is None:
        begun = time.monotonic()
        if not place.build(each["preset"], each["test"]):
            # A commit that has no such program has no such target either.
            outcome = "does not compile" if place.registered(each["preset"], each["test"]) else "no such test"
        else:
            outcome = place.test(each["preset"], each["test"], each["filter"], limit)
        row = results.add(None, each, outcome, time.monotonic() - begun)
    if row["outcome"] != "passes":
        tell(row)
    return row["outcome"]


def run_with(place, results, fault, works, limit):
    """Plants the fault, runs its tests, takes it out. Returns the rows of the results."""
    rows = []
    path = place.tree / fault["file"]
    before = path.read_text() if path.is_file() else ""
    absent = before.count(fault["old"]) != 1
    planted = False
    try:
        for each in fault["caught_by"]:
            row = results.find(fault, each)
            if row is None:
                begun = time.monotonic()
                without = works[each["preset"], each["test"], each["filter"]]
                if absent:
                    outcome = "not there"
                elif without != "passes":
                    outcome = without if without in BAD else "fails without it"
                else:
                    if not planted:
                        path.write_text(before.replace(fault["old"], fault["new"]))
                        planted = True
                    if not place.build(each["preset"], each["test"]):
                        outcome = "does not compile"
                    else:
                        found = place.test(each["preset"], each["test"], each["filter"], fault.get("limit_s", limit))
                        outcome = {"passes": "missed", "fails": "caught"}.get(found, found)
                row = results.add(fault, each, outcome, time.monotonic() - begun)
            tell(row)
            rows.append(row)
    finally:
        if planted:
            path.write_text(before)  # with a new time, so that it is built again
    return rows


def table(rows):
    """One line for each fault: all its tests must catch it."""
    lines = ["", "| fault | file | caught by |", "|---|---|---|"]
    for fault, its in rows:
        told = ", ".join(f"{row['preset']} {row['test']}: {row['outcome']}" for row in its)
        lines.append(f"| {fault['id']} | {fault['file']} | {told} |")
    return "\n".join(lines)


def run(options):
    faults = read_list()
    unknown = set(options.only or []) - {fault["id"] for fault in faults}
    if unknown:
        sys.exit(f"faults: the list has no {', '.join(sorted(unknown))}")
    faults = [fault for fault in faults if not options.only or fault["id"] in options.only]
    commit = git("rev-parse", f"{options.commit}^{{commit}}").decode().strip()
    folder = pathlib.Path(options.folder).resolve()
    place = Workplace(folder, commit, options.jobs)
    results = Results(folder, commit, options.again)
    print(f"faults: {len(faults)} in {commit[:10]}, in {folder}", flush=True)
    # Module by module: what one fault's tests needed is there for the next.
    faults.sort(key=lambda fault: PLACES.index(next(p for p in PLACES if fault["file"].startswith(p))))

    works = {}
    for fault in faults:
        for each in fault["caught_by"]:
            key = each["preset"], each["test"], each["filter"]
            if key not in works:
                works[key] = run_without(place, results, each, options.limit)
    rows = [(fault, run_with(place, results, fault, works, options.limit)) for fault in faults]
    print(table(rows))
    outcomes = [row["outcome"] for _, its in rows for row in its]
    caught = sum(all(row["outcome"] in CAUGHT for row in its) for _, its in rows)
    absent = sum(all(row["outcome"] == "not there" for row in its) for _, its in rows)
    print(f"\nfaults: {caught} of {len(rows)} are caught" + (f", {absent} have no place in this commit" if absent else ""))
    return 1 if any(outcome in BAD for outcome in outcomes) else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=True)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    running = commands.add_parser("run")
    running.add_argument("--only", nargs="+", metavar="ID")
    running.add_argument("--folder", default=str(ROOT / "build" / "faults"))
    running.add_argument("--from", dest="commit", default="HEAD", metavar="COMMIT")
    running.add_argument("--again", action="store_true")
    running.add_argument("--limit", type=int, default=300, metavar="SECONDS")
    running.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args()
    if options.command == "check":
        return check()
    try:
        return run(options)
    except KeyboardInterrupt:
        print("\nfaults: interrupted; the same command goes on where it stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
