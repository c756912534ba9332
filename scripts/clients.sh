#!/usr/bin/env bash
# The official clients against a gateway: @ag-ui/client 1.0.0 and 0.0.59, ai 5, 6 and 7 (npm), ag-ui-validate (PyPI).
# Packages are pinned by tests/clients/package-lock.json and requirements.txt. Where they cannot be had it says SKIPPED and why.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=tests/clients
if ! command -v npm > /dev/null || ! command -v node > /dev/null; then
    echo "SKIPPED: no node and npm; no official client was tested"
    exit 0
fi
if ! node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major * 100 + +minor < 2011 ? 1 : 0)'; then
    echo "SKIPPED: node $(node --version) is older than 20.11; no official client was tested"
    exit 0
fi
# A lock file that is newer than what is installed: install. ai 7 asks for a newer node than 20 and runs on it all the same.
provide() {
    [ -f "$1/node_modules/.package-lock.json" ] && [ ! "$1/package-lock.json" -nt "$1/node_modules/.package-lock.json" ] && return
    npm ci --prefix "$1" --no-audit --no-fund --loglevel=error
}
if ! provide "$suite"; then
    echo "SKIPPED: npm cannot install the packages of $suite; no official client was tested"
    exit 0
fi
provide examples/clients || echo "SKIPPED: npm cannot install the packages of examples/clients; they are not run"

environment="$PWD/target/ag-ui-validate"
if [ ! -f "$environment/done" ] || [ "$suite/requirements.txt" -nt "$environment/done" ]; then
    if python3 -m venv "$environment" \
        && "$environment/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$suite/requirements.txt"; then
        touch "$environment/done"
    else
        echo "SKIPPED: ag-ui-validate cannot be installed; no stream is judged by it"
    fi
fi
if [ -f "$environment/done" ]; then
    export AG_UI_VALIDATE_PYTHON="$environment/bin/python"
fi

if [ ! -x "${CAUSEWAY_BIN:-}" ]; then
    unset CAUSEWAY_BIN
    cargo build --quiet --locked --package causeway-cli
else
    export CAUSEWAY_BIN="$(realpath "$CAUSEWAY_BIN")" # the tests run elsewhere
fi
# No wait is for ever: a test that hangs fails.
(cd "$suite" && node --test --test-concurrency=2 --test-timeout=600000)
