#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests. Without a preset that is the program as users run it, with every unit
# and every end-to-end test.
# usage: scripts/test.sh [PRESET] [arguments of ctest, e.g. -R engine]
#   release  (default) as users run it
#   dev      with AddressSanitizer and UBSan
#   tsan     with ThreadSanitizer
#   neon     the kernels' tests as 64-bit ARM, in an emulator
# The whole output goes to build-PRESET.log.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release
case ${1:-} in
  -h | --help)
    sed -n '2,/^[^#]/s/^# //p' "$0"
    exit 0 ;;
  '' | -*) ;;
  *)
    preset=$1
    shift ;;
esac
source scripts/progress.sh
began=$(date +%s)
log=build-$preset.log
rm -f "$log"

if [ "$preset" = neon ]; then
  scripts/setup.sh --cross
else
  scripts/setup.sh --tests
  # npm writes this file last.
  if [ ! tests/e2e/node_modules/.package-lock.json -nt tests/e2e/package-lock.json ]; then
    (cd tests/e2e && npm ci --no-audit --no-fund --loglevel=error)
  fi
fi
echo "test.sh: $preset: builds and tests; from nothing the release takes about 12 minutes on two cores, dev about 20" >&2
progress_quiet "$log" cmake --preset "$preset" -DCAIRN_TESTS=ON
progress_build "$log" cmake --build --preset "$preset"
built=$(date +%s)
# ThreadSanitizer cannot place its shadow memory under some kernels' address randomisation.
run=()
[ "$preset" = tsan ] && run=(setarch "$(uname -m)" -R)
status=0
# One more than there are processors: most end-to-end tests wait more than they compute.
progress_tests "$log" "${run[@]}" ctest --preset "$preset" -j "$(($(nproc) + 1))" "$@" || status=$?
echo "test.sh: $preset: packages and build $((built - began)) s, tests $(($(date +%s) - built)) s"
# Budgets are for processors, not for their emulation.
[ "$preset" = neon ] || scripts/cost.py tests "build/$preset" --over --since "$built" || status=$?
exit $status
