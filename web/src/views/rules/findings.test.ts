import { expect, test } from "vitest";

import type { Findings } from "../../api";
import { type Rule, bySequence, example, grouped } from "./findings";

const finding = (sequence: number | null, message: string) => ({ index: sequence, line: sequence, sequence, message, pointer: null });
const FINDINGS: Findings = {
  violations: [
    { ...finding(4, "late"), rule: "R05", type: "text.delta" },
    { ...finding(2, "odd type"), rule: "payload" },
    { ...finding(5, "later"), rule: "R05" },
  ],
  warnings: [
    { ...finding(4, "long"), code: "L05" },
    { ...finding(null, "at the end"), code: "L08" },
  ],
};
const R05: Rule = { id: "R05", kind: "rule", title: "t", explanation: "e", accepted: "", rejected: "" };

test("findings are grouped by rule, broken ones first", () => {
  const groups = grouped(FINDINGS, new Map([["R05", R05]]));
  expect(groups.map((one) => `${one.id}${one.broken ? "!" : ""} ${one.rule?.title ?? "-"} ${one.found.map(({ message }) => message).join(",")}`)).toEqual([
    "R05! t late,later",
    "payload! - odd type",
    "L05 - long",
    "L08 - at the end",
  ]);
});

test("an event has its findings", () => {
  expect([...bySequence(FINDINGS)].map(([sequence, found]) => [sequence, found.map(({ id }) => id)])).toEqual([
    [4, ["R05", "L05"]],
    [2, ["payload"]],
    [5, ["R05"]],
  ]);
});

test("an example is shown in bounds", () => {
  expect(example(`${"x".repeat(700)}\ny\n`)).toEqual([
    { text: "x".repeat(600), cut: true },
    { text: "y", cut: false },
  ]);
  expect(example("a\n".repeat(50))).toHaveLength(12);
});
