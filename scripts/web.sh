#!/usr/bin/env bash
# The inspector: type check, unit tests, the committed build compared byte for byte, and the browser tests against the real
# binary (CAUSEWAY_BIN). Screenshots of every view are left in target/inspector.
# `scripts/web.sh build` builds the committed files anew instead.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "SKIPPED: the inspector's tests: $1"; exit 0; }

command -v node >/dev/null && command -v npm >/dev/null || skip "they need Node.js and npm"
# One installation at a time, and none when the lock file has not changed since the last.
mkdir -p target
(
    flock 9
    stamp=web/node_modules/.causeway-lock
    cmp -s web/package-lock.json "$stamp" && exit 0
    if npm ci --prefix web --no-audit --no-fund --loglevel=error 2> target/web-install.log; then
        cp web/package-lock.json "$stamp"
        exit 0
    fi
    cat target/web-install.log >&2
    # A lock file that does not fit is our fault; a registry that cannot be reached is not.
    ! grep -q EUSAGE target/web-install.log || exit 2
    exit 1
) 9> target/web-install.lock || { [ $? = 1 ] && skip "npm cannot install their packages"; exit 1; }

if [ "${1:-}" = build ]; then
    npm run --silent build --prefix web
    exit 0
fi

echo "web: type check, unit tests"
npm run --silent check --prefix web
npm run --silent unit --prefix web

echo "web: the committed build"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
npm run --silent bundle --prefix web -- --outDir "$fresh/assets" --emptyOutDir --logLevel warn
diff -r "$fresh/assets" crates/server/assets || {
    echo "web: crates/server/assets is not what web/ builds; run scripts/web.sh build and commit it" >&2
    exit 1
}

chromium="${CAUSEWAY_CHROMIUM:-$(command -v chromium || true)}"
if [ -z "$chromium" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
    chromium=$(command -v chromium || true)
fi
[ -n "$chromium" ] || skip "there is no Chromium, and it cannot be installed"

echo "web: in $("$chromium" --version 2>/dev/null || echo Chromium)"
bin="${CAUSEWAY_BIN:-${CARGO_TARGET_DIR:-$PWD/target}/debug/causeway}"
CAUSEWAY_BIN="$bin" CAUSEWAY_CHROMIUM="$chromium" node --test --test-reporter=spec --test-concurrency=2 --test-timeout=600000 web/tests/*.test.mjs
