import { beforeAll, expect, test, vi } from "vitest";

beforeAll(() => {
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("history", { replaceState: (_data: unknown, _title: string, target: string) => (location.hash = target) });
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

test("what a page that is being left wants of the address does not undo the step", async () => {
  const { route, setQuery } = await import("./router");
  setQuery({ seq: 1 });
  expect(location.hash).toBe("#/?seq=1");
  // The step is taken; the browser tells of it a moment later.
  location.hash = "#/run/a/wire?seq=7";
  setQuery({ seq: 2 });
  expect(location.hash).toBe("#/run/a/wire?seq=7");
  expect(route.value.query.get("seq")).toBe("1");
});
