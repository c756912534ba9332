"""Runs schemathesis against a gateway with recorded agents, and sees the gateway leave in good order.

The document is the served one; only the ids that exist (agents, runs, conversations) are written into it, so that requests
get past the first 404. Every wait has a bound."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests/data/recordings/deepagents"
AGENTS = {"tour": "tools_parallel", "asks": "approve", "form": "form_submit"}
ANSWERS = [
    '{"type":"form_input","dismissed":true}',
    '{"type":"form_input","values":{"name":"x"}}',
    '{"type":"tool_approval","decision":"approve"}',
    '{"type":"tool_approval","decisions":[{"decision":"reject","message":"no"}]}',
]
PATIENCE = 120
LONGEST = 1800


def settings() -> str:
    text = ""
    for agent, recording in AGENTS.items():
        file = json.dumps(str(RECORDINGS / f"{recording}.jsonl"))
        text += f'[agents.{agent}]\nharness = "deepagents"\ndriver.recording = {{ file = {file}, pace = "fast" }}\n'
    return text


def call(url: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def seed(url: str) -> tuple[list[str], list[str]]:
    """One ended run of each agent; the ids of runs and conversations."""
    runs, conversations = [], []
    for agent in AGENTS:
        conversation = f"seeded-{agent}"
        run = call(f"{url}/api/v1/runs", {"agent_id": agent, "conversation_id": conversation, "message": "hello"})
        runs.append(run["run_id"])
        conversations.append(conversation)
    until = time.monotonic() + PATIENCE
    while any(call(f"{url}/api/v1/runs/{run}")["status"] == "running" for run in runs):
        assert time.monotonic() < until, "the seeded runs did not end"
        time.sleep(0.05)
    return runs, conversations


def with_known_ids(document: dict, runs: list[str], conversations: list[str]) -> dict:
    """Most values of an id's schema are unknown ids: has the ones that exist stand beside them."""
    known = lambda some: {"enum": [*some, "nobody"]}
    also = lambda some, schema: {"anyOf": [{"enum": some}, schema]}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                name = parameter["name"]
                if name == "agent_id" and parameter["in"] == "path":
                    parameter["schema"] = known(AGENTS)
                elif name == "agent_id":
                    parameter["schema"] = also(list(AGENTS), parameter["schema"])
                elif name == "conversation_id" or (name == "id" and "runs" not in path):
                    parameter["schema"] = also(conversations, parameter["schema"])
                elif name == "id":
                    parameter["schema"] = known(runs)
    schemas = document["components"]["schemas"]
    for name in ("ChatStart", "ChatInvoke", "ChatResume", "ChatCancel", "RunStart"):
        members = schemas[name]["properties"]
        members["agent_id"] = known(AGENTS)
        members["conversation_id"] = also(conversations, members["conversation_id"])
    schemas["ChatResume"]["properties"]["resume_data"] = also(ANSWERS, {"type": "string"})
    return document


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--causeway", required=True)
    arguments.add_argument("--examples", type=int, required=True)
    arguments.add_argument("--seed", type=int, required=True)
    given = arguments.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "causeway.toml").write_text(settings())
        log = place / "gateway.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CAUSEWAY_")}
        serve = [given.causeway, "serve", "--config", str(place / "causeway.toml"), "--listen", "127.0.0.1:0"]
        with log.open("w") as stderr:
            gateway = subprocess.Popen(
                [*serve, "--data", str(place / "data")],
                stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True, env=environment,
            )
        try:
            line = gateway.stdout.readline()
            assert line.startswith("listening on "), log.read_text()
            url = line.removeprefix("listening on ").strip()
            document = with_known_ids(call(f"{url}/openapi.json"), *seed(url))
            (place / "openapi.json").write_text(json.dumps(document))
            code = subprocess.run(
                [
                    str(Path(sys.executable).parent / "schemathesis"), "--config-file",
                    str(Path(__file__).with_name("schemathesis.toml")), "run", str(place / "openapi.json"),
                    "--url", url, "--seed", str(given.seed), "--max-examples", str(given.examples), "--no-color",
                ],
                cwd=place, env={**environment, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(Path(__file__).parent)},
                timeout=LONGEST, check=False,
            ).returncode
            call(f"{url}/healthz")
        finally:
            gateway.send_signal(signal.SIGTERM)
            try:
                left = gateway.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                gateway.kill()
                raise
        text = log.read_text()
        faults = [line for line in text.splitlines() if "panicked" in line or " ERROR " in line]
        for fault in faults[:20]:
            print(f"the log of the gateway: {fault}")
        print(f"schemathesis: exit {code}; the gateway left with {left}, {len(faults)} faults in its log")
        return 1 if code or left or faults else 0


if __name__ == "__main__":
    sys.exit(main())
