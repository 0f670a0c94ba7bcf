#!/usr/bin/env python3
"""What building and testing cost, so that the dearest part is known before it is made cheaper.

usage: scripts/cost.py build FOLDER [--last]      the build's jobs, by target and by object
       scripts/cost.py headers FOLDER_OR_FILE...  headers and templates, of clang's -ftime-trace files beside the objects
       scripts/cost.py trace FOLDER [PATTERN]     the same after compiling what matches PATTERN in compile_commands.json
       scripts/cost.py tests FOLDER [--over]      each test's processor seconds and its budget (tests/budgets.txt)
       scripts/cost.py cases PROGRAM_OR_JSON      the slowest cases of a GoogleTest program
`scripts/cost.py NAME --help` has all flags. FOLDER is a build folder, e.g. build/dev.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = ROOT / 'tests' / 'budgets.txt'
# The dearest phases of clang, which its traces sum up as "Total ...".
PHASES = ('ExecuteCompiler', 'Frontend', 'Source', 'InstantiateClass', 'InstantiateFunction', 'PerformPendingInstantiations',
          'Backend', 'Optimizer', 'CodeGenPasses')
# What clang needs of g++'s flags: these, and those of two words.
FLAGS = ('-D', '-U', '-I', '-std=', '-O', '-m', '-g', '-fsanitize=')
FLAGS_OF_TWO_WORDS = ('-isystem', '-iquote', '-include')


def print_table(head, rows):
    """Numbers to the right, the last column, a name, to the left."""
    cells = [[f'{cell:,.1f}' if isinstance(cell, float) else f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in row]
             for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for row in cells:
        print('  '.join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths)), row[-1]]))


# build

def read_ninja_log(path, last):
    """(seconds, output) of every job, once where a job has several outputs; of outputs built several times the latest.
    `last`: only jobs after the clock's last restart, which is where a build began."""
    lines = path.read_text().splitlines()
    if lines[:1] not in (['# ninja log v5'], ['# ninja log v6'], ['# ninja log v7']):
        sys.exit(f'cost.py: {path} is no log of Ninja that this program reads')
    jobs, before = {}, 0
    for line in lines[1:]:
        start, end, _, output, command = line.split('\t')
        if last and int(end) < before:
            jobs.clear()
        before = int(end)
        jobs.pop(output, None)
        jobs[output] = (int(start), int(end), command)
    return [((end - start) / 1000, output) for (start, end, _), output in {job: output for output, job in jobs.items()}.items()]


def build(options):
    jobs = read_ninja_log(pathlib.Path(options.folder) / '.ninja_log', options.last)
    targets = collections.defaultdict(lambda: [0.0, 0])
    objects = []
    for seconds, output in jobs:
        match = re.search(r'CMakeFiles/([^/]+)\.dir/(.*)\.o$', output)
        target = targets[match[1] if match else '(links, archives and other steps)']
        target[0] += seconds
        target[1] += 1
        if match:
            objects.append((seconds, f'{match[1]}: {match[2]}'))
    print(f'{len(jobs)} jobs took {sum(seconds for seconds, _ in jobs):,.1f} s. These are wall seconds of each job, so they are '
          'processor seconds\nonly where no more jobs ran than there are processors, and a file out of ccache takes hardly any.\n')
    print_table(('seconds', 'jobs', 'target'), sorted(((*sums, name) for name, sums in targets.items()), reverse=True))
    print()
    print_table(('seconds', 'object'), sorted(objects, reverse=True)[:options.top])


# headers, trace

class Spans:
    """Seconds of what nests, by name: inclusive, without what is nested in it, and in how many files and how often."""

    def __init__(self):
        self.inclusive, self.exclusive, self.count = collections.Counter(), collections.Counter(), collections.Counter()
        self.files = collections.defaultdict(set)

    def add(self, file, spans):
        """`spans`: (begin, end, name) of one thread in microseconds."""
        open_ = []
        for begin, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ and open_[-1][0] <= begin:
                open_.pop()
            seconds = (end - begin) / 1e6
            if open_:
                self.exclusive[open_[-1][1]] -= seconds
            if all(name != outer for _, outer in open_):  # one that is inside itself is counted once
                self.inclusive[name] += seconds
            self.exclusive[name] += seconds
            self.count[name] += 1
            self.files[name].add(file)
            open_.append((end, name))

    def print(self, what, by, top):
        sums = self.inclusive if by == 'inclusive' else self.exclusive
        print_table(('inclusive s', 'exclusive s', 'times', 'files', what),
                    [(f'{self.inclusive[name]:.2f}', f'{self.exclusive[name]:.2f}', self.count[name], len(self.files[name]), name)
                     for name, _ in sums.most_common(top)])


def whole_path(path):
    """Without "..", and with the repository's folder where the compiler was given a path in it."""
    return os.path.normpath(ROOT / path if (ROOT / path).exists() else path)


def header_name(path):
    path = whole_path(path)
    for folder in (f'{ROOT}/src/', f'{ROOT}/', '/usr/include/x86_64-linux-gnu/', '/usr/include/', '/usr/lib/'):
        if path.startswith(folder):
            return path.removeprefix(folder)
    return path


def library_name(path):
    """What a header belongs to: a module of Cairn, or a library."""
    path = whole_path(path)
    if path.startswith(f'{ROOT}/'):
        return 'Cairn: ' + '/'.join(path.removeprefix(f'{ROOT}/').split('/')[:2])
    if '/c++/' in path:
        return 'C++ standard library'
    words = header_name(path).split('/')
    if len(words) == 1 or words[0] in ('bits', 'sys', 'asm', 'asm-generic', 'linux', 'gnu', 'llvm-19'):
        return 'C library, compiler and libraries of one header'
    return '/'.join(words[:2 if words[0] == 'boost' else 1])


def read_trace(path):
    """Headers and templates of one file, each (begin, end, name), and seconds of the phases."""
    sources, templates, phases = [], [], {}
    open_ = collections.defaultdict(list)
    for event in json.loads(path.read_bytes())['traceEvents']:
        name, kind = event['name'], event['ph']
        if name == 'Source':  # since clang 18 a pair of events
            detail = event.get('args', {}).get('detail', '')
            if kind == 'b':
                open_[event['tid']].append((event['ts'], detail))
            elif kind == 'e':
                begin, detail = open_[event['tid']].pop()
                sources.append((begin, event['ts'], detail))
            elif kind == 'X':
                sources.append((event['ts'], event['ts'] + event['dur'], detail))
        elif name in ('InstantiateClass', 'InstantiateFunction'):
            templates.append((event['ts'], event['ts'] + event['dur'], event['args']['detail'].split('<')[0]))
        elif name.startswith('Total ') and name.removeprefix('Total ') in PHASES:
            phases[name.removeprefix('Total ')] = event['dur'] / 1e6
    return sources, templates, phases


def print_traces(paths, options):
    headers, libraries, templates, phases = Spans(), Spans(), Spans(), collections.Counter()
    for path in paths:
        read, instantiated, sums = read_trace(path)
        headers.add(path, [(begin, end, header_name(name)) for begin, end, name in read])
        libraries.add(path, [(begin, end, library_name(name)) for begin, end, name in read])
        templates.add(path, instantiated)
        phases.update(sums)
    print(f'Files: {len(paths)}. Wall seconds of clang; inclusive is with what is included or instantiated inside.\n')
    print_table(('seconds', 'phase'), [(f'{phases[name]:.2f}', name) for name in PHASES])
    for what, spans in (('library', libraries), ('header', headers), ('template, class and function', templates)):
        print()
        spans.print(what, options.by, options.top)


def trace_files(paths):
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            yield from (file for file in sorted(path.rglob('*.json')) if file.with_suffix('.o').exists())
        else:
            yield path


def headers(options):
    paths = list(trace_files(options.paths))
    if not paths:
        sys.exit('cost.py: no trace found: compile with clang++ -ftime-trace, or use `cost.py trace`')
    print_traces(paths, options)


def clang_command(entry, output, syntax_only):
    """An entry of compile_commands.json for clang, with what it needs of the flags."""
    words = shlex.split(entry['command'])
    command = ['clang++-19', '-Wno-everything', '-ffp-contract=off', '-ftime-trace', '-ftime-trace-granularity=100']
    for i, word in enumerate(words):
        if word in FLAGS_OF_TWO_WORDS:
            command += words[i:i + 2]
        elif word.startswith(FLAGS) and i > 0 and words[i - 1] not in FLAGS_OF_TWO_WORDS:
            command.append(word)
    return [*command, *(['-Xclang', '-fsyntax-only'] if syntax_only else []), '-c', entry['file'], '-o', output]


def trace(options):
    entries = json.loads((pathlib.Path(options.folder) / 'compile_commands.json').read_text())
    entries = [entry for entry in entries if re.search(options.pattern, os.path.relpath(entry['file'], ROOT))]
    if not entries:
        sys.exit(f'cost.py: no source of {options.folder} matches {options.pattern}')
    with tempfile.TemporaryDirectory() as folder:
        def compile_(job):
            number, entry = job
            output = f'{folder}/{number}-{os.path.basename(entry["file"])}.o'
            done = subprocess.run(clang_command(entry, output, options.syntax_only), cwd=entry['directory'], capture_output=True, text=True)
            if done.returncode != 0:
                print(f'cost.py: clang does not compile {entry["file"]}, which is left out:\n{done.stderr[:2000]}', file=sys.stderr)
                return None
            return pathlib.Path(output).with_suffix('.json')

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            paths = [path for path in pool.map(compile_, enumerate(entries)) if path and path.exists()]
        print_traces(paths, options)


# tests

def read_budgets(column):
    """Processor seconds of each suite in `release` or `dev`, None where such a build has it not; of `default` those of a
    suite without a line."""
    budgets, before = {}, ''
    for number, line in enumerate(BUDGETS.read_text().splitlines(), 1):
        words = line.partition('#')[0].split()
        if not words:
            continue
        if len(words) != 3 or not all(re.fullmatch(r'\d+|-', word) for word in words[1:]):
            sys.exit(f'cost.py: {BUDGETS}:{number}: a line is a suite, its seconds in release and its seconds in dev (- if not there)')
        if words[0] <= before:
            sys.exit(f'cost.py: {BUDGETS}:{number}: {words[0]} is not in the alphabet\'s order, or there twice')
        before = words[0]
        word = words[1 if column == 'release' else 2]
        budgets[before] = None if word == '-' else int(word)
    return budgets


def build_column(folder):
    cache = (folder / 'CMakeCache.txt').read_text()
    return 'dev' if re.search(r'^CAIRN_SANITIZE:\w+=.', cache, re.M) else 'release'


def suites_of(folder):
    done = subprocess.run(['ctest', '--test-dir', folder, '--show-only=json-v1'], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'cost.py: ctest lists no tests of {folder}: {done.stderr}')
    return [test['name'] for test in json.loads(done.stdout)['tests']]


def sum_of_shards(runs):
    """The runs of a suite's shards, SUITE_1 and so on, as one of the suite."""
    suites = {}
    for test, run in runs.items():
        name = re.sub(r'_\d+$', '', test)
        other = suites.get(name)
        suites[name] = run if not other else {
            key: max(run[key], other[key]) if key == 'peak_rss_kib' else run[key] or other[key] if key == 'status' else run[key] + other[key]
            for key in ('user', 'system', 'wall', 'peak_rss_kib', 'status')}
    return suites


def wrong_lines(budgets, suites):
    """What the table of budgets says of suites that are not as it says. Only builds with the emulated GPU have every suite."""
    if 'gpu_emulated_test_1' not in suites:
        return []
    suites = {re.sub(r'_\d+$', '', name) for name in suites}
    return ([f'{name} has a budget, but there is no such suite' for name, seconds in budgets.items()
             if seconds is not None and name not in suites and name != 'default'] +
            [f'{name} has no seconds (-), but there is such a suite' for name, seconds in budgets.items()
             if seconds is None and name in suites])


def tests(options):
    folder = pathlib.Path(options.folder)
    column, suites = build_column(folder), suites_of(folder)
    budgets = read_budgets(column)
    measured = {}
    for name in suites:
        path = folder / 'test-cost' / f'{name}.json'
        if path.exists() and path.stat().st_mtime >= options.since:
            measured[name] = json.loads(path.read_text())
    missing = [name for name in suites if name not in measured]
    measured = sum_of_shards(measured)
    rows, over, total = [], 0, 0.0
    for name, run in measured.items():
        seconds, budget = run['user'] + run['system'], budgets.get(name) or budgets['default']
        total += seconds
        over += seconds > budget
        if seconds > budget or not options.over:
            notes = (' (over)' if seconds > budget and not options.over else '') + (f' (status {run["status"]})' if run['status'] else '')
            rows.append((seconds, budget, run['wall'], run['peak_rss_kib'] // 1024, name + notes))
    sums = f'{len(measured)} suite{"s" if len(measured) != 1 else ""} took {total:,.0f} processor seconds ({column})'
    if not measured:
        print('no suite has been measured; ctest measures those that it runs')
    else:
        print(f'{sums}. Over their budgets ({BUDGETS.relative_to(ROOT)}): {over}.' if over else f'{sums}, each within its budget.')
    if rows:
        print_table(('processor s', 'budget s', 'wall s', 'peak MiB', 'suite'), sorted(rows, reverse=True))
    if missing and not options.over:
        print(f'not measured: {" ".join(missing)}')
    wrong = wrong_lines(budgets, set(suites))
    for text in wrong:
        print(f'{BUDGETS.relative_to(ROOT)}: {text}')
    return 1 if wrong else 0


# cases

def run_cases(program, filter_):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'cases.json'
        done = subprocess.run([os.path.abspath(program), f'--gtest_output=json:{path}', '--gtest_brief=1', f'--gtest_filter={filter_}'],
                              stdout=sys.stderr)
        if not path.exists():
            sys.exit(f'cost.py: {program} wrote no results (status {done.returncode}): is it a GoogleTest program?')
        return json.loads(path.read_text())


def cases(options):
    given_json = options.program.endswith('.json')
    result = json.loads(pathlib.Path(options.program).read_text()) if given_json else run_cases(options.program, options.filter)
    seconds = {f'{suite["name"]}.{case["name"]}': float(case['time'].removesuffix('s'))
               for suite in result['testsuites'] for case in suite['testsuite']}
    total = sum(seconds.values())
    print(f'{len(seconds)} cases took {total:,.1f} wall seconds.\n')
    suites = collections.Counter()
    for name, time in seconds.items():
        suites[name.split('.')[0]] += time
    for what, sums in (('suite', suites), ('case', collections.Counter(seconds))):
        print_table(('seconds', 'of all', what), [(f'{time:.2f}', f'{100 * time / max(total, 1e-9):.0f} %', name)
                                                   for name, time in sums.most_common(options.top)])
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar='NAME')

    def command(function, *arguments, **last):
        made = commands.add_parser(function.__name__)
        made.set_defaults(function=function)
        made.add_argument(*arguments, **last)
        return made

    made = command(build, 'folder')
    made.add_argument('--last', action='store_true', help='only the last build of the log, as far as Ninja has not rewritten it')
    made.add_argument('--top', type=int, default=30, help='how many objects (default 30)')
    for function in (headers, trace):
        if function is headers:
            made = command(function, 'paths', nargs='+', metavar='FOLDER_OR_FILE')
        else:
            made = command(function, 'folder')
            made.add_argument('pattern', nargs='?', default='', help='a regular expression of paths in the repository')
            made.add_argument('--syntax-only', action='store_true', help='without generating code')
            made.add_argument('--jobs', type=int, default=os.cpu_count(), help='how many at once (default: one for each processor)')
        made.add_argument('--by', choices=('inclusive', 'exclusive'), default='inclusive', help='the order (default inclusive)')
        made.add_argument('--top', type=int, default=30, help='how many headers, and how many templates (default 30)')
    made = command(tests, 'folder')
    made.add_argument('--over', action='store_true', help='only those over their budget, one line if there are none')
    made.add_argument('--since', type=float, default=0, metavar='TIME', help='only what ended since then (as `date +%%s` prints it)')
    made = command(cases, 'program', metavar='PROGRAM_OR_JSON')
    made.add_argument('--filter', default='*', help='as of --gtest_filter')
    made.add_argument('--top', type=int, default=30, help='how many cases (default 30)')
    options = parser.parse_args()
    return options.function(options)


if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends the program without a word
    sys.exit(main())
