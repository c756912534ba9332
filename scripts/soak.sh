#!/usr/bin/env bash
# The long figures: load and latency of the gateway, and 200 kills at random moments. The output is docs/soak.md.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --package causeway-cli
causeway="${CARGO_TARGET_DIR:-$PWD/target}/release/causeway"
out="${SOAK_OUT:-docs/soak.md}"
kills="${SOAK_KILLS:-200}"
mkdir -p target

few=$("$causeway" bench service --runs 200 --rate 50 --events 1500)
many=$("$causeway" bench service --runs 1000 --rate 50 --events 500)
started=$(date +%s)
CAUSEWAY_KILL_ROUNDS="$kills" cargo test --locked --package causeway-cli --test gateway -- --nocapture kill | tee target/kill.log
kill_seconds=$(($(date +%s) - started))
verdict=$(grep -E '^test result' target/kill.log | tail -n 1)
case "$verdict" in *" 0 failed"*) ;; *) echo "soak: the kill test did not pass" >&2; exit 1 ;; esac

{
    printf '# Soak\n\nMade by `make soak` on %s cores (%s), %s. The gateway and all its clients share the cores.\n' \
        "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(date -u +%Y-%m-%d)"
    printf '\n## 200 runs at 50 events/s each, one subscriber a run, SQLite with synchronous=FULL\n\n```json\n%s\n```\n' "$few"
    printf '\n## The same with 1,000 runs, as it is\n\n```json\n%s\n```\n' "$many"
    printf '\n## Kills\n\n%s rounds of SIGKILL at a random moment, restart, and a check that every acknowledged event is there once, every run has one terminal and no `run.finished` lacks its head: `%s`, in %s s.\n' \
        "$kills" "$verdict" "$kill_seconds"
    printf '\n```text\n%s\n```\n' "$(grep -E '^CAUSEWAY_KILL_SEED=|^[0-9]+ runs: ' target/kill.log)"
    printf '\nAdded latency is the time from the timestamp the engine gave an event to its last byte at the client, on one clock: it holds the append, its fsync, the encoder and the socket.\n'
} > "$out"
echo "soak: wrote $out"
