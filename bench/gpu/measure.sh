#!/usr/bin/env bash
# Measures Cairn on a GPU machine with the folder that scripts/gpu_bundle.sh makes: the tests, the kernels beside the
# GPU's own limits, whole models of random weights, and 64 clients over HTTP. Models are written to memory (/dev/shm,
# 45 GB). With llama-bench and llama-batched-bench of llama.cpp's CUDA build in PEER, both take turns on the same files.
# usage: [PEER=FOLDER] bench/gpu/measure.sh BUNDLE_FOLDER OUTPUT_FOLDER
set -uo pipefail
run=$(realpath "$1")/run.sh out=$(realpath "$2") models=/dev/shm port=18080
types=(BF16 Q8_0 Q4_K Q4_0)
cairn() { "$run" cairn "$@" 2>>"$out/errors.log"; }
say() { echo "== $(date +%T) $*"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,temperature.gpu --format=csv,noheader
uptime
say tests
"$run" gpu_test >"$out/tests.log" 2>&1
grep -E '^\[  (PASSED|FAILED)' "$out/tests.log"

say kernels
"$run" kernels_bench --benchmark_filter=Gpu --benchmark_min_time=0.01 --benchmark_format=csv \
  2>>"$out/errors.log" | grep -E '^(name|"Gpu)' | cut -d, -f1,3,11- >"$out/kernels.csv"

say models
for size in 8b 1b; do
  for type in "${types[@]}"; do
    file=$models/$size-$type.gguf
    [ -f "$file" ] || cairn synth "$file" --preset "llama-$size" --type "$type" >/dev/null
    for sequences in 1 8 32 128; do
      cairn bench model "$file" --gpu-layers all --prompt 32 --answer 64 --sequences $sequences
    done
    cairn bench model "$file" --gpu-layers all --prompt 4096 --answer 64
  done
done | tee "$out/models.jsonl"

if [ -n "${PEER:-}" ]; then
  say "llama.cpp, in turns"
  for round in 1 2 3; do
    for type in "${types[@]}"; do
      file=$models/8b-$type.gguf
      cairn bench model "$file" --gpu-layers all --prompt 32 --answer 128
      "$PEER/llama-bench" -m "$file" -ngl 99 -fa 1 -p 0 -n 128 -r 1 -o jsonl
      cairn bench model "$file" --gpu-layers all --prompt 4096 --answer 8
      "$PEER/llama-bench" -m "$file" -ngl 99 -fa 1 -p 4096 -n 0 -b 4096 -ub 2048 -r 1 -o jsonl
      cairn bench model "$file" --gpu-layers all --prompt 32 --answer 64 --sequences 32
      "$PEER/llama-batched-bench" -m "$file" -ngl 99 -fa on -c 16384 -b 2048 -ub 512 -npp 32 -ntg 64 -npl 32 \
        --output-format jsonl
    done
  done 2>>"$out/errors.log" | grep '^{' | tee "$out/turns.jsonl"
fi

say "64 clients over HTTP"
"$run" cairn serve $models/8b-Q8_0.gguf --gpu-layers all --parallel-max 64 --ctx 4096 --kv-bytes 30GiB --port $port \
  2>>"$out/errors.log" &
server=$!
for _ in $(seq 120); do
  curl -sf "http://127.0.0.1:$port/health" >/dev/null && break
  sleep 0.5
done
cairn bench serve --url "http://127.0.0.1:$port" --clients 64 --requests 256 --max-tokens 128 --endpoint completions \
  --extra '{"ignore_eos":true}' --warmup 64 | tee "$out/http.txt"
kill -INT $server
wait $server
