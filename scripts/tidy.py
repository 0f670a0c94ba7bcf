#!/usr/bin/env python3
"""House rules that a compiler does not check. Run as the test `tidy`; prints one line per finding.

usage: scripts/tidy.py [--build FOLDER] [--no-headers] [--clang-tidy] [--cuda FOLDER]
  --build FOLDER  where stub files for the header check go (default build/tidy)
  --no-headers    leave out compiling each header alone (the slow part)
  --clang-tidy    also run clang-tidy-19 over every source file, with FOLDER's compile_commands.json (minutes)
  --cuda FOLDER   the CUDA toolkit's headers: files that need them are compiled too
"""
import argparse
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# design: edges only go down. A module may name in DEPS only modules of a lower layer.
# Modules, lower floors first: a module may include those before it that its CMakeLists.txt names.
MODULES = re.search(r"^set\(modules (.*)\)$", (ROOT / "CMakeLists.txt").read_text(), re.M)[1].split()
HEADER_LINES_MAX = 400
SOURCE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80
TEST_FUNCTION_LINES_MAX = 160
TABLE_MARK = "// tidy: table"  # on the first lines of a file that is one big table of a format
# Folder of an instruction set -> its machine and flags.
ISA_FLAGS = {
    name: ("aarch64" if name == "neon" else "x86_64", flags.split())
    for name, flags in re.findall(r"^set\(CAIRN_ISA_FLAGS_(\w+) (.*)\)$",
                                  (ROOT / "src" / "kernels" / "cpu" / "isa" / "flags.cmake").read_text(), re.M)
}
# Folders of src/api that are protocols: each knows itself and what is shared, and only these files know several.
PROTOCOLS = {"openai", "anthropic", "ollama", "llama_cpp", "responses", "frames"}
KNOW_PROTOCOLS = {"routes.cpp", "model_endpoints.cpp", "field_table_test.cpp", "control_tokens_test.cpp"}
# Rooms of a module (entries of its folder, without tests) that include each other, as pairs. The numbers only fall.
ROOM_PAIRS_MAX = {"base": 1, "cache": 1, "gguf": 2, "grammar": 3, "hub": 1, "jinja": 5, "kernels/cpu": 5, "kernels/cuda": 5, "net": 1, "synth": 1, "tokenizer": 1}
# A comment on lines of its own is a sentence with a subject; one that begins so is none.
FRAGMENT = re.compile(r"(?:As|Before|Behind|By|Of|So|That|Those)\b")
FRAGMENTS_MAX = 0  # none is left
ISA_INCLUDES = re.compile(r'^(immintrin\.h|arm_neon\.h|cstddef|cstdint|cstring|quant/blocks\.h|kernels/cpu/.*\.h)$')
CUDA_FOLDER = ROOT / "src" / "kernels" / "cuda"
# Folders whose headers are compiled alone and whose sources clang-tidy reads.
BUILT = ("src", "apps", "tests/emulation")
BANNED = [
    (re.compile(r"-ffast-math|-march=native"), "breaks the same-bytes promise or the portable build"),
    (re.compile(r"/(?:work|root|home/\w+)/"), "a machine's path"),
    (re.compile(r"\.\./shared\b"), "outside the repository, which stands alone: reference data is in tests/data"),
    (re.compile(r"\.to(?:Sorted|Reversed|Spliced)\("), "Debian's Node.js 18 has it not"),
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b"), "finish it or leave it out"),
]
STANDARD_OUTPUT = re.compile(r"\bstd::(?:cout|printf|puts|putchar)\b|\bstdout\b|\bfmt::print\((?!stderr)")
# Words that the field's terms have replaced (docs/glossary.md), as identifiers.
RETIRED = {
    "Draw": "SampleRequest", "Drawn": "SampleResult", "RowDraws": "SampleBatch", "GreedyRows": "ArgmaxSampler", "DrawOperations": "SamplerOperations",
    "likeliest": "most likely", "guess": "draft", "guesses": "drafts", "guessed": "drafted", "predictor": "mtp_file", "BlockDrafter": "MtpDrafter",
    "DraftControl": "DraftLengthController", "PrefixIndex": "PrefixCache", "Steering": "DecodingConstraint",
    "description_": "config_", "binder": "loader", "MemoryWishes": "MemoryRequest", "DeviceWishes": "DeviceRequest", "LatentOperations": "MlaOperations",
    "EmbedWish": "EmbeddingOptions", "running_max": "sequences_max", "logit_rows_max": "logits_max", "chunk_rows_max": "prefill_chunk_max",
    "CoreCounters": "EngineCounters", "PutBack": "PreemptReason", "UntoldChannels": "UnnotifiedChannels",
    "CAIRN_EVERYWHERE": "CAIRN_HOST_DEVICE", "SlicePlaces": "BatchMetadata", "RowPlace": "TokenPlace", "ArgumentRing": "StagingRing",
    "lies_in_panels": "has_panels", "lay_out_panels": "pack_panels", "RowAttention": "MlaAttention", "RowChooser": "IndexerTopK",
    "choose_rows": "select_topk", "StreamOperations": "HyperConnectionOperations", "WorkSizes": "WorkspaceSizes",
    "reserve_bytes": "workspace_bytes", "copy_format": "packed_format_id", "combine_experts": "moe_combine",
    "matmul_experts": "grouped_matmul", "DecoderDescription": "DecoderConfig", "ModelDescription": "ModelConfig",
    "EncoderDescription": "EncoderConfig", "RowPool": "PoolingAccumulator", "NodePages": "PrefixCacheStore",
    "AnswerWriter": "ResponseSerializer", "ChatWriter": "ChatSerializer", "ChatAnswer": "ChatOutput", "ChatReading": "OutputContext",
    "OpenAiChat": "OpenAiChatSerializer", "MessagesAnswer": "MessagesSerializer", "OllamaAnswer": "OllamaSerializer",
    "ResponsesWriter": "ResponsesSerializer", "CompletionAnswer": "CompletionSerializer", "TurnKeeper": "TurnRecorder",
    "ErrorShape": "ErrorFormat", "StreamForm": "StreamFormat", "WholeAnswer": "FullResponse", "ResponseWork": "PendingResponse",
    "FieldUses": "FieldAudit", "fail_field": "reject", "ReasoningWish": "ReasoningOptions", "ChatEnd": "ChatFinishReason",
    "TextMachine": "MarkerParser", "HarmonyMachine": "HarmonyParser", "Opener": "BlockStart", "CallReader": "ToolCallParser",
    "logit_cap": "final_logit_softcap", "attention_cap": "attention_logit_softcap", "query_rank": "q_lora_rank",
    "MemoryBackend": "LimitedMemory", "ScratchPart": "DecoderActivations", "EncoderArchitecture": "Architecture",
    "SplitPlan": "MemoryPlan", "ModelMemoryPlan": "ModelMemory", "PartMemoryPlan": "StageMemory", "LayerPart": "PipelineStage",
    "plan_split_memory": "plan_memory", "model_memory_plan": "model_memory",
}
RETIRED = [(re.compile(rf"\b{word}\b"), f"the word is {term}") for word, term in RETIRED.items()]


def sources(*folders, suffixes=(".h", ".cpp", ".cu", ".cuh")):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and "node_modules" not in path.parts:
                yield path


def needs_cuda(path):
    return path.is_relative_to(CUDA_FOLDER)


def module_deps(kind="DEPS"):
    """The modules that each names as DEPS, or as TEST_DEPS."""
    deps = {}
    for module in MODULES:
        text = re.sub(r"#.*", "", (ROOT / "src" / module / "CMakeLists.txt").read_text())
        match = re.search(r"cairn_module\(NAME\s+(\w+)([^)]*)\)", text)
        if not match or match[1] != module:
            sys.exit(f"tidy: src/{module}/CMakeLists.txt has no cairn_module(NAME {module} ...)")
        words = match[2].split()
        named, inside = set(), False
        for word in words:
            if word in ("DEPS", "TEST_DEPS", "LIBS", "PRIVATE_LIBS"):
                inside = word == kind
            elif inside:
                named.add(word)
        deps[module] = named
    return deps


def check_edges(report):
    deps, test_deps = module_deps(), module_deps("TEST_DEPS")
    for module, named in deps.items():
        for other in named | test_deps[module]:
            if other not in MODULES:
                report(ROOT / "src" / module / "CMakeLists.txt", 1, f"unknown module {other} in DEPS")
            elif MODULES.index(other) >= MODULES.index(module):
                report(ROOT / "src" / module / "CMakeLists.txt", 1, f"{module} may not depend on {other}: edges only go down")
    for path in sources("src"):
        module = path.relative_to(ROOT / "src").parts[0]
        if module not in MODULES:
            report(path, 1, f"src/{module} is not a module of the design")
            continue
        named = deps[module] | (test_deps[module] if path.stem.endswith(("_test", "_bench")) else set())
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#include "([^"]+)"', line)
            if not match:
                continue
            other = match[1].split("/")[0]
            if other not in MODULES:
                report(path, number, f'include "{match[1]}" is not of the form "module/file.h"')
            elif other != module and other not in named:
                report(path, number, f"{module} does not name {other} in its DEPS")


def check_namespaces(report):
    """A file of src/MODULE opens `namespace cairn::MODULE` or one inside of it, those of src/base plain `cairn`. It opens
    another module's only to declare types."""
    for path in sources("src"):
        module = path.relative_to(ROOT / "src").parts[0]
        own = "cairn" if module == "base" else f"cairn::{module}"
        inside = []  # whose closing braces are to come
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            opened = re.match(r"(?:inline )?namespace ?([\w:]*) ?\{(\}?)", line)
            if opened and not opened[2]:
                name = opened[1]
                if not inside and name and name != own and (module == "base" or not name.startswith(own + "::")):
                    body = "\n".join(lines[number:]).split("\n}", 1)[0]
                    other = name.split("::")[1:2]
                    if not other or other[0] not in MODULES or not re.fullmatch(r"(?:\s*(?://.*|(?:class|struct|enum class) \w+(?: : \w+)?;.*))*\s*", body):
                        report(path, number, f"opens namespace {name}: the names of src/{module} are in {own}")
                inside.append(name)
            elif line.startswith("}  // namespace") and inside:
                inside.pop()


def check_protocols(report):
    """A protocol of the API includes no other one, and what protocols share includes none."""
    api = ROOT / "src" / "api"
    for path in sources("src/api"):
        folder = path.relative_to(api).parts[0]
        if path.relative_to(api).as_posix() in KNOW_PROTOCOLS:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#include "api/(\w+)/', line)
            if match and match[1] in PROTOCOLS and match[1] != folder:
                report(path, number, f"a protocol's header ({match[1]}) outside its folder: what protocols share has a folder of its own")


def room_pairs(folder):
    """Pairs of entries of src/`folder` that include each other."""
    base = ROOT / "src" / folder
    edges = set()
    for path in sources(f"src/{folder}"):
        inside = path.relative_to(base)
        if path.stem.endswith(("_test", "_bench")) or "testing" in inside.parts:
            continue
        room = inside.parts[0] if len(inside.parts) > 1 else path.stem
        for other in re.findall(rf'^\s*#include "{folder}/([^"]+)"', path.read_text(), re.M):
            edges.add((room, re.sub(r"\.\w+$", "", other.split("/")[0])))
    return sorted(pair for pair in edges if pair[0] < pair[1] and pair[::-1] in edges)


def check_ceiling(report, path, count, ceiling, what):
    """A count of what is to become less is its ceiling: more is a finding, and so is a ceiling that could be lower."""
    if count > ceiling:
        report(path, 1, f"{what}: {count}, over {ceiling}")
    elif count < ceiling:
        report(ROOT / "scripts" / "tidy.py", 1, f"{what}: {count} are left of {ceiling}; lower the ceiling")


def check_rooms(report):
    for folder in [*MODULES, "kernels/cpu", "kernels/cuda"]:
        pairs = room_pairs(folder)
        names = ", ".join(f"{one} and {other}" for one, other in pairs)
        check_ceiling(report, ROOT / "src" / folder, len(pairs), ROOM_PAIRS_MAX.get(folder, 0), f"rooms that include each other ({names})")


def check_module_table(report):
    """The table of modules in docs/architecture.md has every module, in their order, with what its CMakeLists.txt names."""
    page = ROOT / "docs" / "architecture.md"
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*) ?\|", page.read_text().split("what they may include", 1)[-1], re.M)
    if [module for module, _ in rows] != MODULES:
        report(page, 1, f"the table of modules does not have just {', '.join(MODULES)}")
    deps = module_deps()
    for module, named in rows:
        listed = {name for name in re.split(r"[, ]+", named) if name}
        if module in deps and listed != deps[module]:
            wanted = ", ".join(sorted(deps[module], key=MODULES.index))
            report(page, 1, f"the table of modules: {module} may include {wanted or 'nothing'}, as src/{module}/CMakeLists.txt says")


def check_comments(report):
    """Comments on lines of their own that are no sentences."""
    found = []
    for path in sources("src", "apps"):
        behind_comment = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            comment = re.match(r"\s*///? (.*)$", line)
            if comment and not behind_comment and FRAGMENT.match(comment[1]):
                found.append((path, number))
            behind_comment = comment is not None
    shown = ", ".join(f"{path.relative_to(ROOT)}:{number}" for path, number in found) if len(found) > FRAGMENTS_MAX else ""
    check_ceiling(report, ROOT / "src", len(found), FRAGMENTS_MAX, f"comments that are fragments ({FRAGMENT.pattern}) {shown}".rstrip())


def check_isa_files(report):
    for path in sources("src/kernels/cpu"):
        if path.parent.name not in ISA_FLAGS:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#include ["<]([^">]+)[">]', line)
            if match and not ISA_INCLUDES.match(match[1]):
                report(path, number, f"an ISA file may not include {match[1]}: its inline functions would carry the ISA's code")


def check_sizes(report):
    for path in sources("src", "apps", "tests", "fuzz", "bench"):
        lines = path.read_text().splitlines()
        if any(TABLE_MARK in line for line in lines[:10]):
            continue
        test = path.stem.endswith("_test") or "tests" in path.parts
        limit = HEADER_LINES_MAX if path.suffix == ".h" else SOURCE_LINES_MAX
        if len(lines) > limit:
            report(path, len(lines), f"{len(lines)} lines, over {limit}: split it")
        begin = None
        # With clang-format's Google style, what starts in column 0 and ends with "{" closes with "}" in column 0.
        for number, line in enumerate(lines, 1):
            if begin is None and re.match(r"[A-Za-z_].*\{$", line) and not re.match(r"(namespace|extern|struct|class|enum|union)\b", line):
                begin = number
            elif begin is None and re.match(r"\s{4,}.*\) (const |noexcept |override )*\{$", line) and re.match(r"[A-Za-z_]", lines[number - 2] or " "):
                begin = number - 1  # a declaration folded over two lines
            elif begin is not None and re.match(r"\}", line):
                length = number - begin + 1
                most = TEST_FUNCTION_LINES_MAX if test else FUNCTION_LINES_MAX
                if length > most and not lines[begin - 1].rstrip().endswith("= {"):
                    report(path, begin, f"function of {length} lines, over {most}")
                begin = None


def tracked_files(*suffixes):
    """Files of the repository, new ones too, with one of the suffixes; without this one, which names what it forbids."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                           check=True).stdout.decode().split("\0")
    for path in (ROOT / name for name in names if name):
        if path.suffix in suffixes and path != pathlib.Path(__file__).resolve() and path.is_file():
            yield path


def check_banned(report):
    for path in tracked_files(".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".md", ".js", ".mjs", ".json", ".yml"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("web/dist/"):  # made of libraries
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            # What the demonstration model has learnt keeps its words until it learns again.
            if name.startswith("apps/") and name != "apps/cairn/output.cpp" and STANDARD_OUTPUT.search(line):
                report(path, number, f"{STANDARD_OUTPUT.search(line)[0]}: output.h writes to standard output, so that no failure is missed")
            for pattern, why in BANNED + ([] if name.startswith("models/") else RETIRED):
                if pattern.search(line):
                    report(path, number, f"{pattern.search(line)[0]}: {why}")


def check_links(report):
    """Links of pages lead to files and headings that exist, and so do mentions of pages anywhere; those of other projects are
    written behind the project's name."""
    def anchors(text):
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    for path in tracked_files(".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".md", ".mjs", ".json"):
        text = path.read_text(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            for page in re.findall(r"(?<!ggml )(?<!ggml, )(?<!Ollama, )(?<![\w/])docs/[\w/]+\.md", line):
                if not (ROOT / page).exists():
                    report(path, number, f"there is no {page}")
            if path.suffix != ".md":
                continue
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                name, _, anchor = target.partition("#")
                file = path.parent / name if name else path
                if target.startswith(("http:", "https:")):
                    continue
                if not file.exists():
                    report(path, number, f"the link {target} leads to no file")
                elif anchor and anchor not in anchors(file.read_text()):
                    report(path, number, f"the link {target} leads to no heading")


def check_notice(report):
    """The files that NOTICE names are there, and it names every source that says "see NOTICE"."""
    notice = ROOT / "NOTICE"
    named = set()
    for number, line in enumerate(notice.read_text().splitlines(), 1):
        # Paths behind an opening bracket are another project's.
        for path in re.findall(r"(?<![\w/(.-])(?:src|apps|web|tests|models|docs|bench|scripts)/[\w./-]*\w", re.sub(r"\([^)]*\)", "", line)):
            named.add(path)
            if not (ROOT / path).exists():
                report(notice, number, f"there is no {path}")
    for path in sources("src", "apps"):
        name = path.relative_to(ROOT).as_posix()
        if re.search(r"see\s+(?:///?\s+)?NOTICE", path.read_text()) and name not in named:
            report(path, 1, "says \"see NOTICE\", which does not name it")
    # The copyright file of the Debian package: its paths, and the libraries of the page.
    copyright = ROOT / "packaging" / "copyright"
    text = copyright.read_text()
    for path in re.findall(r"^(?:Files:)? (src/\S+)$", text, re.M):
        if path not in named:
            report(copyright, 1, f"NOTICE does not name {path}")
    licences = (ROOT / "web" / "dist" / "assets" / "licences.txt").read_text()
    for library in re.findall(r"^(\S+) \d+\.\d+\.\d+ \(", licences, re.M):
        if f"node_modules/{library}/*" not in text:
            report(copyright, 1, f"does not name {library}, which is in web/dist")


def check_changelog(report):
    """Its first version is that of the file VERSION."""
    version = (ROOT / "VERSION").read_text().strip()
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if not first or first[1] != version:
        report(ROOT / "CHANGELOG.md", 1, f"does not begin with {version}, which VERSION says")


def check_format(report):
    tool = shutil.which("clang-format-19")
    if not tool:
        sys.exit("tidy: clang-format-19 is missing; scripts/setup.sh installs it")
    files = [str(p) for p in sources("src", "apps", "tests", "fuzz", "bench")]
    done = subprocess.run([tool, "--dry-run", "--Werror", *files], capture_output=True, text=True)
    for match in re.finditer(r"^(\S+?):(\d+):\d+: error", done.stderr, re.M):
        report(pathlib.Path(match[1]), int(match[2]), "not as clang-format-19 writes it (clang-format-19 -i FILE)")


def check_headers(report, build, cuda):
    """Every header compiles alone, so that including it never needs another one first. One for another machine is left
    out where there is no cross compiler, those of CUDA_FOLDER where CUDA is not built."""
    folder = pathlib.Path(build) / "tidy-headers"
    folder.mkdir(parents=True, exist_ok=True)
    ccache = [shutil.which("ccache")] if shutil.which("ccache") else []

    def compiler_for(machine):
        return os.environ.get("CXX", "g++") if machine == platform.machine() else shutil.which(f"{machine}-linux-gnu-g++")

    def compile_alone(header):
        name = header.relative_to(ROOT).as_posix()
        stub = folder / (name.replace("/", "__") + ".cpp")
        text = f'#include "{name.removeprefix("src/")}"\n' if name.startswith("src/") else f'#include "{ROOT}/{name}"\n'
        if not stub.exists() or stub.read_text() != text:
            stub.write_text(text)
        flags = ["-std=c++23", "-O0", *(word for folder in ("src", "apps/cairn", "tests") for word in ("-I", str(ROOT / folder))), "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
        if needs_cuda(header):
            if not cuda:
                return header, None
            flags += ["-isystem", cuda]
        machine, more = ISA_FLAGS.get(header.parent.name, (platform.machine(), []))
        compiler = compiler_for(machine)
        if not compiler:
            return header, None
        done = subprocess.run([*ccache, compiler, *flags, *more, "-c", str(stub), "-o", str(stub.with_suffix(".o"))], capture_output=True,
                              text=True)
        return header, done

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, done in pool.map(compile_alone, sources(*BUILT, suffixes=(".h",))):
            if done and done.returncode != 0:
                first = next((l for l in done.stderr.splitlines() if "error" in l), done.stderr[:200])
                report(header, 1, f"does not compile alone: {first}")


def check_clang_tidy(report, build, cuda):
    files = [str(p) for p in sources(*BUILT, suffixes=(".cpp",)) if not p.stem.endswith(("_test", "_bench"))
             and ISA_FLAGS.get(p.parent.name, (platform.machine(),))[0] == platform.machine()
             and (cuda or not needs_cuda(p))]  # the build has no commands for them

    def run(file):
        return subprocess.run(["clang-tidy-19", "-p", str(build), "--quiet", file], capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = set()
        for done in pool.map(run, files):
            for match in re.finditer(r"^(\S+?):(\d+):\d+: (?:error|warning): (.*)$", done.stdout, re.M):
                if match[0] not in seen:
                    seen.add(match[0])
                    report(pathlib.Path(match[1]), int(match[2]), match[3])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build" / "tidy"))
    parser.add_argument("--no-headers", action="store_true")
    parser.add_argument("--clang-tidy", action="store_true")
    parser.add_argument("--cuda", metavar="FOLDER")
    options = parser.parse_args()
    findings = []

    def report(path, line, text):
        path = pathlib.Path(path)
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        findings.append(f"{name}:{line}: {text}")

    check_edges(report)
    check_namespaces(report)
    check_protocols(report)
    check_rooms(report)
    check_module_table(report)
    check_comments(report)
    check_isa_files(report)
    check_sizes(report)
    check_banned(report)
    check_links(report)
    check_notice(report)
    check_changelog(report)
    check_format(report)
    if not options.no_headers:
        check_headers(report, options.build, options.cuda)
    if options.clang_tidy:
        check_clang_tidy(report, options.build, options.cuda)
    print("\n".join(findings) if findings else "tidy: clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
