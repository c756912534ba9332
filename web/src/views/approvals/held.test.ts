import { expect, test } from "vitest";

import { parse } from "../../exact";
import { type Held, held } from "./held";
import { type Pending, pendingOf, settledOf } from "./pending";

function json(text: string) {
  const parsed = parse(text);
  if (!parsed.ok) throw new Error(parsed.fault.message);
  return parsed.value;
}

const waits = (interruptId: string): Pending => pendingOf(json(`{"run_id":"r","interrupt":{"interrupt_id":"${interruptId}","interrupt_type":"form_input"}}`));
const told = (all: readonly Held[]) => all.map(({ pending, gone }) => `${pending.interruptId}${gone ? " gone" : ""}`);

test("what waits is shown in its order, what is settled stays until it is put away", () => {
  const first = held([], [waits("a"), waits("b")], new Set());
  expect(told(first)).toEqual(["a", "b"]);
  const second = held(first, [waits("c"), waits("b")], new Set());
  expect(told(second)).toEqual(["a gone", "b", "c"]);
  expect(told(held(second, [waits("b")], new Set(["a"])))).toEqual(["b", "c gone"]);
  expect(told(held([], [waits("a")], new Set(["a"])))).toEqual([]);
});

test("a question is read with its numbers as written, and without decisions named all are allowed", () => {
  const pending = pendingOf(
    json(
      '{"run_id":"r","conversation_id":"c","agent_id":"helper","revision":3,"expires_at":null,"interrupt":{"interrupt_id":"i","interrupt_type":"tool_approval","agent_id":"a",' +
        '"tool_approvals":[{"tool_call_id":"t","tool_name":"rm","tool_args":{"n":1.0},"allowed_decisions":[]},{"tool_call_id":"u","tool_name":"rm","tool_args":{},"allowed_decisions":["reject","approve"]}]}}',
    ),
  );
  expect(pending).toMatchObject({ revision: 3, expiresAt: null, asks: "a" });
  const { question } = pending;
  expect(question.kind === "approvals" && question.approvals.map(({ allowed }) => allowed)).toEqual([
    ["approve", "edit", "reject"],
    ["approve", "reject"],
  ]);
});

test("a decision record says who, when, through which route, and what", () => {
  const record = '{"answered_by":"kim","answered_at":"2026-01-01T00:00:00Z","route":"/r","decisions":[{"tool_call_id":"t","decision":"reject","message":"no"}]}';
  expect(settledOf(json(`{"resumed_by":"r2","interrupt":{"status":"consumed","decision":${record}}}`))).toMatchObject({
    status: "consumed",
    answered: true,
    by: "kim",
    route: "/r",
    resumedBy: "r2",
    decisions: [{ callId: "t", verb: "reject", message: "no", args: null }],
  });
  expect(settledOf(json('{"interrupt":{"status":"expired"}}'))).toMatchObject({ status: "expired", answered: false, resumedBy: null });
});
