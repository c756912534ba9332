import { expect, test } from "vitest";

import { kindOf, lineOf, refusal, unwrapped } from "./file";

const EVENT = '{"version":1,"type":"run.started","run_id":"r","sequence":0,"data":{}}';

test("a file is known by its beginning", () => {
  expect(kindOf(`${EVENT}\n`)).toBe("jsonl");
  expect(kindOf(`\n  ${EVENT}`)).toBe("jsonl");
  expect(kindOf('{"broken": ')).toBe("json");
  expect(kindOf('{"no":"event"}\n{}')).toBe("jsonl");
  expect(kindOf(`{"sequence":0,"version":1,"data":"${"x".repeat(70_000)}`)).toBe("jsonl");
  expect(kindOf(`event: run.started\ndata: ${EVENT}\n\n`)).toBe("canonical-sse");
  expect(kindOf(`: hello\n\nid: 0\ndata: ${EVENT}\n\n`)).toBe("canonical-sse");
  expect(kindOf('event: content\ndata: {"text":"x"}\n\n')).toBe("sse");
  expect(kindOf('data: {"type":"RUN_STARTED"}\r\n\r\n')).toBe("sse");
  expect(kindOf('{"kind": "hello", "protocol": 1}\n')).toBe("worker");
  expect(kindOf("[\n{}\n]")).toBe("json");
  expect(kindOf(" \n\n")).toBe("empty");
  expect(kindOf("\0\0")).toBe("binary");
  expect(kindOf("hello")).toBe("unknown");
});

test("what is not judged is told what to do", () => {
  for (const kind of ["sse", "worker", "json", "binary", "empty", "unknown"] as const) expect(refusal(kind)?.text).toBeTruthy();
  expect(refusal("jsonl")).toBe(null);
  expect(refusal("canonical-sse")).toBe(null);
});

test("canonical frames become lines, and know where they stood", () => {
  const sse = `: hi\n\nevent: a\ndata: {"n":1}\nid: 0\n\ndata: {"n":\ndata: 2}\n\n\ndata: {"n":3}`;
  expect(unwrapped(sse)).toEqual({ jsonl: '{"n":1}\n{"n": 2}\n{"n":3}\n', lines: [4, 7, 11] });
});

test("a line of a file is found, and no more than wanted is kept", async () => {
  const file = new Blob(["one\ntwo\r\nthr", "ee\n", "x".repeat(200_000), "\nlast"]);
  expect(await lineOf(file, 1)).toBe("one");
  expect(await lineOf(file, 3)).toBe("three");
  expect((await lineOf(file, 4))?.length).toBe(100_000);
  expect(await lineOf(file, 5)).toBe("last");
  expect(await lineOf(file, 6)).toBe(null);
  expect(await lineOf(new Blob([]), 1)).toBe(null);
});
