import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { WireReader } from "./frames";

const live = 'data: {"a":"é"}\n\ndata: {"b":2}\n\nevent: end\ndata: [DONE]\n\n';
const replay = 'data: {"a":"é"}\nid: 0\n\n: keep-alive\n\ndata: {"b":2}\n\nevent: end\ndata: [DONE]\nid: 4\n\n';
const hash = (text: string) => createHash("sha256").update(text).digest("hex");

test("without what a replay adds the bytes are the live ones, however they are cut", () => {
  const bytes = new TextEncoder().encode(replay);
  for (let size = 1; size <= bytes.length; size += 1) {
    const reader = new WireReader();
    for (let from = 0; from < bytes.length; from += size) reader.push(bytes.subarray(from, from + size));
    reader.end();
    expect(reader.hash.hex()).toBe(hash(live));
    expect(reader.bytes + reader.added).toBe(bytes.length);
    expect(reader.events).toEqual([
      { sequence: 0, text: 'data: {"a":"é"}\n\n', bytes: 18, frames: 1 },
      { sequence: 4, text: 'data: {"b":2}\n\nevent: end\ndata: [DONE]\n\n', bytes: 40, frames: 2 },
    ]);
  }
});

test("frames without a number at the end belong to the last event", () => {
  const reader = new WireReader();
  reader.push(new TextEncoder().encode("data: 1\nid: 3\n\ndata: [DONE]\n\n"));
  reader.end();
  expect(reader.events).toEqual([{ sequence: 3, text: "data: 1\n\ndata: [DONE]\n\n", bytes: 23, frames: 2 }]);
  expect(reader.hash.hex()).toBe(hash("data: 1\n\ndata: [DONE]\n\n"));
});

test("half an event that was lost is not counted twice", () => {
  const reader = new WireReader();
  const put = (text: string) => reader.push(new TextEncoder().encode(text));
  put("data: 1\nid: 0\n\ndata: 2\n\nda");
  reader.broken();
  expect(reader.last).toBe(0);
  put("data: 2\n\ndata: 3\nid: 1\n\n");
  reader.end();
  expect(reader.hash.hex()).toBe(hash("data: 1\n\ndata: 2\n\ndata: 3\n\n"));
});
