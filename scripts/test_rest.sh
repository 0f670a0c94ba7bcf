#!/usr/bin/env bash
# What CI leaves out (docs/testing.md): every test under ThreadSanitizer, the kernels' tests as 64-bit ARM, the kernels for
# NVIDIA GPUs where there is a toolkit, every header compiled alone, clang-tidy over every source, and every fuzz target for
# some time.
# usage: scripts/test_rest.sh [SECONDS of each fuzz target, default 60]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset tsan -DCAIRN_TESTS=ON -DCAIRN_UNITY=ON >/dev/null
scripts/test.sh tsan
scripts/test.sh neon
# The tests of the GPU say "skipped" where there is none.
if [ -n "$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)" ]; then
  cmake --preset cuda -DCAIRN_TESTS=ON >/dev/null
  cmake --build --preset cuda
  ctest --preset cuda
fi
cmake --preset release -DCAIRN_TESTS=ON -DCAIRN_UNITY=OFF >/dev/null
scripts/tidy.py --build build/release --clang-tidy
scripts/fuzz.sh "${1:-60}"
