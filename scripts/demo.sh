#!/usr/bin/env bash
# The main job on a fresh machine: build, start a gateway on SQLite with two agents, run real harness streams through it,
# kill it in mid-run, restart, replay. Stays up until Ctrl-C; DEMO_ONCE=1 exits 0 after the show.
set -euo pipefail
cd "$(dirname "$0")/.."

home="${DEMO_HOME:-$PWD/target/demo}"
pause="${DEMO_PAUSE:-1}"
[ -n "${DEMO_ONCE:-}" ] && pause=0
bold=$(tput bold 2>/dev/null || true); dim=$(tput dim 2>/dev/null || true); plain=$(tput sgr0 2>/dev/null || true)
say() { printf '\n%s▶ %s%s\n' "$bold" "$1" "$plain"; sleep "$pause"; }
show() { printf '%s$ %s%s\n' "$dim" "$1" "$plain"; }
fail() { printf '\ndemo: %s\n' "$1" >&2; exit 1; }
for tool in cargo python3 curl; do
    command -v "$tool" >/dev/null || fail "needs $tool; install it and run make demo again"
done

say "Building causeway"
cargo build --locked --package causeway-cli
causeway="$PWD/target/debug/causeway"
[ -n "${CARGO_TARGET_DIR:-}" ] && causeway="$CARGO_TARGET_DIR/debug/causeway"

say "Installing the deepagents worker's own Python environment (pinned requirements, once)"
live=yes
mkdir -p target/deepagents
examples/deepagents/setup.sh target/deepagents || live=no
[ "$live" = no ] && echo "demo: no environment for the live worker (see above); going on with the recorded agent only"

# A folder that another demo still uses is left alone.
if [ -f "$home/pid" ] && kill -0 "$(cat "$home/pid")" 2>/dev/null; then
    fail "another demo is running with $home; stop it (Ctrl-C), or set DEMO_HOME to another folder"
fi
rm -rf "$home"; mkdir -p "$home"
echo $$ > "$home/pid"
{
    printf '[server]\nlisten = "127.0.0.1:%s"\n[store]\nkind = "sqlite"\npath = "%s/data"\n' "${DEMO_PORT:-0}" "$home"
    printf '[agents.tour]\nharness = "deepagents"\n[agents.tour.driver.recording]\nfile = "%s"\npace = "recorded"\n' \
        "$PWD/examples/recordings/subagents.jsonl"
    if [ "$live" = yes ]; then
        printf '[agents.helper]\nharness = "deepagents"\n[agents.helper.driver.process]\n'
        printf 'command = ["%s", "%s", "--db", "{data_dir}/workers/{conversation}.{epoch}.sqlite"]\n' \
            "$PWD/target/deepagents/.venv/bin/python" "$PWD/examples/deepagents/worker.py"
    fi
} > "$home/causeway.toml"

gateway=
stop() { [ -n "$gateway" ] && kill "$gateway" 2>/dev/null && wait "$gateway" 2>/dev/null; gateway=; return 0; }
trap stop EXIT
trap 'exit 0' INT TERM
start() {
    "$causeway" serve --config "$home/causeway.toml" > "$home/serve.out" 2>> "$home/serve.log" &
    gateway=$!
    for _ in $(seq 150); do
        url=$(grep -om1 'http://[0-9.:]*' "$home/serve.out" || true)
        [ -n "$url" ] && curl -sf "$url/readyz" >/dev/null && return 0
        kill -0 "$gateway" 2>/dev/null || { tail -n 5 "$home/serve.log" >&2; fail "the gateway did not start"; }
        sleep 0.1
    done
    fail "the gateway was not ready within 15 s; see $home/serve.log"
}
# send AGENT CONVERSATION MESSAGE PROTOCOL: the stream scrolls by and is kept, with its headers.
send() {
    show "curl -N $url/api/v1/chat/stream/start -d '{\"agent_id\":\"$1\",…,\"protocol\":\"$4\"}'"
    curl -sN --max-time 120 -D "$home/headers" -H 'content-type: application/json' "$url/api/v1/chat/stream/start" \
        -d "{\"agent_id\":\"$1\",\"conversation_id\":\"$2\",\"message\":\"$3\",\"protocol\":\"$4\"}" \
        | tee "$home/body" | cut -c1-150 | grep -v '^$'
    run=$(tr -d '\r' < "$home/headers" | sed -n 's/^x-causeway-run-id: //p')
    [ -n "$run" ] || fail "the stream named no run"
}
status_of() { curl -sf "$url/api/v1/runs/$1" | python3 -c 'import json,sys; r=json.load(sys.stdin); print(r["status"], (r.get("error") or {}).get("code",""))'; }

start
say "A gateway is up at $url, on one SQLite file. First a recorded real run with two subagents, as custom SSE"
send tour demo-1 "Compare the two services" custom
[ "$(status_of "$run")" = "finished " ] || fail "the recorded run did not finish"

if [ "$live" = yes ]; then
    say "Now a live deepagents worker (a real LangGraph process with a scripted model), as AG-UI SSE"
    send helper demo-2 "What is the weather in Paris?" agui
    echo "status: $(status_of "$run")"
fi

say "Replay from the store: the same bytes, as often as you like"
protocol=custom; [ "$live" = yes ] && protocol=agui
curl -sN --max-time 30 "$url/api/v1/runs/$run/stream?protocol=$protocol" | grep -v '^id: ' > "$home/replay"
cmp "$home/body" "$home/replay" || fail "the replay differs from the live stream"
echo "$(wc -c < "$home/replay") bytes, identical to the live stream (but for the id lines that make it resumable)"

say "Kill the gateway (SIGKILL) in the middle of a run"
run=$(curl -sf -H 'content-type: application/json' "$url/api/v1/runs" \
    -d '{"agent_id":"tour","conversation_id":"demo-3","message":"Compare them again"}' \
    | python3 -c 'import json,sys; print(json.load(sys.stdin)["run_id"])')
curl -sN --max-time 1 "$url/api/v1/runs/$run/stream?protocol=agui" > "$home/before" || true
kill -9 "$gateway"; wait "$gateway" 2>/dev/null || true; gateway=
before=$(grep -c '^id: ' "$home/before" || true)
echo "a client had seen $before events when it died"

say "Restart: every event that was shown is still there, and the run gets its one truthful terminal"
start
curl -sN --max-time 30 "$url/api/v1/runs/$run/stream?protocol=agui" > "$home/after"
tail -n 4 "$home/after"
head -c "$(wc -c < "$home/before")" "$home/after" | cmp - "$home/before" \
    || [ "$(grep -c '^id: ' "$home/after")" -ge "$before" ] || fail "an event that was shown is gone"
echo "status: $(status_of "$run")"
show "causeway runs list --url $url"
"$causeway" runs list --url "$url"

say "What to try next"
cat <<TXT
  open $url/ in a browser: the inspector; this run is at $url/#/run/$run, and "Start a run" talks to an agent
  $causeway runs show $run --url $url
  $causeway runs export $run --url $url | $causeway check
  $causeway explain R13
  curl -N '$url/api/v1/runs/$run/stream?protocol=canonical'
  curl -N -H 'last-event-id: 3' '$url/api/v1/runs/$run/stream?protocol=agui'
  the configuration is $home/causeway.toml, the log $home/serve.log
TXT
if [ -n "${DEMO_ONCE:-}" ]; then
    echo "demo: done"
    exit 0
fi
echo "The gateway stays up at $url; Ctrl-C stops it."
wait "$gateway"
