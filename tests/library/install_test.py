"""Installs libcairn from a build, and builds and runs the examples against what was installed, in the three ways that
programs have: the compiler alone, pkg-config, and CMake's find_package. Also checks what the library exports.

usage: install_test.py BUILD SOURCE
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

build, source = (Path(each).resolve() for each in sys.argv[1:3])
guide = source / "models" / "guide" / "guide.gguf"


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_exports(library):
    """The library exports the names of its header, at its version, and nothing else."""
    header = (source / "include" / "cairn.h").read_text()
    declared = set(re.findall(r"^CAIRN_API [\w *]*?\b(cairn_\w+)\(", header, re.MULTILINE))
    lines = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    exported = {words[-1] for words in lines if words[1] != "A"}
    wanted = {f"{name}@@CAIRN_0" for name in declared}
    if len(declared) < 20 or exported != wanted:
        sys.exit(f"exported and not declared: {sorted(exported - wanted)}; declared and not exported: {sorted(wanted - exported)}")


with tempfile.TemporaryDirectory() as folder:
    prefix = Path(folder) / "installed"
    run("cmake", "--install", build, "--component", "library", "--prefix", prefix)
    # From here on nothing but the installed files is used; and they may be moved.
    prefix = prefix.rename(Path(folder) / "moved")
    [pc] = prefix.rglob("cairn.pc")
    libraries = pc.parent.parent
    check_exports(libraries / "libcairn.so")
    examples = source / "examples" / "library"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(libraries)}
    version = run("pkg-config", "--modversion", "cairn", env=environment).strip()
    if version != (source / "VERSION").read_text().strip():
        sys.exit(f"cairn.pc says {version}")
    flags = run("pkg-config", "--cflags", "--libs", "cairn", env=environment).split()
    run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", examples / "chat.c", *flags, "-o", f"{folder}/chat")
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", examples / "many.cpp", *flags, "-pthread", "-o", f"{folder}/many")
    run("cmake", "-S", examples, "-B", f"{folder}/build", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", f"{folder}/build")
    answers = set()
    for program in (f"{folder}/chat", f"{folder}/build/chat"):
        answers.add(run(program, guide, "Who are you?", env=environment))
    [answer] = answers  # the same from both
    if "Cairn" not in answer or "[stop]" not in answer:
        sys.exit(f"an odd answer: {answer}")
    for program in (f"{folder}/many", f"{folder}/build/many"):
        lines = run(program, guide, "Who are you?", "What is Cairn?", env=environment).splitlines()
        if len(lines) != 4 or lines[0] != "Who are you?" or lines[2] != "What is Cairn?" or "Cairn" not in lines[1]:
            sys.exit(f"odd answers: {lines}")
    request = '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}'
    body = run(f"{folder}/build/request", guide, "chat", input=request, env=environment)
    if '"object":"chat.completion"' not in body:
        sys.exit(f"an odd body: {body}")
print("installed, linked and run")
