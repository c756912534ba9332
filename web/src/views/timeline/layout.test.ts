import { expect, test } from "vitest";
import type { Envelope, EventType } from "../../model/envelope";
import { apply, emptyModel } from "../../model/model";
import { clamp, layout, tickStep, zoom } from "./layout";

function built(events: readonly [EventType, number, object, string[]?][]) {
  const model = emptyModel();
  events.forEach(([type, ms, data, namespace], sequence) => {
    const timestamp = new Date(ms).toISOString();
    apply(model, { version: 1, type, run_id: "r", conversation_id: "c", sequence, timestamp, namespace: namespace ?? [], data } as unknown as Envelope);
  });
  return model;
}

const tool = (id: string) => ({ tool_call_id: id, tool_name: id, arguments: {} });

const parallel = built([
  ["run.started", 0, { harness_id: "h", adapter_version: "1" }],
  ["tool.started", 10, tool("a")],
  ["tool.started", 20, tool("b")],
  ["namespace.entered", 25, { agent_id: "x", agent_name: "X", parent_tool_call_id: "a" }, ["a"]],
  ["text.started", 30, { message_id: "m", role: "assistant" }, ["a"]],
  ["tool.finished", 40, { tool_call_id: "b", result: "" }],
  ["tool.started", 50, tool("c")],
  ["text.finished", 60, { message_id: "m" }, ["a"]],
  ["namespace.exited", 70, { agent_id: "x", parent_tool_call_id: "a", outcome: "success" }, ["a"]],
  ["tool.error", 80, { tool_call_id: "c", code: "tool_error", message: "", retryable: false }],
  ["tool.finished", 90, { tool_call_id: "a", result: "" }],
  ["run.finished", 100, { outcome: "success" }],
]);

const where = (axis: "time" | "events") =>
  Object.fromEntries(layout(parallel, axis, () => 0).bars.map((bar) => [bar.kind === "tool" ? bar.label : bar.kind, [bar.row, bar.from, bar.to, bar.tone]]));

test("what went on at the same time stands in different rows, what did not shares one", () => {
  expect(where("time")).toEqual({
    a: [0, 10, 90, "ok"],
    b: [1, 20, 40, "ok"],
    c: [1, 50, 80, "bad"],
    subagent: [2, 25, 70, "ok"],
    text: [3, 30, 60, "none"],
  });
});

test("by events the same bars stand at their numbers", () => {
  expect(where("events")).toEqual({
    a: [0, 1, 10, "ok"],
    b: [1, 2, 5, "ok"],
    c: [1, 6, 9, "bad"],
    subagent: [2, 3, 8, "ok"],
    text: [3, 4, 7, "none"],
  });
});

test("lanes follow the calls, and marks have their places", () => {
  const all = layout(parallel, "time", () => 33, [{ sequence: 4, label: "L01", kind: "lint" }]);
  expect(all.lanes.map((lane) => [lane.name, lane.depth, lane.row, lane.rows])).toEqual([
    ["root", 0, 0, 2],
    ["X", 1, 2, 2],
  ]);
  expect(all.marks.map((mark) => [mark.kind, mark.at, mark.tone])).toEqual([
    ["lint", 33, "warn"],
    ["terminal", 100, "ok"],
  ]);
});

test("a call that is open when the run has ended is not shown as running", () => {
  const model = built([
    ["run.started", 0, { harness_id: "h", adapter_version: "1" }],
    ["tool.started", 10, tool("a")],
    ["run.finished", 20, { outcome: "success" }],
  ]);
  expect(layout(model, "time", () => 0).bars.map((bar) => [bar.tone, bar.to])).toEqual([["unsure", 20]]);
});

test("a window stays inside the whole, and zooms around its point", () => {
  const whole = { from: 0, to: 100 };
  expect(clamp({ from: -10, to: 20 }, whole)).toEqual({ from: 0, to: 30 });
  expect(clamp({ from: 90, to: 120 }, whole)).toEqual({ from: 70, to: 100 });
  expect(clamp({ from: -10, to: 500 }, whole)).toEqual(whole);
  expect(zoom(whole, whole, 0.5, 25)).toEqual({ from: 12.5, to: 62.5 });
  expect(zoom({ from: 12.5, to: 62.5 }, whole, 4, 25)).toEqual(whole);
});

test("ticks are round", () => {
  expect([tickStep(100, 10), tickStep(7, 10), tickStep(1234, 6)]).toEqual([10, 1, 500]);
});
