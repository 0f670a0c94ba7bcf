#!/usr/bin/env bash
# Collects the licences of what a built program has from others: the copyright file of each Debian package whose headers
# its sources include or whose archives are linked into it, the licence texts that those files refer to, and the licences
# of the page for browsers.
# usage: scripts/licenses.sh FOLDER BUILD
#   FOLDER  where they are put: PACKAGE.txt, common/LICENCE.txt, web-page.txt
#   BUILD   a folder in which the program has been built
set -euo pipefail
folder=$1
build=$(realpath "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"

inputs=$(ninja -C "$build" -t inputs cairn)
# What follows the objects' names, indented, are their headers.
files=$({ grep '^/.*\.a$' <<<"$inputs" || true
          grep '\.o$' <<<"$inputs" | xargs ninja -C "$build" -t deps | sed -n 's/^ \+//p'; } |
  (cd "$build" && xargs realpath -s) | sort -u | awk -v root="$root/" -v build="$build/" 'index($0, root) != 1 && index($0, build) != 1')
[ -n "$files" ] || { echo "licenses.sh: $build has no built program" >&2; exit 1; }
# "PACKAGE:ARCHITECTURE: FILE"; a file of no package is an error.
packages=$(xargs dpkg-query -S <<<"$files" | sed 's/:.*//' | sort -u)

for package in $packages; do
  cp -L "/usr/share/doc/$package/copyright" "$folder/$package.txt"
done
chmod 644 "$folder"/*.txt
mkdir -p "$folder/common"
grep -hoE '/usr/share/common-licenses/[A-Za-z]+(-[0-9.]*[0-9])?' "$folder"/*.txt | sort -u | while read -r file; do
  [ ! -f "$file" ] || cp -L "$file" "$folder/common/$(basename "$file").txt"
done
cp "$root/web/dist/assets/licences.txt" "$folder/web-page.txt"
echo "licenses.sh: $(wc -w <<<"$packages") packages and the page in $folder"
