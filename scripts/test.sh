#!/usr/bin/env bash
# Installs what is missing, builds the preset (default dev: AddressSanitizer and UBSan) and runs every test; with the
# preset neon those of the kernels, as 64-bit ARM in an emulator.
# usage: scripts/test.sh [PRESET] [arguments of ctest, e.g. -R engine]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-dev}
shift || true

if [ "$preset" = neon ]; then
  scripts/setup.sh --cross
else
  scripts/setup.sh
  (cd tests/e2e && npm ci --no-audit --no-fund --silent)
fi
cmake --preset "$preset" -DCAIRN_TESTS=ON >/dev/null
cmake --build --preset "$preset"
# ThreadSanitizer cannot place its shadow memory under some kernels' address randomisation.
run=()
[ "$preset" = tsan ] && run=(setarch "$(uname -m)" -R)
"${run[@]}" ctest --preset "$preset" -j "$(nproc)" "$@"
