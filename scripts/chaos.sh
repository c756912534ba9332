#!/usr/bin/env bash
# The chaos rig: scripts/chaos.sh SECONDS [options of chaos-rig]. Three gateways on one PostgreSQL under load are killed, stopped, cut off, their
# clocks set, the database killed and restarted; a program then holds what clients were told against the database. Before that it shows
# that the check notices what lands without the lock of a lease. Exit 0: all promises were kept. CAUSEWAY_SEED repeats a run's blows.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift
. scripts/rigs.sh
run() { "$rig/chaos-rig" --causeway "$rig/causeway" --work "$rig/chaos" "$@"; }
run --control
run --seconds "$seconds" ${CAUSEWAY_SEED:+--seed "$CAUSEWAY_SEED"} "$@"
