#!/usr/bin/env bash
# The whole way in under a minute, with a tiny network: corpus, tokenizer, training, resuming, decay, export, loading by
# Cairn, evaluation. The answers are nonsense; what is tested is that every part fits the next.
# usage: smoke.sh [CAIRN]     PYTHON chooses the interpreter (default: Debian's)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cairn=$(realpath "${1:-$here/../../../build/release/cairn}")
python=${PYTHON:-/usr/bin/python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$here"

"$python" faq.py --check "$cairn"
"$python" separation.py --train 3000 --held 600
tiny=(--layers 2 --width 64 --hidden 96 --heads 2 --kv-heads 1 --vocabulary 1024 --shard 200 --evaluate-count 4 --workers 2 --steps 40)
"$python" train.py "$folder" "${tiny[@]}" --stop-at 14
"$python" train.py "$folder" "${tiny[@]}" --stop-at 20 | tee "$folder/second.log"
grep -q "from step 14 to 20" "$folder/second.log" || { echo "smoke.sh: the second run did not go on from the first" >&2; exit 1; }
"$python" train.py "$folder" "${tiny[@]}" --decay 6
"$python" - "$folder/train.csv" <<'END'
import csv, sys
losses = [float(row[1]) for row in csv.reader(open(sys.argv[1]))]
assert losses[-1] < losses[0] - 0.5, f"nothing was learnt: {losses}"
END
"$python" export.py "$folder/final.pt" "$folder/tokenizer.json" "$folder/f32.gguf"
"$cairn" quantize "$folder/f32.gguf" "$folder/q8.gguf" Q8_0
"$python" same.py "$cairn" "$folder/final.pt" "$folder/tokenizer.json" "$folder/f32.gguf"
"$python" evaluate.py "$cairn" "$folder/q8.gguf" --float "$folder/f32.gguf" --count 2 --agree 4 --json "$folder/shares.json"
grep -q "greedy tokens equal" "$folder/shares.json"
echo "smoke.sh: every part works"
