import { expect, test } from "vitest";
import { lines } from "./json";

const shown = (text: string) => lines(text)?.map((line) => "  ".repeat(line.indent) + line.tokens.map((token) => token.text).join("")) ?? null;

test("numbers keep their spelling and members their order", () => {
  expect(shown('{"b":9007199254740993,"a":[1.0,2E3,{}],"e":[],"s":"x\\"}"}')).toEqual([
    "{",
    '  "b": 9007199254740993,',
    '  "a": [',
    "    1.0,",
    "    2E3,",
    "    {}",
    "  ],",
    '  "e": [],',
    '  "s": "x\\"}"',
    "}",
  ]);
});

test("what is no JSON is not made to look like it", () => {
  for (const text of ["{", "[1", "nope", '{"a":1}x', "}"]) expect(lines(text)).toBeNull();
});
