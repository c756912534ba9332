import { describe, expect, test } from "vitest";
import type { Envelope, EventType } from "./envelope";
import { readEvent } from "./envelope";
import { apply, emptyModel, glanceAt, stateAt, textAt } from "./model";

let next = 0;
function event(type: EventType, data: object, namespace: readonly string[] = []): Envelope {
  const sequence = next++;
  const timestamp = new Date(Date.UTC(2026, 0, 1) + sequence * 10).toISOString();
  return { version: 1, type, run_id: "r", conversation_id: "c", sequence, timestamp, namespace, data } as unknown as Envelope;
}

function model(events: readonly Envelope[]) {
  const built = emptyModel();
  for (const one of events) apply(built, one);
  return built;
}

function tour(): Envelope[] {
  next = 0;
  return [
    event("run.started", { harness_id: "deepagents", adapter_version: "1" }),
    event("text.started", { message_id: "m1", role: "assistant" }),
    event("text.delta", { message_id: "m1", delta: "Hel" }),
    event("text.delta", { message_id: "m1", delta: "lo" }),
    event("tool.started", { tool_call_id: "t1", tool_name: "task", arguments: {}, parent_message_id: "m1" }),
    event("tool.arguments.delta", { tool_call_id: "t1", delta: '{"a":' }),
    event("namespace.entered", { agent_id: "child", agent_name: "Child", parent_tool_call_id: "t1" }, ["t1"]),
    event("reasoning.started", { message_id: "m1" }, ["t1"]),
    event("reasoning.delta", { message_id: "m1", delta: "hm" }, ["t1"]),
    event("reasoning.finished", { message_id: "m1" }, ["t1"]),
    event("namespace.exited", { agent_id: "child", parent_tool_call_id: "t1", outcome: "success" }, ["t1"]),
    event("tool.arguments.delta", { tool_call_id: "t1", delta: "1}" }),
    event("tool.finished", { tool_call_id: "t1", result: "done" }),
    event("text.finished", { message_id: "m1" }),
    event("usage.updated", { input_tokens: 3, final: true }),
    event("run.finished", { outcome: "success", stop_reason: "end_turn" }),
  ];
}

describe("the state at an event", () => {
  test("is what had been said until then, and nothing later", () => {
    const run = model(tour());
    expect(stateAt(run, 2).messages.map((one) => [one.text, one.open])).toEqual([["Hel", true]]);
    const middle = stateAt(run, 8);
    expect(middle.messages.map((one) => [one.message.kind, one.text, one.open])).toEqual([
      ["text", "Hello", true],
      ["reasoning", "hm", true],
    ]);
    expect(middle.tools.map((one) => [one.outcome, one.arguments, one.result])).toEqual([["open", '{"a":', null]]);
    expect(middle.subagents.map((one) => one.outcome)).toEqual(["open"]);
    expect([middle.usage, middle.terminal]).toEqual([null, null]);
    const end = stateAt(run, 15);
    expect(end.tools.map((one) => [one.outcome, one.arguments, one.result])).toEqual([["ok", '{"a":1}', "done"]]);
    expect(end.subagents.map((one) => one.outcome)).toEqual(["success"]);
    expect(end.usage).toEqual({ input_tokens: 3, final: true });
    expect(end.terminal?.type).toBe("run.finished");
  });

  test("read off the whole run is the state of a run that stopped there, at every event", () => {
    const events = tour();
    const whole = model(events);
    for (let length = 1; length <= events.length; length += 1) {
      const part = model(events.slice(0, length));
      const of = (state: ReturnType<typeof stateAt>) => ({
        messages: state.messages.map((one) => [one.message.id, one.text, one.open]),
        tools: state.tools.map((one) => [one.tool.id, one.outcome, one.arguments, one.result]),
        subagents: state.subagents.map((one) => [one.subagent.namespace, one.outcome]),
        usage: state.usage,
        terminal: state.terminal?.sequence ?? null,
      });
      // Whether arguments are streamed is only known with the first delta; before it they are the start's own.
      const normal = (state: ReturnType<typeof of>) => ({ ...state, tools: state.tools.map(([id, outcome, args, result]) => [id, outcome, args === "{}" ? "" : args, result]) });
      expect(normal(of(stateAt(whole, length - 1)))).toEqual(normal(of(stateAt(part, length - 1))));
    }
  });
});

test("a glance says of every event what the whole state says", () => {
  const run = model(tour());
  for (let sequence = 0; sequence < 16; sequence += 1) {
    const state = stateAt(run, sequence);
    const glance = glanceAt(run, sequence, 2);
    expect([glance.messages, glance.tools, glance.openTools, glance.active.length, glance.warnings, glance.usage, glance.terminal]).toEqual([
      state.messages.length,
      state.tools.length,
      state.tools.filter((one) => one.outcome === "open").length,
      state.subagents.filter((one) => one.outcome === "open").length,
      state.warnings.length,
      state.usage,
      state.terminal,
    ]);
    const starts = [...state.messages.map((one) => one.message.start), ...state.tools.map((one) => one.tool.start)].sort((a, b) => a - b);
    expect(glance.pieces.map((one) => one.start)).toEqual(starts.slice(-2));
  }
});

test("a missing number is a gap, and is told", () => {
  const events = tour();
  expect(model(events.filter((one) => one.sequence !== 4)).gaps).toEqual([{ after: 3, next: 5 }]);
  expect(model(events).gaps).toEqual([]);
});

test("a refused call is not one that failed", () => {
  next = 0;
  const run = model([
    event("run.started", { harness_id: "h", adapter_version: "1" }),
    event("tool.started", { tool_call_id: "a", tool_name: "x", arguments: {} }),
    event("tool.started", { tool_call_id: "b", tool_name: "x", arguments: {} }),
    event("tool.error", { tool_call_id: "a", code: "tool_rejected", message: "no", retryable: false }),
    event("tool.error", { tool_call_id: "b", code: "tool_error", message: "bad", retryable: false }),
  ]);
  expect(run.tools.map((tool) => tool.outcome)).toEqual(["rejected", "error"]);
});

test("what does not fit changes nothing", () => {
  next = 0;
  const run = model([
    event("text.delta", { message_id: "none", delta: "x" }),
    event("tool.finished", { tool_call_id: "none", result: "x" }),
    event("namespace.exited", { agent_id: "a", parent_tool_call_id: "t", outcome: "success" }, ["gone"]),
  ]);
  expect([run.messages, run.tools, run.subagents, run.count]).toEqual([[], [], [], 3]);
});

test("text at an event before its first delta is empty", () => {
  expect(textAt({ text: "abc", sequences: [4, 9], ends: [1, 3] }, 3)).toBe("");
  expect(textAt({ text: "abc", sequences: [4, 9], ends: [1, 3] }, 8)).toBe("a");
});

test("a line that is no event is none", () => {
  expect(readEvent("{")).toBeNull();
  expect(readEvent("{}")).toBeNull();
});
