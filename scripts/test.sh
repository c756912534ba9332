#!/usr/bin/env bash
# All tests: Rust (unit, golden, property, fuzz bodies, end to end through the binary) and the Python worker's own.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debug info makes the many test binaries slow to link and large; a failing test's line is enough.
export CARGO_PROFILE_DEV_DEBUG="${CARGO_PROFILE_DEV_DEBUG:-line-tables-only}"

# The environment of the live worker, made once. Where it cannot be had the live tests say SKIPPED and why.
environment=target/deepagents
mkdir -p "$environment"
examples/deepagents/setup.sh "$environment" \
    || echo "SKIPPED: no environment for the live deepagents worker; its tests will be skipped"

cargo test --workspace --locked "$@"

if [ -x "$environment/.venv/bin/python" ]; then
    "$environment/.venv/bin/python" examples/deepagents/test_worker.py
else
    echo "SKIPPED: the worker's self-test needs $environment/.venv"
fi
