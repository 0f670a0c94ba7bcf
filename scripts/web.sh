#!/usr/bin/env bash
# The page in web/: its types, its unit tests, whether web/dist is what its source makes, and with CAIRN_PROGRAM and
# CAIRN_TEST_DATA set the tests in a browser (tests/web), those of pages of other origins too.
# usage: scripts/web.sh [--write]
#   --write  builds web/dist anew instead of comparing
set -euo pipefail
cd "$(dirname "$0")/../web"
npm ci --no-audit --no-fund --loglevel=error
npm run --silent check
npm run --silent test
if [ "${1:-}" = "--write" ]; then
  npm run --silent build
else
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  npm run --silent build -- "$made"
  diff -rq "$made" dist || { echo "web.sh: web/dist is not what web/src makes; run scripts/web.sh --write" >&2; exit 1; }
fi
[ -n "${CAIRN_PROGRAM:-}" ] || exit 0
cd ../tests/web
npm ci --no-audit --no-fund --loglevel=error
# One after the other: a browser wants a core for itself.
for suite in *.test.mjs ../e2e/access_browser.test.mjs; do node --test "$suite"; done
