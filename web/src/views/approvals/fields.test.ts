import { expect, test } from "vitest";

import { exact, parse, write } from "../../exact";
import { fault, fields, values } from "./fields";

const FORM = fields(
  exact([
    { field_name: "environment", field_type: "select", field_values: ["dev", "prod"], required: true },
    { field_name: "replicas", field_type: "number", default_value: "2" },
    { field_name: "whole", field_type: "integer" },
    { field_name: "sure", field_type: "boolean", field_label: "Are you sure?", field_description: "Think twice." },
    { field_name: "zones", field_type: "multiselect", field_values: [{ value: 1, label: "north" }, { value: 2, label: "south" }], default_value: [2] },
    { field_name: "why", field_type: "textarea" },
    { field_name: "odd", field_type: "colour" },
  ]),
);

test("a field gets the control of its type", () => {
  expect(FORM.map((one) => `${one.name} ${one.control}${one.required ? "!" : ""}${one.foreign ? " foreign" : ""}`)).toEqual([
    "environment choice!",
    "replicas number",
    "whole number",
    "sure boolean",
    "zones choices",
    "why lines",
    "odd text foreign",
  ]);
  expect(FORM[3]).toMatchObject({ label: "Are you sure?", help: "Think twice.", initial: "" });
  expect(FORM[4]).toMatchObject({ initial: [1], choices: [{ label: "north" }, { label: "south" }] });
});

test("what does not fit is told, field by field", () => {
  const told = (name: string, entry: string | number[]) => {
    const field = FORM.find((one) => one.name === name);
    return field && fault(field, entry);
  };
  expect(told("environment", [])).toBe("This is needed.");
  expect(told("environment", [1])).toBe(null);
  expect(told("replicas", "")).toBe(null);
  expect(told("replicas", "2.5e3")).toBe(null);
  expect(told("replicas", "many")).toBe("This must be a number, for example 3 or 2.5.");
  expect(told("replicas", "0x10")).toBe("This must be a number, for example 3 or 2.5.");
  expect(told("replicas", "1e999")).toBe("This number is too large.");
  expect(told("whole", "1.5")).toBe("This must be a whole number.");
  expect(told("whole", " 2.0 ")).toBe(null);
  expect(told("why", "a\0b")).toBe("This holds a character (U+0000) that cannot be sent.");
});

test("the values are those that were entered, in their own types and spelling", () => {
  const entries = new Map<string, string | number[]>([
    ["environment", [1]],
    ["replicas", "9007199254740993"],
    ["whole", ""],
    ["sure", "false"],
    ["why", " as it is "],
  ]);
  expect(write(values(FORM, entries))).toBe(
    '{"environment":"prod","replicas":9007199254740993,"sure":false,"zones":[2],"why":" as it is "}',
  );
});

test("damaged fields make a form all the same", () => {
  const parsed = parse('[{"field_name":"a","field_type":7,"field_values":"x"},3]');
  expect(parsed.ok && fields(parsed.value).map((one) => [one.name, one.control])).toEqual([
    ["a", "text"],
    ["", "text"],
  ]);
});
