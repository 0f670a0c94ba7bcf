"""Runs a program in a terminal of its own, for tests: standard input is what is typed, standard output what is seen.

usage: pty_host.py COLUMNS ROWS PROGRAM ARGUMENTS...

Descriptor 3 takes lines: "size COLUMNS ROWS" changes the size of the terminal, "signal NUMBER" sends the program a
signal. When the program has ended, a line of JSON on standard error says how, and whether the terminal edits lines and
echoes again, as it did at the start.
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios


def set_size(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))


def write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data):]


def main():
    columns, rows, program = sys.argv[1], sys.argv[2], sys.argv[3:]
    terminal, inside = pty.openpty()
    set_size(terminal, columns, rows)
    child = os.fork()
    if child == 0:
        os.setsid()
        fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
        for descriptor in (0, 1, 2):
            os.dup2(inside, descriptor)
        os.close(3)
        os.execvp(program[0], program)
    sources = [0, 3, terminal]
    ended = None
    while True:
        ready = select.select(sources, [], [], 0.02 if ended is None else 0.2)[0]
        if terminal in ready:
            write_all(1, os.read(terminal, 65536))
        elif ended is not None:
            break  # nothing is left to be seen
        if 0 in ready:
            data = os.read(0, 65536)
            if data:
                write_all(terminal, data)
            else:
                sources.remove(0)
        if 3 in ready:
            commands = os.read(3, 4096).decode().splitlines()
            if not commands:
                sources.remove(3)
            for words in map(str.split, commands):
                if words[0] == "size":
                    set_size(terminal, words[1], words[2])
                elif words[0] == "signal":
                    os.kill(child, int(words[1]))
        if ended is None:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                ended = os.waitstatus_to_exitcode(status)
    flags = termios.tcgetattr(inside)[3]
    print(json.dumps({"code": ended, "edits": bool(flags & termios.ICANON), "echoes": bool(flags & termios.ECHO)}), file=sys.stderr)


main()
