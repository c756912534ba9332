import { expect, test } from "vitest";

import { readEvent } from "../../model/envelope";
import { apply, emptyModel } from "../../model/model";
import { type Thread, talkOf } from "../conversation/talk";
import { type Row, compare, summary, verdict } from "./compare";
import { align, diffText } from "./diff";

type Step = readonly [type: string, data?: Record<string, unknown>, namespace?: string[], ms?: number];

function run(...steps: readonly Step[]): Thread {
  let ms = 0;
  const model = emptyModel();
  const raws = steps.map(([type, data = {}, namespace = [], later = 10], sequence) => {
    ms += later;
    return JSON.stringify({ version: 1, type, run_id: "r", conversation_id: "c", sequence, timestamp: new Date(ms).toISOString(), namespace, data });
  });
  for (const raw of raws) {
    const read = readEvent(raw);
    if (read) apply(model, read.envelope);
  }
  return talkOf(model, (sequence) => raws[sequence] ?? null);
}

const say = (id: string, text: string, namespace: string[] = []): Step[] => [
  ["text.started", { message_id: id }, namespace],
  ["text.delta", { message_id: id, delta: text }, namespace],
  ["text.finished", { message_id: id }, namespace],
];
const use = (id: string, name: string, given: unknown, result: string, ms = 10, namespace: string[] = []): Step[] => [
  ["tool.started", { tool_call_id: id, tool_name: name, arguments: given }, namespace],
  ["tool.finished", { tool_call_id: id, result }, namespace, ms],
];
const END: Step = ["run.finished", { outcome: "success" }];

function name(row: Row): string {
  const piece = row.left ?? row.right;
  return piece?.kind === "call" ? piece.name : (piece?.kind ?? "");
}

function told(rows: readonly Row[]): string {
  return rows
    .map((row) => {
      const changes = row.changes.map((change) => `${change.what}: ${change.stretches.map((one) => (one.side === "both" ? one.text : one.side === "left" ? `[-${one.text}-]` : `{+${one.text}+}`)).join("")}`);
      const time = row.time && row.time.verdict !== "alike" ? ` ${row.time.verdict}` : "";
      return `${row.state} ${name(row)}${time}${changes.length > 0 ? ` ${changes.join(", ").replaceAll(/\s+/g, " ")}` : ""}${row.children.length > 0 ? ` (${told(row.children)})` : ""}`;
    })
    .join("; ");
}

test("runs that say and do the same are the same, whatever their ids", () => {
  const one = run(...say("m1", "Hello."), ...use("t1", "find", { a: 1, b: 2 }, "x"), END);
  const other = run(...say("m2", "Hello."), ...use("t2", "find", { b: 2, a: 1 }, "x"), END);
  expect(told(compare(one, other))).toBe("same text; same find; same end");
});

test("added, removed, changed and slower are told", () => {
  const one = run(...say("a", "Let me look at it."), ...use("b", "find", { q: "x" }, "1"), ...use("c", "read", {}, "r"), ...say("d", "Done."), END);
  const other = run(...say("a", "Let me think about it."), ...use("b", "find", { q: "y" }, "1", 900), ...say("x", "Hm."), ...use("c", "write", {}, "w"), ...say("d", "Done."), END);
  const rows = compare(one, other);
  expect(told(rows)).toBe(
    'changed text text: Let me [-look at-]{+think about+} it.; changed find slower arguments: { "q": "[-x-]{+y+}" }; ' +
      "removed read; added text; added write; same text; same end",
  );
  expect(summary(rows)).toEqual({ added: 2, removed: 1, changed: 2, slower: 1, faster: 0 });
});

test("the same call stands opposite itself where others of its name come before", () => {
  const one = run(...use("a", "get", { n: 1 }, "1"), ...use("b", "get", { n: 2 }, "2"), END);
  const other = run(...use("x", "get", { n: 0 }, "0"), ...use("a", "get", { n: 1 }, "1"), ...use("b", "get", { n: 2 }, "2"), END);
  expect(told(compare(one, other))).toBe("added get; same get; same get; same end");
});

test("subagents are compared inside their calls", () => {
  const child = (text: string, outcome: string): Step[] => [
    ["tool.started", { tool_call_id: "t", tool_name: "task", arguments: {} }],
    ["namespace.entered", { agent_name: "Aide", agent_id: "a", parent_tool_call_id: "t" }, ["t"]],
    ...say("m", text, ["t"]),
    ["namespace.exited", { outcome }, ["t"]],
    ["tool.finished", { tool_call_id: "t", result: "r" }],
  ];
  expect(told(compare(run(...child("mild", "success"), END), run(...child("cold", "error"), END)))).toBe(
    "changed task agent: Aide ([-success-]{+error+}) (changed text text: [-mild-]{+cold+}); same end",
  );
  expect(told(compare(run(END), run(...child("cold", "success"), END)))).toBe("added task (added text); same end");
});

test("questions are compared without their ids, ends by what they say", () => {
  const asked = (id: string, args: unknown, end: Step): Thread =>
    run(["interrupt.requested", { interrupt_id: id, interrupt_type: "tool_approval", tool_approvals: [{ tool_call_id: id, tool_name: "rm", tool_args: args }] }], end);
  const end: Step = ["run.interrupted", { interrupt_id: "x", reason: "tool_approval" }];
  expect(told(compare(asked("a", {}, end), asked("b", {}, end)))).toBe("same question; same end");
  const failed: Step = ["run.error", { code: "harness_timeout", message: "It took too long.", retryable: true, side_effect_status: "none" }];
  expect(told(compare(asked("a", {}, end), asked("b", {}, failed)))).toBe(
    "same question; changed end outcome: [-Ended with a question. Its answer starts the next run.-]" +
      "{+Failed: harness_timeout. It took too long. Trying again may help. No tool had started.+}",
  );
});

test("a difference in time needs both the least and the factor", () => {
  const threshold = { least: 100, factor: 1.5 };
  expect(verdict(10, 90, threshold)).toBe("alike");
  expect(verdict(1000, 1400, threshold)).toBe("alike");
  expect(verdict(1000, 1501, threshold)).toBe("slower");
  expect(verdict(1501, 1000, threshold)).toBe("faster");
});

test("an alignment keeps the order of both sides and loses nothing, with and without a table", () => {
  const numbers = (count: number, step: number) => Array.from({ length: count }, (_, index) => index * step);
  for (const [left, right] of [
    [numbers(40, 2), numbers(40, 3)],
    [[], numbers(3, 1)],
    [numbers(3000, 2), numbers(3000, 3)],
  ] as const) {
    const pairs = align(left, right, (a, b) => (a === b ? 1 : 0), (a, b) => a === b);
    expect(pairs.flatMap(([a]) => (a === null ? [] : [a]))).toEqual(left);
    expect(pairs.flatMap(([, b]) => (b === null ? [] : [b]))).toEqual(right);
    expect(pairs.every(([a, b]) => a === null || b === null || a === b)).toBe(true);
    const common = left.filter((one) => right.includes(one)).length;
    if (left.length < 100) expect(pairs.filter(([a, b]) => a !== null && b !== null).length).toBe(common);
  }
});

test("a text of any size has its differences, and the sides read back", () => {
  const long = "word ".repeat(200_000);
  for (const [left, right] of [
    ["", "new"],
    ["a b c", "a c"],
    ["x".repeat(300_000), "y".repeat(300_000)],
    [`${"line\n".repeat(4000)}end`, `${"row\n".repeat(4000)}end`],
    [long, `${long}!`],
  ] as const) {
    const stretches = diffText(left, right);
    const read = (side: string) => stretches.flatMap((one) => (one.side === "both" || one.side === side ? [one.text] : [])).join("");
    expect(read("left") === left && read("right") === right).toBe(true);
  }
});
