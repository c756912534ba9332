#!/usr/bin/env bash
# All tests: Rust (unit, golden, property, fuzz bodies, end to end through the binary) and the Python worker's own.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debug info makes the many test binaries slow to link and large; a failing test's line is enough.
export CARGO_PROFILE_DEV_DEBUG="${CARGO_PROFILE_DEV_DEBUG:-line-tables-only}"

# The environment of the live worker, made once. Where it cannot be had the live tests say SKIPPED and why.
if [ -x examples/deepagents/setup.sh ]; then
    examples/deepagents/setup.sh || echo "SKIPPED: no environment for the live deepagents worker; its tests will be skipped"
fi

cargo test --workspace --locked "$@"

if [ -x examples/deepagents/.venv/bin/python ]; then
    examples/deepagents/.venv/bin/python examples/deepagents/test_worker.py
else
    echo "SKIPPED: the worker's self-test needs examples/deepagents/.venv"
fi
