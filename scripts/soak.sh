#!/usr/bin/env bash
# The long figures: load and latency of the gateway, and 1,000 kills (50 with the live worker). The output is docs/soak.md.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --package causeway-cli
causeway="${CARGO_TARGET_DIR:-$PWD/target}/release/causeway"
out="${SOAK_OUT:-docs/soak.md}"
mkdir -p target

few=$("$causeway" bench service --runs 200 --rate 50 --events 1500)
many=$("$causeway" bench service --runs 1000 --rate 50 --events 500)
started=$(date +%s)
scripts/crash.sh "${SOAK_KILLS:-1000}" "${SOAK_LIVE_KILLS:-50}" --lanes 3 "$@" | tee target/crash.log
kill_seconds=$(($(date +%s) - started))

scripts/chaos.sh "${SOAK_CHAOS_SECONDS:-600}" | tee target/chaos.log

CAUSEWAY_BIN="$causeway" scripts/schemathesis.sh "${SOAK_SCHEMATHESIS_EXAMPLES:-500}" "$RANDOM" | tee target/schemathesis.log

CAUSEWAY_STALLED_LONG=1 cargo test --release --locked --package causeway-cli --test attacks stalled_readers -- --nocapture \
    2>&1 | tee target/stalled.log

{
    printf '# Soak\n\nMade by `make soak` on %s cores (%s), %s. The gateway and all its clients share the cores.\n' \
        "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(date -u +%Y-%m-%d)"
    printf '\n## 200 runs at 50 events/s each, one subscriber a run, SQLite with synchronous=FULL\n\n```json\n%s\n```\n' "$few"
    printf '\n## The same with 1,000 runs, as it is\n\n```json\n%s\n```\n' "$many"
    printf '\nAdded latency is the time from the timestamp the engine gave an event to its last byte at the client, on one clock: it holds the append, its fsync, the encoder and the socket.\n'
    printf '\n## Kills\n\nThe crash rig ([durability](durability.md#the-crash-rig)): SIGKILL at a failpoint or at a moment of its own, restart, and a check of everything that clients were told; in %s s.\n' "$kill_seconds"
    printf '\n```text\n%s\n```\n' "$(grep -E '^(seed|control|recording driver|live deepagents worker|failpoints|SKIPPED|[0-9,]+ kills)' target/crash.log)"
    printf '\n## Chaos\n\nThe chaos rig ([durability](durability.md#the-chaos-rig)): three gateways on one PostgreSQL, killed, stopped, cut off, their clocks set, the database killed and restarted.\n'
    printf '\n```text\n%s\n```\n' "$(grep -E '^(seed|control|SKIPPED|3 gateways|[0-9,]+ acknowledged)' target/chaos.log)"
    printf '\n## Stalled readers\n\n```text\n%s\n```\n' "$(grep -E '^stalled readers' target/stalled.log)"
    printf '\n## Requests from the OpenAPI document\n\n```text\n%s\n```\n' "$(grep -E '^(Seed|SKIPPED|schemathesis|  [0-9,]+ generated)' target/schemathesis.log)"
} > "$out"
grep -E '^([0-9,]+ kills|seed)' target/crash.log | sort -u
echo "soak: wrote $out"
