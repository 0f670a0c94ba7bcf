#!/usr/bin/env bash
# What CI leaves out (docs/testing.md): every test under ThreadSanitizer, every header compiled alone, clang-tidy over every
# source, and every fuzz target for some time.
# usage: scripts/test_rest.sh [SECONDS of each fuzz target, default 60]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/test.sh tsan
cmake --preset release -DCAIRN_TESTS=ON -DCAIRN_UNITY=OFF >/dev/null
scripts/tidy.py --build build/release --clang-tidy
scripts/fuzz.sh "${1:-60}"
