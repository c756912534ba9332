import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Gateway, Watched, launch, recorded, sha256 } from "./harness.mjs";

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

test("where the gateway wants a token the page asks for one, keeps it in the tab, and sends it", async () => {
  const dir = mkdtempSync(path.join(tmpdir(), "causeway-token-"));
  const token = "a-token-of-more-than-thirty-two-characters-for-the-test";
  writeFileSync(path.join(dir, "web.sha256"), `${sha256(token)}\n`);
  const guarded = await Gateway.start({
    agents: { tour: recorded("deepagents", "deepagents/subagents_parallel.jsonl") },
    store: "memory",
    more: `[auth]\nmode = "service"\ntokens = { web = { file = ${JSON.stringify(path.join(dir, "web.sha256"))} } }`,
    token,
  });
  try {
    const run = await guarded.play("tour", "Compare the two services");
    const watched = await Watched.open(browser, guarded, `/#/run/${run.run_id}/timeline`);
    watched.allow(/status of 401/);
    const { page } = watched;
    const prompt = page.getByRole("dialog", { name: "Sign in" });
    await prompt.waitFor();
    await watched.axe("the prompt for a token");
    await page.getByLabel("Token").fill("not it");
    await page.keyboard.press("Enter");
    await prompt.getByText("The last token was refused.").waitFor();
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByText("12 bars, 3 lanes").waitFor();
    await page.reload();
    await page.getByText("12 bars, 3 lanes").waitFor();
    assert.ok(!page.url().includes(token), "a token is never part of the address");
    await page.getByRole("button", { name: "Sign out" }).click();
    await prompt.waitFor();
    await watched.done();
  } finally {
    await guarded.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});

test("the page comes with a strict policy, its files for ever, and not at all where it is switched off", async () => {
  const page = await fetch(`${gateway.url}/`);
  const headers = Object.fromEntries(page.headers);
  assert.equal(
    headers["content-security-policy"],
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; " +
      "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  );
  assert.deepEqual(
    ["cache-control", "content-type", "x-content-type-options", "referrer-policy", "cross-origin-opener-policy"].map((name) => headers[name]),
    ["no-cache", "text/html; charset=utf-8", "nosniff", "no-referrer", "same-origin"],
  );
  const again = await fetch(`${gateway.url}/`, { headers: { "if-none-match": headers.etag } });
  assert.equal(again.status, 304);
  for (const [, file] of (await page.text()).matchAll(/"(\/assets\/[^"]+)"/g)) {
    const answer = await fetch(gateway.url + file);
    assert.deepEqual([answer.status, answer.headers.get("cache-control")], [200, "public, max-age=31536000, immutable"], file);
  }
  const off = await Gateway.start({ server: "inspector = false", store: "memory" });
  try {
    for (const place of ["/", "/assets/x.js"]) assert.equal((await fetch(off.url + place)).status, 404);
    assert.equal((await fetch(`${off.url}/api/v1/runs`)).status, 200);
  } finally {
    await off.stop();
  }
});
