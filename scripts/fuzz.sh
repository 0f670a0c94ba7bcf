#!/usr/bin/env bash
# Builds every fuzz target and runs each for some time, from seeds in fuzz/seeds or made of the reference data.
# usage: scripts/fuzz.sh [SECONDS each, default 60] [TARGET...]     Findings and corpora stay in build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true

scripts/setup.sh
cmake --preset fuzz >/dev/null
targets=("$@")
[ ${#targets[@]} -gt 0 ] || for source in fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" .cpp)"); done
cmake --build build/fuzz --target "${targets[@]}"

data=$(sed -n 's/^CAIRN_TEST_DATA:PATH=//p' build/fuzz/CMakeCache.txt)
/usr/bin/python3 tests/data/data.py unpack "$data"
seed() {  # what a target begins with
  case $1 in
    gguf_fuzz) find "$data/models" -name '*.gguf' -size -420k | head -n 8 ;;
    jinja_fuzz) find "$data/chat-templates" -name '*.jinja' ;;
    *) find "fuzz/seeds/${1%_fuzz}" -type f 2>/dev/null || true ;;
  esac
}
status=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus"
  seed "$target" | while read -r file; do cp -n "$file" "$corpus/"; done
  echo "$target: $seconds s"
  if ! build/fuzz/fuzz/"$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="$corpus/finding-" "$corpus" >"$corpus.log" 2>&1; then
    status=1
    grep -E 'ERROR|SUMMARY|finding-' "$corpus.log" || tail -n 20 "$corpus.log"
  fi
  grep 'number_of_executed_units' "$corpus.log" || true
done
exit $status
