#!/usr/bin/env python3
"""Runs a command and writes what it took into FOLDER/NAME.json: processor seconds (with every descendant that has ended),
wall seconds, peak memory of the largest process, and its status. Every test of ctest runs in it (cairn_add_test);
`scripts/cost.py tests` reads the files. A command that is killed together with this program leaves no file.

usage: python3 -I -S scripts/measured.py NAME FOLDER -- COMMAND...
"""
import ctypes
import json
import os
import resource
import signal
import sys
import time

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PR_SET_CHILD_SUBREAPER = 36


def spawn(command):
    """The command in a process group of its own, which signals to this process then go to."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    try:
        child = os.posix_spawnp(command[0], command, os.environ, setpgroup=0, setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGXFSZ))
    except OSError as error:
        sys.exit(f'measured.py: {command[0]}: {error.strerror}')

    def forward(number, _):
        try:
            os.killpg(child, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    return child


def wait(child):
    """The command's status. Descendants whose parents end first come to this process, so that their time counts too."""
    status = None
    while True:
        try:
            ended, code = os.waitpid(-1, 0 if status is None else os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:  # some go on; nobody waits for them
            return status
        if ended == child:
            status = os.waitstatus_to_exitcode(code)


def main():
    if len(sys.argv) < 5 or sys.argv[3] != '--':
        sys.exit(__doc__)
    name, folder, command = sys.argv[1], sys.argv[2], sys.argv[4:]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f'{name}.json')
    if os.path.exists(path):
        os.remove(path)  # of an earlier run, which would be taken for this one's if this one is killed
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()  # before: of what started this program
    status = wait(spawn(command))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(f'{path}.{os.getpid()}', 'w') as file:
        json.dump({'name': name, 'user': round(used.ru_utime - before.ru_utime, 3),
                   'system': round(used.ru_stime - before.ru_stime, 3),
                   'wall': round(time.monotonic() - started, 3), 'peak_rss_kib': used.ru_maxrss, 'status': status}, file)
    os.replace(f'{path}.{os.getpid()}', path)
    if status < 0:
        print(f'measured.py: {name} was ended by {signal.Signals(-status).name}', file=sys.stderr)
    return status if status >= 0 else 128 - status


if __name__ == '__main__':
    sys.exit(main())
