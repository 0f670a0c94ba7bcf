#!/usr/bin/env bash
# Installs what building, testing and checking Cairn needs on Debian 12. Safe to run again: what is there is left alone.
# usage: scripts/setup.sh [--build-only | --tests | --package | --cross]
#   --build-only  just what compiling and running the program needs
#   --tests       that, and what scripts/test.sh needs
#   --package     what compiling needs, and what making a Debian package needs (scripts/package.sh)
#   --cross       just what the preset `neon` needs: a cross compiler and an emulator for 64-bit ARM
set -euo pipefail
cd "$(dirname "$0")/.."

build=(g++ cmake ninja-build pkg-config ccache mold git ca-certificates curl
       libboost1.81-dev libssl-dev nlohmann-json3-dev libcli11-dev libfmt-dev
       libpcre2-dev libutf8proc-dev libxxhash-dev libsqlite3-dev
       zlib1g-dev libzstd-dev libcurl4-openssl-dev libtomlplusplus-dev)
tests=(libgtest-dev libgmock-dev libbenchmark-dev libsimde-dev clang-format-19 python3 python3-numpy python3-jinja2
       procps prometheus)
check=(clang-19 clang-tidy-19 libclang-rt-19-dev chromium fonts-dejavu-core)
package=(dpkg-dev file python3-venv)
# Of the libraries only the headers, and GoogleTest's sources.
cross=(g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user googletest cmake ninja-build ccache
       nlohmann-json3-dev libfmt-dev libutf8proc-dev libxxhash-dev python3 python3-numpy)

want=("${build[@]}")
if [ "${1:-}" = "--cross" ]; then
  want=("${cross[@]}")
elif [ "${1:-}" = "--package" ]; then
  want+=("${package[@]}")
elif [ "${1:-}" != "--build-only" ]; then
  want+=("${tests[@]}")
  [ "${1:-}" = "--tests" ] || want+=("${check[@]}")
  # Any Node.js from version 18 on will do; one that is already there is kept.
  command -v node >/dev/null || want+=(nodejs)
  command -v npm >/dev/null || want+=(npm)
fi

missing=()
for package in "${want[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: run as root, or install sudo; missing packages: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "setup.sh: installing ${missing[*]}"
"${sudo[@]}" apt-get update -qq
install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends install "${missing[@]}")
all=$("${install[@]}" -s -qq | grep -c '^Inst' || true)
echo "setup.sh: $all packages with what they need"
# A line for every 20 packages that are ready.
"${install[@]}" -q | awk -v all="$all" '/^Setting up/ && ++done % 20 == 0 { print "setup.sh: " done " of " all " packages"; fflush() }'
