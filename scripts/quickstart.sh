#!/usr/bin/env bash
# From a fresh Debian 12 to a served model: installs packages, builds the release, serves.
# usage: scripts/quickstart.sh [MODEL.gguf] [flags of `cairn serve`, e.g. --port 9000]
# Without MODEL.gguf it serves the small demonstration model that comes along.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
model=$here/models/guide/guide.gguf
case ${1:-} in
  -h | --help)
    sed -n 's/^# //p' "$0"
    exit 0 ;;
  '' | -*) ;;
  *)
    model=$1
    shift ;;
esac
[ -f "$model" ] || { echo "quickstart.sh: no such file: $model" >&2; exit 2; }
model=$(realpath "$model")

cd "$here"
scripts/setup.sh --build-only
log=build-release.log
started=$SECONDS
# Ninja's lines "[done/all] what" become one line that is written over, or without a terminal a line every tenth.
progress() {
  awk -F '[][/]' -v terminal="$([ -t 2 ] && echo 1)" '
    /^\[[0-9]+\/[0-9]+\]/ {
      percent = int(100 * $2 / $3)
      if (terminal) printf "\rquickstart.sh: built %d of %d files (%d %%) ", $2, $3, percent > "/dev/stderr"
      else if (int(percent / 10) > shown) print "quickstart.sh: built " $2 " of " $3 " files" > "/dev/stderr"
      shown = int(percent / 10)
      fflush("/dev/stderr")
    }
    END { if (terminal && NR > 0) print "" > "/dev/stderr" }'
}
echo "quickstart.sh: building the program; the first time takes some minutes" >&2
if ! cmake --preset release -DCAIRN_TESTS=OFF -DCAIRN_UNITY=ON >"$log" 2>&1 || ! cmake --build build/release --target cairn 2>&1 | tee -a "$log" | progress; then
  tail -n 30 "$log" >&2
  echo "quickstart.sh: the build failed; the whole log is $log" >&2
  exit 1
fi
rm -f "$log"
echo "Built $here/build/release/cairn in $((SECONDS - started)) s. Serving $model; Ctrl-C stops."
exec build/release/cairn serve "$model" "$@"
