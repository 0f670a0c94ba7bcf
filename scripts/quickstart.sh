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
source scripts/progress.sh
log=build-release.log
rm -f "$log"
started=$SECONDS
echo "quickstart.sh: building the program; the first time takes some minutes" >&2
progress_quiet "$log" cmake --preset release -DCAIRN_TESTS=OFF
progress_build "$log" cmake --build build/release --target cairn
rm -f "$log"
echo "Built $here/build/release/cairn in $((SECONDS - started)) s. Serving $model; Ctrl-C stops."
exec build/release/cairn serve "$model" "$@"
