#!/usr/bin/env bash
# Builds the program and libcairn without their tests and makes what a release consists of:
#   cairn_VERSION_ARCHITECTURE.deb            for Debian 12; its libraries are those of the system
#   cairn-VERSION-linux-MACHINE.tar.gz        for any Linux with the glibc of Debian 12; needs no other library, but to
#                                             ask other servers the machine's libcurl
# usage: scripts/package.sh [--deb | --tar] [OUT]
#   --deb, --tar  only that one
#   OUT           folder for both (default build/package/out)
# CAIRN_COMMIT is the commit that `cairn --version` tells, where the sources are no checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
kinds=(deb tar)
case ${1:-} in
  -h | --help) sed -n 's/^# //p' "$0"; exit 0 ;;
  --deb | --tar) kinds=("${1#--}"); shift ;;
  -*) echo "package.sh: there is no option $1" >&2; exit 2 ;;
esac
out=$(realpath -m "${1:-build/package/out}")
mkdir -p "$out"
scripts/setup.sh --package

for kind in "${kinds[@]}"; do
  build=$PWD/build/package/$kind
  static=$([ "$kind" = tar ] && echo ON || echo OFF)
  cmake --preset release -B "$build" -DCAIRN_TESTS=OFF -DCAIRN_STATIC="$static" -DCAIRN_COMMIT="${CAIRN_COMMIT:-}" >/dev/null
  cmake --build "$build" --target cairn cairn_shared
  rm -rf "$build/made"
  cpack --config "$build/CPackConfig.cmake" -B "$build/made"
  if [ "$kind" = tar ]; then
    other=$(objdump -p "$build/cairn" "$build/libcairn.so" | awk '$1 == "NEEDED" && $2 !~ /^(libc|libm|ld-linux.*)\.so/ { print $2 }')
    [ -z "$other" ] || { echo "package.sh: the static program or library needs" $other >&2; exit 1; }
    echo "package.sh: the static program needs glibc $(objdump -T "$build/cairn" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2)"
  fi
  cp "$build"/made/cairn[-_]* "$out/"
done
cd "$out"
ls -l cairn[-_]* | awk '{ print $5, $9 }'
sha256sum cairn[-_]* | tee SHA256SUMS
