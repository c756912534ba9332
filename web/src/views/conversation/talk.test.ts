import { expect, test } from "vitest";

import { write } from "../../exact";
import { readEvent } from "../../model/envelope";
import { apply, emptyModel } from "../../model/model";
import { type Piece, type Thread, endInWords, talkOf } from "./talk";

type Step = readonly [type: string, data?: Record<string, unknown> | string, namespace?: string[]];

function run(...steps: readonly Step[]): (until?: number) => string {
  const raws = steps.map(([type, data = {}, namespace = []], sequence) => {
    const timestamp = new Date(Date.UTC(2026, 0, 1) + sequence * 100).toISOString();
    const head = JSON.stringify({ version: 1, type, run_id: "r", conversation_id: "c", sequence, timestamp, namespace });
    return `${head.slice(0, -1)},"data":${typeof data === "string" ? data : JSON.stringify(data)}}`;
  });
  const model = emptyModel();
  for (const raw of raws) {
    const read = readEvent(raw);
    if (read) apply(model, read.envelope);
  }
  return (until) => outline(talkOf(model, (sequence) => raws[sequence] ?? null, until ?? null));
}

function told(piece: Piece): string {
  switch (piece.kind) {
    case "text":
    case "reasoning":
      return `${piece.kind} ${piece.text}${piece.ended === null ? "…" : ""}`;
    case "call":
      return `${piece.name}(${piece.streamed || write(piece.given)}) ${piece.state} ${piece.result ?? piece.error?.code ?? ""}${piece.children.map((child) => ` ${outline(child)}`).join("")}`;
    case "question":
      return `question ${piece.id} ${write(piece.request).length}`;
    case "notice":
      return `notice ${piece.code}`;
    case "end":
      return endInWords(piece).title;
  }
}

function outline(thread: Thread): string {
  return `${thread.agentName || "root"}[${thread.pieces.map(told).join("; ")}]${thread.path.length === 0 ? "" : ` ${thread.outcome}`}`;
}

const BUSY = run(
  ["run.started", { harness_id: "h", adapter_version: "1" }],
  ["text.started", { message_id: "m", role: "assistant" }],
  ["text.delta", { message_id: "m", delta: "Let me " }],
  ["tool.started", '{"tool_call_id":"t","tool_name":"task","arguments":{"what":9007199254740993}}'],
  ["namespace.entered", { agent_id: "a", agent_name: "Researcher", parent_tool_call_id: "t" }, ["t"]],
  ["reasoning.started", { message_id: "m" }, ["t"]],
  ["reasoning.delta", { message_id: "m", delta: "hm" }, ["t"]],
  ["text.delta", { message_id: "m", delta: "look." }, ["t"]],
  ["tool.started", { tool_call_id: "u", tool_name: "find", arguments: {} }, ["t"]],
  ["tool.arguments.delta", { tool_call_id: "u", delta: '{"q":' }, ["t"]],
  ["tool.arguments.delta", { tool_call_id: "u", delta: "1}" }, ["t"]],
  ["tool.error", { tool_call_id: "u", code: "tool_error", message: "no", retryable: false }, ["t"]],
  ["namespace.exited", { agent_id: "a", parent_tool_call_id: "t", outcome: "success" }, ["t"]],
  ["tool.finished", { tool_call_id: "t", result: "done", result_ref: "ref" }],
  ["warning", { code: "odd", message: "odd" }],
  ["text.finished", { message_id: "m" }],
  ["run.finished", { outcome: "success" }],
);

test("messages, calls and subagents stand where they happened, numbers as they were written", () => {
  expect(BUSY()).toBe(
    'root[text Let me look.; task({"what":9007199254740993}) finished done Researcher[reasoning hm…; find({"q":1}) failed tool_error] success; notice odd; Finished]',
  );
});

test("the talk after an event is what was known then", () => {
  expect(BUSY(0)).toBe("root[]");
  expect(BUSY(2)).toBe("root[text Let me …]");
  expect(BUSY(9)).toBe(
    'root[text Let me look.…; task({"what":9007199254740993}) running  Researcher[reasoning hm…; find({"q":) running ] open]',
  );
  expect(BUSY(13)).toContain("finished done");
});

test("a question leaves its calls asked, a cancel leaves them open", () => {
  const asked = run(
    ["tool.started", { tool_call_id: "t", tool_name: "rm", arguments: {} }],
    ["interrupt.requested", { interrupt_id: "i", interrupt_type: "tool_approval", agent_id: "a", tool_approvals: [{ tool_call_id: "t" }] }],
    ["run.interrupted", { interrupt_id: "i", reason: "tool_approval" }],
  );
  expect(asked()).toBe("root[rm({}) asked ; question i 108; Ended with a question]");
  expect(asked(0)).toBe("root[rm({}) running ]");
  const left = run(["tool.started", { tool_call_id: "t", tool_name: "rm", arguments: {} }], ["run.cancelled", { reason: "deadline", side_effect_status: "possible" }]);
  expect(left()).toBe("root[rm({}) left ; Cancelled]");
});

test("an end says what it means for whoever reads it", () => {
  expect(endInWords({ type: "run.cancelled", reason: "deadline", error: null, sideEffects: "possible" }).text).toBe(
    "Its time was over. A tool was at work: what it did is not known.",
  );
  const error = { code: "harness_timeout", message: "It was silent.", retryable: true, side_effect_status: "none" };
  expect(endInWords({ type: "run.error", reason: "harness_timeout", error, sideEffects: "none" })).toEqual({
    tone: "bad",
    title: "Failed: harness_timeout",
    text: "It was silent. Trying again may help. No tool had started.",
  });
});

test("every stream of the contract is told without a fault, after each of its events", () => {
  const streams = import.meta.glob<string>("../../../../contract/streams/*/*.jsonl", { query: "?raw", import: "default", eager: true });
  expect(Object.keys(streams).length).toBeGreaterThan(50);
  for (const [file, text] of Object.entries(streams)) {
    const model = emptyModel();
    const raws = new Map<number, string>();
    for (const line of text.trimEnd().split("\n")) {
      const read = readEvent(line);
      if (read === null) continue;
      raws.set(read.event.sequence, line);
      apply(model, read.envelope);
      expect(() => outline(talkOf(model, (sequence) => raws.get(sequence) ?? null)), file).not.toThrow();
    }
  }
});
