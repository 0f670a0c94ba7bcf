#!/usr/bin/env bash
# What CI leaves out (docs/testing.md): the emulated GPU under UBSan, every test under ThreadSanitizer, every benchmark
# compiled, every header compiled alone, clang-tidy over every source, and every fuzz target for some time.
# usage: scripts/test_rest.sh [SECONDS of each fuzz target, default 60]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset release -B build/gpu-ubsan -DCAIRN_EMULATED_GPU_SANITIZE=address,undefined >/dev/null
cmake --build build/gpu-ubsan --target gpu_emulated_test gpu_emulated_bench
ctest --test-dir build/gpu-ubsan --output-on-failure -j "$(nproc)" -R '^gpu_emulated'
cmake --build build/gpu-ubsan --target benches
scripts/test.sh tsan
cmake --preset release -DCAIRN_TESTS=ON -DCAIRN_UNITY=OFF >/dev/null
scripts/tidy.py --build build/release --clang-tidy
scripts/fuzz.sh "${1:-60}"
