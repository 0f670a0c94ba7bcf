#!/usr/bin/env bash
# Puts what a GPU machine without packages, compiler or reference data needs into one folder: the program, gpu_test and
# kernels_bench of the preset cuda, the libraries that they load and the reference files that the tests read (bundle.tar.xz), and run.sh,
# which unpacks that and runs a command with it: `run.sh gpu_test --gtest_filter=...`, `run.sh cairn bench model ...`.
# Build the preset first.
# usage: scripts/gpu_bundle.sh [FOLDER] (default build/gpu; emptied)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/gpu}")
data=$(sed -n 's/^CAIRN_TEST_DATA:PATH=//p' build/cuda/CMakeCache.txt)
rm -rf "$folder"
mkdir -p "$folder/bundle/lib" "$folder/bundle/test-data"
for program in build/cuda/cairn build/cuda/tests/gpu_test build/cuda/src/kernels/kernels_bench; do
  strip -o "$folder/bundle/$(basename "$program")" "$program"
  # Not the C library, which goes with the other machine's loader.
  ldd "$program" | awk '$2 == "=>" && $1 !~ /^(libc|libm|libdl|librt|libpthread)\.so/ { print $3 }' |
    xargs -r cp -Lut "$folder/bundle/lib"
done
cp -r "$data/quants" "$folder/bundle/test-data/"
# Of the models those that the tests name, with or without a folder.
(cd "$data" && grep -ohE '"([a-z]+/)?[a-z0-9][a-z0-9_-]+"' "$OLDPWD"/tests/gpu/*.cpp | tr -d '"' | sort -u | while read -r name; do
  for path in "$name" "models/$name"; do
    [ ! -f "$path.gguf" ] || cp --parents "$path.gguf" "$path.ref.json" "$folder/bundle/test-data/"
  done
done)
# A dictionary that spans all programs, as each of them contains the same kernels.
tar -c -C "$folder" bundle | xz --lzma2=preset=3,dict=256MiB >"$folder/bundle.tar.xz"
rm -r "$folder/bundle"
cat >"$folder/run.sh" <<'RUN'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -d /tmp/cairn-gpu/bundle ] || { mkdir -p /tmp/cairn-gpu && tar -xJf "$here/bundle.tar.xz" -C /tmp/cairn-gpu; }
export LD_LIBRARY_PATH=/tmp/cairn-gpu/bundle/lib CAIRN_TEST_DATA=/tmp/cairn-gpu/bundle/test-data
exec "/tmp/cairn-gpu/bundle/$1" "${@:2}"
RUN
chmod +x "$folder/run.sh"
du -sh "$folder"
