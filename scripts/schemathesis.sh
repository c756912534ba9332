#!/usr/bin/env bash
# Property-based requests made from the OpenAPI document against the real gateway (schemathesis, PyPI): no status that is
# not documented, no fault, no crash, answers as their schemas say. Usage: scripts/schemathesis.sh [EXAMPLES] [SEED]
# EXAMPLES is for each operation of the document, so that every machine makes the same requests.
# The packages are pinned by tests/schemathesis/requirements.txt. Where they cannot be had it says SKIPPED and why.
set -euo pipefail
cd "$(dirname "$0")/.."
examples="${1:-60}" seed="${2:-20260801}"

suite=tests/schemathesis
environment="$PWD/target/schemathesis"
if [ ! -f "$environment/done" ] || [ "$suite/requirements.txt" -nt "$environment/done" ]; then
    if ! { python3 -m venv "$environment" \
        && "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$suite/requirements.txt"; }; then
        echo "SKIPPED: schemathesis cannot be installed; the routes are not tested from their document"
        exit 0
    fi
    touch "$environment/done"
fi

if [ ! -x "${CAUSEWAY_BIN:-}" ]; then
    cargo build --quiet --locked --package causeway-cli
    CAUSEWAY_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/causeway"
fi
exec "$environment/bin/python" "$suite/run.py" --causeway "$(realpath "$CAUSEWAY_BIN")" --examples "$examples" --seed "$seed"
