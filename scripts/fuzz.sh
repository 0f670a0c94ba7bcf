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
    messages_request_fuzz) find fuzz/seeds/messages_request -type f ;;
    ollama_request_fuzz) find fuzz/seeds/ollama_request -type f ;;
    output_parser_fuzz) find fuzz/seeds/output_parser -type f ;;
    json_schema_fuzz) find fuzz/seeds/json_schema -type f ;;
    responses_request_fuzz) find fuzz/seeds/responses_request -type f ;;
    frames_fuzz) find fuzz/seeds/frames -type f ;;
    hub_fuzz) find fuzz/seeds/hub -type f ;;
    http_fuzz) find fuzz/seeds/http -type f ;;
    config_fuzz) find fuzz/seeds/config -type f ;;
    key_file_fuzz) find fuzz/seeds/key_file -type f ;;
    logits_file_fuzz) find fuzz/seeds/logits_file -type f ;;
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
