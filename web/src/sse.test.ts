import { expect, test } from "vitest";
import { type Frame, SseParser } from "./sse";

function parse(text: string, size: number): Frame[] {
  const parser = new SseParser();
  const frames: Frame[] = [];
  for (let from = 0; from < text.length; from += size) frames.push(...parser.push(text.slice(from, from + size)));
  return frames;
}

test("frames are the same however the bytes are cut", () => {
  const text = 'event: a\ndata: {"x":1}\nid: 7\n\n: keep-alive\n\ndata:one\r\ndata: two\r\n\r\ndata: half';
  const whole = [
    { event: "a", data: '{"x":1}', id: "7" },
    { event: "", data: "one\ntwo", id: null },
  ];
  for (let size = 1; size <= text.length; size += 1) expect(parse(text, size)).toEqual(whole);
});
