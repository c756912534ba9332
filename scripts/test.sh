#!/usr/bin/env bash
# All tests: Rust (unit, golden, property, fuzz bodies, end to end through the binary), the official clients (npm, PyPI),
# the inspector in Chromium, and the Python worker's own.
set -euo pipefail
cd "$(dirname "$0")/.."

# Debug info makes the many test binaries slow to link and large; a failing test's line is enough.
export CARGO_PROFILE_DEV_DEBUG="${CARGO_PROFILE_DEV_DEBUG:-line-tables-only}"

# The environment of the live worker, made once. Where it cannot be had the live tests say SKIPPED and why.
# The second is the older stack that existing deployments pin.
environment=target/deepagents
examples/deepagents/setup.sh "$environment" \
    || echo "SKIPPED: no environment for the live deepagents worker; its tests will be skipped"
examples/deepagents/setup.sh target/deepagents-0.6 requirements-0.6.txt \
    || echo "SKIPPED: no environment for the live worker on deepagents 0.6; its tests will be skipped"

# The same for the Claude Code CLI.
examples/claude/setup.sh target/claude \
    || echo "SKIPPED: no Claude Code CLI; its live tests will be skipped"

# What reaches the disk is seen with strace. Where it cannot be had those tests say SKIPPED and why.
if ! command -v strace >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq strace; } >/dev/null \
        || echo "SKIPPED: strace cannot be installed; the tests of the disk will be skipped"
fi

# Shared mode is tested on a PostgreSQL that the tests start. Where it cannot be had they say SKIPPED and why.
if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && ! command -v postgres >/dev/null \
    && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-15; } >/dev/null \
        || echo "SKIPPED: postgresql cannot be installed; the tests of shared mode will be skipped"
fi

# The chaos rig sets the clocks of gateways. Where it cannot it says SKIPPED.
if ! compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libfaketime; } >/dev/null \
        || echo "SKIPPED: libfaketime cannot be installed; clocks will not be set"
fi

cargo test --workspace --locked "$@"

# The binary is the one that the tests above were built with.
CAUSEWAY_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/causeway" scripts/clients.sh

# The inspector in a real browser, against the same binary.
CAUSEWAY_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/causeway" scripts/web.sh
# Requests made from the gateway's own document; longer in `make soak`.
CAUSEWAY_BIN="${CARGO_TARGET_DIR:-$PWD/target}/debug/causeway" scripts/schemathesis.sh "${CAUSEWAY_SCHEMATHESIS_EXAMPLES:-60}"

# Gateways that die at every seam; the long figures are those of `make soak`.
scripts/crash.sh "${CAUSEWAY_KILLS_RECORDED:-60}" "${CAUSEWAY_KILLS_LIVE:-5}"

# Three gateways on one database, and everything that can befall them; ten minutes of it are `make soak`.
scripts/chaos.sh "${CAUSEWAY_CHAOS_SECONDS:-60}"

# The fuzz bodies on stable: five minutes together, two at a time (the same bodies are cargo-fuzz targets in fuzz/).
fuzz() {
    echo "fuzz: $*, $seconds s"
    CAUSEWAY_FUZZ_SECONDS=$seconds cargo test --quiet --locked "$@"
}
seconds="${CAUSEWAY_FUZZ_SECONDS:-40}"
fuzz --package causeway-contract --test properties mutated_lines
fuzz --package causeway-lifecycle --test fuzz
fuzz --package causeway-encode --test properties no_bytes_and_no_operations
fuzz --package causeway-adapter --test deepagents no_damage
fuzz --package causeway-adapter --test anthropic no_damage
fuzz --package causeway-adapter --test bedrock no_damage
fuzz --workspace --test worker
fuzz --workspace --test requests

if [ -x "$environment/.venv/bin/python" ]; then
    "$environment/.venv/bin/python" examples/deepagents/test_worker.py
else
    echo "SKIPPED: the worker's self-test needs $environment/.venv"
fi
