"""The agent the worker runs. THIS is the file to replace with your own (README.md, "A worker of your own").

`build(checkpointer, script)` gives the compiled graph. The one below is made from a script, so that it needs no model.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

os.environ.setdefault("LANGSMITH_TRACING", "false")

from deepagents import create_deep_agent
from langchain.agents.middleware import SummarizationMiddleware, ToolRetryMiddleware

import tools
from gate import gated
from scripted_model import ScriptedChatModel

DEMO = pathlib.Path(__file__).parent / "scripts" / "demo.json"


def build(checkpointer: Any, script: str | None = None) -> Any:
    """The graph for the script in that file, or for the demo."""
    return from_script(json.loads(pathlib.Path(script or DEMO).read_text(encoding="utf-8")), checkpointer)


def asks_for(name: str) -> Any:
    """A tool that the gateway runs; its schema is the one the gateway checks."""
    file = pathlib.Path(__file__).parent / "schemas" / f"{name}.json"
    return gated(name, f"{name}, run by the gateway.", json.loads(file.read_text(encoding="utf-8")))


def from_script(scene: dict[str, Any], checkpointer: Any) -> Any:
    def model(agent: str) -> ScriptedChatModel:
        keys = ("plays", "style", "piece", "delay")
        more = {key: scene[key] for key in keys if key in scene}
        if "max_input_tokens" in scene:  # deepagents sums a history up when this is nearly used
            more["profile"] = {"max_input_tokens": scene["max_input_tokens"]}
        return ScriptedChatModel(agent=agent, script=scene.get("script", {}), **more)

    def named(names: list[str]) -> list[Any]:
        return [tools.BY_NAME[name] for name in names]

    subagents = []
    for helper in scene.get("subagents", []):
        spec = {
            "name": helper["name"],
            "description": helper.get("description", helper["name"]),
            "system_prompt": "You help.",
            "tools": named(helper.get("tools", [])),
            "model": model(helper["name"]),
        }
        if helper.get("interrupt_on"):
            spec["interrupt_on"] = helper["interrupt_on"]
        subagents.append(spec)

    middleware: list[Any] = []
    if scene.get("tool_retry"):
        middleware.append(ToolRetryMiddleware(max_retries=1, initial_delay=0.01, jitter=False))
    if "summarize_after" in scene:
        trigger = ("messages", scene["summarize_after"])
        middleware.append(SummarizationMiddleware(model=model("summary"), trigger=trigger, keep=("messages", 1)))

    return create_deep_agent(
        model=model("root"),
        tools=named(scene.get("tools", [])) + [asks_for(name) for name in scene.get("gated", [])],
        system_prompt="You are a scripted agent.",
        subagents=subagents,
        interrupt_on=scene.get("interrupt_on") or {},
        middleware=middleware,
        checkpointer=checkpointer,
        name=scene.get("agent_name", "scripted-agent"),
    )
