import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, Watched, launch, recorded } from "./harness.mjs";

let gateway;
let browser;
before(async () => {
  [gateway, browser] = await Promise.all([
    Gateway.start({ agents: { tour: recorded("deepagents", "deepagents/subagents_parallel.jsonl") }, store: "memory" }),
    launch(),
  ]);
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

test("without runs the page says so, and what to do", async () => {
  const watched = await Watched.open(browser, gateway);
  await watched.page.getByText("No runs yet").waitFor();
  await watched.axe("the empty list");
  await watched.done();
});

test("a run appears in the list by itself, opens by keyboard, and its address survives a reload", async () => {
  const watched = await Watched.open(browser, gateway);
  const { page } = watched;
  await page.getByText("No runs yet").waitFor();
  const run = await gateway.play("tour", "Compare the two services");
  await page.getByRole("listbox", { name: "Runs" }).getByRole("option").first().waitFor();
  await watched.shot("runs");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Views of the run" }).waitFor();
  assert.ok(page.url().includes(run.run_id), page.url());
  await page.goto(`${gateway.url}/#/run/${run.run_id}/events?seq=3&type=tool`);
  await page.reload();
  await page.getByRole("heading", { name: /^3 / }).waitFor();
  await watched.axe("events");
  await watched.shot("events");
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("events");
  await watched.shot("events-400");
  await watched.done();
});

test("the keyboard's help opens and closes", async () => {
  const watched = await Watched.open(browser, gateway);
  const { page } = watched;
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await watched.axe("the help");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor({ state: "detached" });
  await watched.done();
});
