#!/usr/bin/env bash
# The crash rig: scripts/crash.sh KILLS LIVE_KILLS [options of crash-rig]. It builds a gateway with failpoints, kills it, and has every restart checked; before that it shows that the check notices a commit in two halves.
# Exit 0: all promises were kept. docs/durability.md says what is tested; `--seed N` repeats a run, `--seed N --episode E` a part of it.
set -euo pipefail
cd "$(dirname "$0")/.."
kills=$1
live=$2
shift 2

. scripts/rigs.sh

with_python=()
if [ "$live" -gt 0 ]; then
    if python=$(examples/deepagents/setup.sh "${CAUSEWAY_DEEPAGENTS:-target/deepagents}" | tail -n 1) && [ -n "$python" ]; then
        with_python=(--live "$live" --python "$python")
    else
        echo "SKIPPED: no environment for the live deepagents worker; it was not killed"
    fi
fi
run() { "$rig/crash-rig" --causeway "$rig/causeway" --work "$rig/work" "$@"; }
run --control
run --kills "$kills" "${with_python[@]}" "$@"
