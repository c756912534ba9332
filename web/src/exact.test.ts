import { expect, test } from "vitest";

import { exact, legible, locate, parse, place, sorted, write } from "./exact";

function round(text: string, indent = 0): string {
  const parsed = parse(text);
  return parsed.ok ? write(parsed.value, indent) : `${parsed.fault.line}:${parsed.fault.column} ${parsed.fault.message}`;
}

test("numbers keep their spelling and objects their order", () => {
  const text = '{"z":9007199254740993,"a":[1.0,2E3,-0,1e400],"":{"x":{}},"l":[]}';
  expect(round(text)).toBe(text);
  expect(round('{"a": [1,\n {"b":true}] }', 2)).toBe('{\n  "a": [\n    1,\n    {\n      "b": true\n    }\n  ]\n}');
});

test("texts are read with their escapes", () => {
  expect(round('"\\u00e9\\ud83d\\ude00\\n\\"\\\\\\/"')).toBe(JSON.stringify('é😀\n"\\/'));
});

test("a fault has its line and its column", () => {
  expect(round('{\n  "a": 1,\n  "b" 2\n}')).toBe("3:7 a colon (:) is missing after the key");
  expect(round('{"a":1,}')).toBe('1:8 here should be a key in double quotes (")');
  expect(round('{"a":1 "b":2}')).toBe("1:8 a comma (,) or a closing brace (}) is missing");
  expect(round("[1,2")).toBe("1:5 a comma (,) or a closing bracket (]) is missing");
  expect(round("")).toBe("1:1 the text ends where a value should stand");
  expect(round('{"a":\n01}')).toBe("2:1 this is no JSON number");
  expect(round('{"a":NaN}')).toBe("1:6 here should be a value");
  expect(round('{"a":1,\n"a":2}')).toBe("2:1 this key stands here twice");
  expect(round('"a\nb"')).toBe("1:3 a control character in a text is written as an escape, a new line as \\n");
  expect(round('"abc')).toBe("1:1 this text in quotes does not end");
  expect(round("{} x")).toBe("1:4 something follows the value");
  expect(round("[".repeat(65))).toBe("1:65 it is nested deeper than 64 levels");
  expect(round('"\\x"')).toBe("1:2 there is no such escape");
  expect(round('"\\u12"')).toBe("1:2 \\u takes four hexadecimal digits");
});

test("what JSON.parse takes is taken, and what it refuses is refused", () => {
  for (const text of ["null", " true ", "-0.5e-3", '{"a":{"b":[null]}}', '"\u2028"', "[]"]) {
    const parsed = parse(text);
    expect(parsed.ok && JSON.parse(write(parsed.value))).toEqual(JSON.parse(text));
  }
  for (const text of ["+1", ".5", "1.", "'a'", "[1,]", "{a:1}", "tru", "\u00a01", "-", "1 2"]) {
    expect(parse(text).ok, text).toBe(false);
    expect(() => JSON.parse(text)).toThrow();
  }
});

test("a pointer is found in the text, and else what is around it", () => {
  const text = '{"a": {"b/c": [1, {"n": "x"}]}}';
  const at = (pointer: string) => {
    const span = locate(text, pointer);
    return span && text.slice(span.start, span.end);
  };
  expect(at("/a/b~1c/1/n")).toBe('"x"');
  expect(at("/a/b~1c/0")).toBe("1");
  expect(at("/a/missing")).toBe('{"b/c": [1, {"n": "x"}]}');
  expect(at("")).toBe(text);
  expect(locate("{", "/a")).toBe(null);
  expect(place("ab\ncd", 4)).toEqual({ line: 2, column: 2 });
});

test("sorting and values of JSON.parse", () => {
  expect(write(sorted(exact({ b: [{ d: 1, c: null }], a: "x" })))).toBe('{"a":"x","b":[{"c":null,"d":1}]}');
});

test("what cannot be seen is written as escapes, and reads back", () => {
  const value = exact({ "a\u202eb": ["\u200b\u001b[0m", "\n\té"] });
  const text = legible(value);
  expect(text).toBe('{\n  "a\\u202eb": [\n    "\\u200b\\u001b[0m",\n    "\\n\\té"\n  ]\n}');
  const parsed = parse(text);
  expect(parsed.ok && write(parsed.value)).toBe(write(value));
});
