// Looking at one run: timeline, events, scrubber, wire; live, stored, large, and over a gateway that dies.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { Gateway, Watched, launch, noted, recorded, sha256, until, written } from "./harness.mjs";
import { live } from "./support/worker.mjs";

const SUBAGENTS = "deepagents/subagents_parallel.jsonl";
/** Where a gateway goes away on purpose, the browser says so. */
const AWAY = [/ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/, /ERR_EMPTY_RESPONSE/, /ERR_INCOMPLETE_CHUNKED_ENCODING/, /ERR_ABORTED/, /ERR_NETWORK/];
/** Texts, 1 call for every 3 events, of a canonical stream. */
const LARGE = 10_000;

let gateway;
let browser;
let dir;
before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), "causeway-large-"));
  const agents = {
    tour: recorded("deepagents", SUBAGENTS),
    // Half a second between lines: it is still running whatever the machine does meanwhile.
    slow: recorded("deepagents", SUBAGENTS, "1500ms"),
    large: written(dir, "large", large()),
    helper: live(),
  };
  [gateway, browser] = await Promise.all([Gateway.start({ agents, store: "memory" }), launch()]);
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Worker lines of a run with {@link LARGE} events, 2,500 calls among them. */
function large() {
  const chunk = (type, data) => ({ kind: "chunk", run_id: "r1", event: { type, namespace: [], data } });
  const lines = [
    { kind: "hello", protocol: 1, harness: "canonical", versions: {}, restore: true, forget: true },
    { kind: "begin", run_id: "r1", op: "run" },
    chunk("text.started", { message_id: "m", role: "assistant" }),
  ];
  // `run.started`, this start, its end and `run.finished` are four.
  for (let n = 0; lines.length - 2 + 3 < LARGE; n += 1) {
    if (n % 4 === 0) lines.push(chunk("tool.started", { tool_call_id: `t${n}`, tool_name: `tool_${n % 7}`, arguments: { n } }));
    else if (n % 4 === 3) lines.push(chunk("tool.finished", { tool_call_id: `t${n - 3}`, result: `result ${n}` }));
    else lines.push(chunk("text.delta", { message_id: "m", delta: `word${n} ` }));
  }
  lines.push(chunk("text.finished", { message_id: "m" }), { kind: "end", run_id: "r1", state: { head: "t1:end", interrupts: [] } });
  return lines;
}

const open = (where, options) => Watched.open(browser, gateway, where, options);
const at = (watched) => watched.page.evaluate(() => Number(document.querySelector('[data-testid="place"]')?.firstChild?.textContent?.replace(/\D/g, "") || Number.NaN));

test("a stored run on the timeline: parallel work in rows, a bar chosen by keyboard, zoom, pan, by events", async () => {
  const run = await gateway.play("tour", "Compare the two services");
  const watched = await open(`/#/run/${run.run_id}/timeline`);
  const { page } = watched;
  await page.getByText("complete", { exact: true }).waitFor();
  await page.getByText("12 bars, 3 lanes").waitFor();
  const tasks = await page.locator(".timeline-bars g:has(> text:text-matches('^task')) > rect, .timeline-bars .bar-ok > rect").evaluateAll((all) =>
    all.map((one) => one.getBoundingClientRect()).map(({ x, y, width }) => ({ x, y, width })),
  );
  const overlapping = tasks.some((a, index) => tasks.some((b, other) => other > index && a.y !== b.y && a.x < b.x + b.width && b.x < a.x + a.width));
  assert.ok(overlapping, "bars that overlap in time stand in different rows");
  await watched.axe("the timeline");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await until(() => page.url().includes("seq="), "a chosen bar in the address");
  await page.getByRole("complementary", { name: "What is selected" }).getByText("ended well").waitFor();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await until(async () => (await page.locator(".timeline-map-window").boundingBox()).width < 400, "a narrower window");
  await page.keyboard.press("ArrowRight");
  await page.getByRole("button", { name: "by events" }).click();
  await page.getByRole("button", { name: "Whole run" }).isDisabled();
  await watched.shot("timeline");
  await page.keyboard.press("Escape");
  await page.getByRole("complementary", { name: "What is selected" }).waitFor({ state: "detached" });
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("the timeline");
  await watched.shot("timeline-400");
  await watched.done();
});

test("the selection goes from view to view, and events are filtered and downloaded as they were stored", async () => {
  const run = await gateway.play("tour", "Compare the two services");
  const all = await gateway.events(run.run_id);
  const watched = await open(`/#/run/${run.run_id}/timeline?seq=7`);
  const { page } = watched;
  const side = page.getByRole("complementary");
  await side.getByRole("link", { name: "Events" }).click();
  await page.getByRole("option", { selected: true }).getByText("tool.started").waitFor();
  await page.getByLabel("Type").selectOption("tool");
  await page.getByText("8 of 44").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("WEATHER");
  await page.getByText("1 of 44").waitFor();
  assert.match(page.url(), /type=tool/);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download JSONL" }).click()]);
  const lines = readFileSync(await download.path(), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines, all.filter((event) => event.type.startsWith("tool.") && JSON.stringify(event).includes("weather")));
  // An id leads to its own events.
  await page.getByRole("searchbox", { name: "Search the events" }).fill("");
  await side.getByTitle("Only the events that name this id").first().click();
  await until(() => page.url().includes("id="), "an id in the address");
  await page.getByRole("listbox", { name: "Events" }).getByRole("option").first().waitFor();
  await side.getByRole("link", { name: "Scrubber" }).click();
  await page.getByLabel("Event", { exact: true }).waitFor();
  await until(async () => (await at(watched)) === 7, "the selected event");
  await watched.axe("the scrubber");
  await watched.done();
});

test("the scrubber shows what had been said, steps, and plays to the end", async () => {
  const run = await gateway.play("tour", "Compare the two services");
  const watched = await open(`/#/run/${run.run_id}/scrubber?seq=2`);
  const { page } = watched;
  await page.getByText("complete", { exact: true }).waitFor();
  await until(async () => (await at(watched)) === 2, "event 2");
  const said = () => page.getByTestId("message").first().locator(".block").innerText().then((text) => text.trim());
  assert.equal(await said(), "Fan out");
  await page.keyboard.press("j");
  await until(async () => (await said()) === "Fan out.", "one delta more");
  await page.keyboard.press("k");
  await until(async () => (await said()) === "Fan out", "one delta less");
  await watched.shot("scrubber");
  await page.getByRole("button", { name: "Play at 16×" }).click();
  await until(async () => (await at(watched)) === run.last_sequence, "the end");
  await until(() => new URL(page.url()).hash.includes(`seq=${run.last_sequence}`), "the end in the address");
  await page.getByText("finished", { exact: true }).nth(1).waitFor();
  await page.keyboard.press("Home");
  await until(async () => (await at(watched)) === 0, "the beginning");
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("the scrubber");
  await watched.shot("scrubber-400");
  await watched.done();
});

test("a live run: the timeline grows, the tail can be paused, what is new is counted, and following goes on", async () => {
  const run = await gateway.begin("slow", "Compare the two services");
  const watched = await open(`/#/run/${run.run_id}/timeline`);
  const { page } = watched;
  await page.getByText("live", { exact: true }).waitFor();
  await until(async () => (await page.locator(".timeline-bars rect").count()) >= 1, "a bar");
  await watched.goto(`#/run/${run.run_id}/events`);
  const rows = page.getByRole("listbox", { name: "Events" }).getByRole("option");
  await rows.first().waitFor();
  const listed = await rows.count();
  await until(async () => (await rows.count()) > listed, "an event that comes while the view is open");
  await watched.goto(`#/run/${run.run_id}/scrubber`);
  await page.getByRole("button", { name: "Live: pause" }).click();
  const paused = await at(watched);
  await page.getByRole("button", { name: /^\d+ new$/ }).waitFor();
  assert.equal(await at(watched), paused, "a paused tail stays");
  await watched.shot("scrubber-live");
  await page.getByRole("button", { name: /^\d+ new$/ }).click();
  await until(async () => (await at(watched)) > paused, "the tail");
  await watched.goto(`#/run/${run.run_id}/rules`);
  await page.getByText("nothing was refused", { exact: true }).waitFor();
  await watched.goto(`#/compare?left=${run.run_id}&right=${run.run_id}`);
  await page.getByText("They said and did the same").waitFor();
  await watched.goto(`#/run/${run.run_id}/wire`);
  await page.getByText("so far").first().waitFor();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByText("cancelled", { exact: true }).first().waitFor();
  await page.getByText("complete", { exact: true }).waitFor();
  await watched.done();
});

test("a gateway that is killed and started again in mid-run: the page goes on from its cursor and says that nothing is missing", async () => {
  const mortal = await Gateway.start({ agents: { slow: recorded("deepagents", SUBAGENTS, "500ms") }, store: "sqlite" });
  try {
    const run = await mortal.begin("slow", "Compare the two services");
    const watched = await Watched.open(browser, mortal, `/#/run/${run.run_id}/scrubber`);
    watched.allow(...AWAY);
    const { page } = watched;
    await until(async () => (await at(watched)) >= 3, "some events");
    await mortal.kill();
    await page.getByText(/connection lost/).first().waitFor();
    await watched.shot("scrubber-lost");
    await mortal.start();
    await page.getByText(/^reconnected.*no gap$/).waitFor();
    await page.getByText("complete", { exact: true }).waitFor();
    await page.getByText("uncertain", { exact: true }).first().waitFor();
    const all = await mortal.events(run.run_id);
    await until(async () => (await at(watched)) === all.at(-1).sequence, "the newest event");
    await page.getByText(/reconnections?, no gap/).click();
    await page.getByText(/asked for what follows/).first().waitFor();
    await watched.axe("the scrubber, reconnected");
    await watched.shot("scrubber-reconnected");
    await watched.done();
  } finally {
    await mortal.stop();
  }
});

test("every format's hash is that of the bytes a client was sent live", async () => {
  const got = {};
  for (const protocol of ["custom", "agui"]) {
    const answer = await fetch(`${gateway.url}/api/v1/chat/stream/start`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ agent_id: "tour", conversation_id: `wire-${protocol}`, message: "Compare", protocol }),
    });
    const body = Buffer.from(await answer.arrayBuffer());
    got[protocol] = { run: answer.headers.get("x-causeway-run-id"), hash: sha256(body), bytes: body.length };
  }
  for (const protocol of ["custom", "agui"]) {
    const { run, hash, bytes } = got[protocol];
    const watched = await open(`/#/run/${run}/wire?seq=6`);
    const { page } = watched;
    await until(async () => (await page.locator('[data-whole="true"]').count()) === 5, "five whole streams");
    assert.equal(await page.getByTestId(`hash-${protocol}`).innerText(), hash);
    assert.equal(await page.getByRole("region", { name: protocol, exact: true }).locator("[data-bytes]").getAttribute("data-bytes"), String(bytes));
    for (const other of ["canonical", "custom", "agui", "agui-spec", "ui-message"]) {
      const replay = await (await fetch(`${gateway.url}/api/v1/runs/${run}/stream?protocol=${other}`)).text();
      assert.equal(await page.getByTestId(`hash-${other}`).innerText(), sha256(replay.replace(/^id: \d+\n/gm, "")), other);
    }
    if (protocol === "agui") {
      await page.getByRole("region", { name: "agui, event 6" }).getByText("TOOL_CALL_START", { exact: false }).waitFor();
      await watched.axe("the wire");
      await watched.shot("wire");
      await page.setViewportSize({ width: 400, height: 800 });
      await watched.fits("the wire");
      await watched.shot("wire-400");
    }
    await watched.done();
  }
});

test("a run of 10,000 events scrolls and scrubs, and the page holds only what is seen", async (t) => {
  const run = await gateway.play("large", "Go");
  assert.equal(run.last_sequence, LARGE - 1);
  const watched = await open(`/#/run/${run.run_id}/events`);
  const { page } = watched;
  const figures = {};
  const measured = async (name, what) => {
    const before = (await watched.longtasks()).length;
    const began = Date.now();
    await what();
    const tasks = (await watched.longtasks()).slice(before).map((task) => task.duration);
    figures[name] = { ms: Date.now() - began, longtasks: tasks.length, longest: Math.round(Math.max(0, ...tasks)) };
  };
  await measured("load", () => page.getByText("10\u202f000 events").waitFor());
  const list = page.getByRole("listbox", { name: "Events" });
  await measured("scroll to the end in 40 steps", () =>
    list.evaluate(async (element) => {
      for (let step = 1; step <= 40; step += 1) {
        element.scrollTop = (element.scrollHeight * step) / 40;
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
    }),
  );
  await list.getByText("run.finished").waitFor();
  assert.ok((await list.getByRole("option").count()) < 120, "only what is seen is in the page");
  await measured("search", async () => {
    await page.getByRole("searchbox", { name: "Search the events" }).fill("word4242 ");
    await page.getByText("1 of 10\u202f000").waitFor();
  });
  await watched.goto(`#/run/${run.run_id}/scrubber`);
  const slider = page.getByLabel("Event", { exact: true });
  await slider.waitFor();
  await measured("scrub through 100 places", () =>
    slider.evaluate(async (element) => {
      for (let step = 0; step <= 100; step += 1) {
        element.value = String(Math.round((Number(element.max) * step) / 100));
        element.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
    }),
  );
  await until(async () => (await at(watched)) === LARGE - 1, "the end");
  await watched.goto(`#/run/${run.run_id}/timeline?axis=events`);
  await page.getByText(/drawn on a canvas/).waitFor();
  await measured("zoom and pan a canvas of 2,500 bars", async () => {
    for (const key of ["j", "+", "+", "+", "+", "ArrowRight", "ArrowRight", "-", "0"]) await page.keyboard.press(key);
  });
  await watched.shot("timeline-large");
  t.diagnostic(`10,000 events: ${JSON.stringify(figures)}`);
  noted("10000-events.json", JSON.stringify(figures, null, 2));
  await watched.done();
});

test("content that means harm changes nothing but its own cell, in the list, the timeline, the events, the scrubber and the wire", async () => {
  const evil = "<script>document.title='owned'</script> \u202egnissorc \u001b[31mred";
  const runs = [await gateway.play("helper", "hostile", "<img src=x onerror=alert(1)>"), await gateway.play("helper", `word ${evil}`, "evil-2")];
  const watched = await open("/#/runs");
  const { page } = watched;
  const harmless = async (name) => {
    const found = await page.evaluate(() => ({
      scripts: document.scripts.length,
      images: document.querySelectorAll("img, iframe, object, embed").length,
      title: document.title.includes("owned"),
      raw: /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText),
    }));
    assert.deepEqual(found, { scripts: 1, images: 0, title: false, raw: false }, name);
    await watched.fits(name);
  };
  await page.getByRole("listbox", { name: "Runs" }).getByText("word <script>", { exact: false }).waitFor();
  await harmless("the list");
  for (const run of runs) {
    for (const view of ["timeline", "events", "scrubber", "wire"]) {
      await watched.goto(`#/run/${run.run_id}/${view}?seq=${run.last_sequence - 4}`);
      await page.getByRole("link", { name: view, exact: false }).and(page.locator('[aria-current="page"]')).first().waitFor();
      await page.getByText("complete", { exact: true }).waitFor();
      for (const width of [1280, 400]) {
        await page.setViewportSize({ width, height: 800 });
        await harmless(`${view} at ${width}`);
      }
    }
  }
  await watched.axe("harmful content");
  await watched.shot("hostile");
  await watched.done();
});

test("by the keyboard alone: from the list into a run, through its views, and back; in the dark too", async () => {
  await gateway.play("tour", "Compare the two services");
  const watched = await open("/", { dark: true });
  const { page } = watched;
  await page.getByRole("listbox", { name: "Runs" }).getByRole("option").first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("compare");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await watched.axe("the list in the dark");
  await watched.shot("runs-dark");
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: /^Timeline of/ }).waitFor();
  await page.keyboard.press("j");
  await watched.axe("the timeline in the dark");
  await watched.shot("timeline-dark");
  const seen = new Set();
  const views = await page.getByRole("navigation", { name: "Views of the run" }).getByRole("link").count();
  for (let step = 0; step < views; step += 1) {
    const current = await page.locator('.tabs [aria-current="page"]').innerText();
    seen.add(current);
    await watched.axe(`${current} in the dark`);
    await page.keyboard.press("]");
    await until(async () => (await page.locator('.tabs [aria-current="page"]').innerText()) !== current, "the next view");
  }
  assert.equal(seen.size, views);
  await page.keyboard.press("u");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  await watched.done();
});
