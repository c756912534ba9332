import { beforeAll, expect, test, vi } from "vitest";

beforeAll(() => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
});

test("an address is read as it was written, whatever the ids hold", async () => {
  const { href, parseRoute } = await import("./router");
  const path = ["run", "a/b?c#d %ü", "events"];
  const address = href(path, { seq: 3, q: "x&y=z", none: null, empty: "" });
  const route = parseRoute(address);
  expect(route.path).toEqual(path);
  expect(Object.fromEntries(route.query)).toEqual({ seq: "3", q: "x&y=z" });
});

test("a stray percent sign stands for itself", async () => {
  const { parseRoute } = await import("./router");
  expect(parseRoute("#/run/100%/events").path).toEqual(["run", "100%", "events"]);
});
