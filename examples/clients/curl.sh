#!/usr/bin/env bash
# Everything with curl alone: talk to an agent in both published protocols, and read the run again from any event.
set -euo pipefail
gateway="${CAUSEWAY_URL:-http://127.0.0.1:8787}"
agent="${1:-tour}"
json=(-H 'content-type: application/json')

echo "== AG-UI"
headers=$(mktemp)
trap 'rm -f "$headers"' EXIT
curl -sSN --fail-with-body -D "$headers" "${json[@]}" "$gateway/agui/$agent" -d '{
  "threadId": "curl-'$$'", "runId": "first", "messages": [{"id": "1", "role": "user", "content": "hello"}]}'

again=$(tr -d '\r' < "$headers" | sed -n 's/^content-location: //p')
echo "== the same run behind event 3, from $again"
curl -sSN --fail-with-body -H 'last-event-id: 3' "$gateway$again"

echo "== AI SDK"
curl -sSN --fail-with-body "${json[@]}" "$gateway/ui-message/$agent" -d '{
  "id": "curl-chat-'$$'", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]}'
