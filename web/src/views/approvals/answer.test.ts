import { expect, test } from "vitest";

import { parse } from "../../exact";
import { type Approval, type Draft, Keys, complaints, decisions, draftOf, isChanged, placed, remaining } from "./answer";

function json(text: string) {
  const parsed = parse(text);
  if (!parsed.ok) throw new Error(parsed.fault.message);
  return parsed.value;
}

const CALL: Approval = {
  tool_call_id: "call-1",
  tool_name: "restart",
  tool_args: json('{"name":"api","id":9007199254740993}'),
  allowed: ["approve", "edit", "reject"],
};
const draft = (changes: Partial<Draft>): Draft => ({ ...draftOf(CALL), ...changes });

test("a draft begins with the arguments as they were written", () => {
  expect(draftOf(CALL).edited).toBe('{\n  "name": "api",\n  "id": 9007199254740993\n}');
  expect(isChanged(CALL, draft({}))).toBe(false);
  expect(isChanged(CALL, draft({ edited: '{"name":"api","id":9007199254740992}' }))).toBe(true);
});

test("what cannot be sent is told with its place", () => {
  expect(complaints(CALL, draft({}))).toEqual([{ about: "call-1", text: "Decide about this call." }]);
  expect(complaints(CALL, draft({ verb: "approve", edited: "{" }))).toEqual([]);
  expect(complaints(CALL, draft({ verb: "edit", edited: '{\n "a" 1}' }))).toEqual([
    { about: "call-1", text: "Line 2, column 6: a colon (:) is missing after the key.", at: { line: 2, column: 6 } },
  ]);
  expect(complaints(CALL, draft({ verb: "edit", edited: "[]" }))[0]?.text).toBe("Arguments are one JSON object, in braces.");
  expect(complaints(CALL, draft({ verb: "edit", edited: `{"a":"${"é".repeat(131_072)}"}` }))[0]?.text).toContain("256 KiB");
  expect(complaints(CALL, draft({ verb: "reject", message: "x".repeat(65_537) }))[0]?.text).toContain("64 KiB");
});

test("the decisions hold what belongs to them and nothing else", () => {
  const other = { ...CALL, tool_call_id: "call-2" };
  const third = { ...CALL, tool_call_id: "call-3" };
  expect(
    decisions([
      [CALL, draft({ verb: "edit", edited: '{ "name": "db", "id": 1.0 }', message: "left over" })],
      [other, draft({ verb: "reject", message: 'not "now"' })],
      [third, draft({ verb: "approve", message: "left over" })],
    ]),
  ).toBe(
    '[{"tool_call_id":"call-1","decision":"edit","edited_args":{"name":"db","id":1.0}},' +
      '{"tool_call_id":"call-2","decision":"reject","message":"not \\"now\\""},{"tool_call_id":"call-3","decision":"approve"}]',
  );
});

test("the same answer has the same key", () => {
  let made = 0;
  const keys = new Keys(() => `key-${++made}`);
  expect([keys.of("a"), keys.of("b"), keys.of("a")]).toEqual(["key-1", "key-2", "key-1"]);
});

test("a refusal of the gateway finds its place", () => {
  const drafts = new Map([["call-1", draft({ verb: "edit", edited: '{\n  "a/b": {\n    "n": 12\n  }\n}' })]]);
  const schema = (at: string) =>
    placed(`the edited arguments of call call-1 do not satisfy the schema of its tool at ${at} (schema: "/properties/n/maximum")`, drafts, []);
  expect(schema('"/a~1b/n"')).toEqual({
    about: "call-1",
    text: "/a~1b/n: not what the tool's schema asks for (/properties/n/maximum).",
    at: { line: 3, column: 10 },
  });
  expect(schema('""')).toMatchObject({ text: "The arguments: not what the tool's schema asks for (/properties/n/maximum).", at: { line: 1, column: 1 } });
  expect(schema('"/a~1b/\\"\\u{202e}"')).toMatchObject({ at: { line: 2, column: 10 } });
  expect(placed("call call-1 does not allow `edit`", drafts, [])).toEqual({ about: "call-1", text: "Call call-1 does not allow `edit`." });
  expect(placed("the field city has no value", new Map(), ["town", "city"])).toEqual({ about: "city", text: "The field city has no value." });
  expect(placed("something else", drafts, ["city"])).toEqual({ about: null, text: "Something else." });
});

test("the time that is left is counted down", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  expect(remaining("2026-01-03T05:00:00Z", now).text).toBe("expires in 2 d 5 h");
  expect(remaining("2026-01-01T01:05:00Z", now).text).toBe("expires in 1 h 05 min");
  expect(remaining("2026-01-01T00:04:09.9Z", now)).toEqual({ text: "expires in 4:09", soon: true, over: false });
  expect(remaining("2025-12-31T23:59:59Z", now)).toEqual({ text: "expired", soon: true, over: true });
});
