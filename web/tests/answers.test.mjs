// A person at work: starting runs, watching them, answering what they ask. All on a live worker.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { Gateway, Watched, launch, sha256, until } from "./harness.mjs";
import { live } from "./support/worker.mjs";

const SCHEMA = {
  type: "object",
  properties: { name: { type: "string" }, replicas: { type: "integer", maximum: 10 }, id: { type: "integer" } },
  required: ["name"],
};

let gateway;
let browser;
before(async () => {
  gateway = new Gateway({ agents: {} });
  const schema = path.join(gateway.dir, "schema.json");
  writeFileSync(schema, JSON.stringify(SCHEMA));
  gateway.agents = {
    helper: live(`interrupt_expiry = "1h"\ntools = { restart_service = { schema = ${JSON.stringify(schema)} } }`),
    hasty: live('interrupt_expiry = "1s"'),
  };
  [, browser] = await Promise.all([gateway.start(), launch()]);
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const open = (where, options) => Watched.open(browser, gateway, where, options);
const runsOf = async (conversation) => (await gateway.json(`/api/v1/runs?conversation_id=${conversation}`)).runs;

test("a newcomer starts a run with the keyboard alone, watches it, and says something more", async () => {
  const watched = await open("/#/start");
  const { page } = watched;
  await page.getByRole("radio", { name: "helper" }).waitFor();
  await watched.axe("start");
  await watched.shot("start");
  // The first agent is chosen; the message has the focus, the agents stand before it.
  const message = page.getByRole("textbox", { name: "Message" });
  await until(() => message.evaluate((one) => one === document.activeElement), "the focus");
  await page.keyboard.press("Enter");
  await page.getByText("Write a message first.").waitFor();
  for (let back = 0; back < 3; back += 1) await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await until(() => page.url().includes("agent="), "an agent in the address");
  await message.focus();
  const helper = page.getByRole("radio", { name: "helper" });
  if (!(await helper.isChecked())) await helper.check();
  await message.focus();
  await page.keyboard.type("team mild");
  await page.keyboard.press("Enter");
  await page.getByText("The researcher says: mild.").waitFor();
  await page.getByRole("region", { name: "Conversation" }).getByText("Finished", { exact: true }).waitFor();
  await watched.axe("a conversation");
  await watched.shot("conversation");
  const first = page.url();
  const more = page.getByRole("textbox", { name: "Say something more" });
  await until(() => more.isEnabled(), "a conversation that goes on");
  await more.fill("hello again");
  await page.keyboard.press("Enter");
  await page.getByText("You said: hello again").waitFor();
  assert.notEqual(page.url(), first);
  // The run before is shown above it.
  await page.getByText("The researcher says: mild.").waitFor();
  await watched.done();
});

test("a message that is sent twice, or whose answer is lost on the way, starts one run", async () => {
  const conversation = "sent-twice";
  const watched = await open(`/#/start?agent=helper&conversation=${conversation}`);
  const { page } = watched;
  watched.allow(/Failed to load resource|net::ERR_FAILED/);
  let tries = 0;
  const keys = new Set();
  await page.route("**/api/v1/runs", async (route) => {
    tries += 1;
    keys.add(route.request().postDataJSON().idempotency_key);
    if (tries > 1) return route.continue();
    await route.fetch();
    return route.abort();
  });
  await page.getByRole("textbox", { name: "Message" }).fill("once");
  await page.getByRole("button", { name: "Send" }).dblclick();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("You said: once").waitFor();
  assert.equal(tries, 2);
  assert.equal(keys.size, 1);
  assert.equal((await runsOf(conversation)).length, 1);
  await watched.done();
});

test("two windows approve with edited arguments at once: one is taken, the other sees who decided", async () => {
  const run = await gateway.play("helper", "approve", "two-windows");
  assert.equal(run.status, "interrupted");
  const windows = await Promise.all([open(`/#/approvals?run=${run.run_id}`), open(`/#/approvals?run=${run.run_id}`)]);
  // Both answers are held until both are on their way.
  let arrived = 0;
  let release;
  const both = new Promise((resolve) => (release = resolve));
  let hold = false;
  for (const [at, watched] of windows.entries()) {
    watched.allow(/status of (409|422)/);
    const card = watched.page.locator(`[data-run="${run.run_id}"]`);
    await card.getByText(/expires in \d/).waitFor();
    await card.getByRole("radio", { name: "Approve with other arguments" }).check();
    const editor = card.getByRole("textbox", { name: /Arguments to run with/ });
    // Numbers stand as they were written.
    assert.match(await editor.inputValue(), /9007199254740993/);
    // A text that is no JSON is told with its line, and is not sent.
    await editor.fill('{\n  "name": "api"\n  "replicas": 3\n}');
    await card.getByRole("button", { name: "Send the decision" }).click();
    await card.getByText("Line 3, column 3: a comma (,) or a closing brace (}) is missing.").waitFor();
    await card.getByRole("button", { name: "Go to line 3, column 3" }).waitFor();
    // What the schema refuses is told at its place.
    await editor.fill('{\n  "name": "api",\n  "replicas": 99\n}');
    await card.getByRole("button", { name: "Send the decision" }).click();
    await card.getByText("/replicas: not what the tool's schema asks for (/properties/replicas/maximum).").waitFor();
    await card.getByRole("button", { name: "Go to line 3, column 15" }).waitFor();
    if (at === 0) {
      await watched.axe("an edit that was refused");
      await watched.shot("approvals-edit");
    }
    await editor.fill(`{"name": "api", "replicas": ${at + 3}, "id": 9007199254740993}`);
    await card.getByText("What you changed").waitFor();
    await watched.page.route("**/resume", async (route) => {
      if (hold && ++arrived === 2) release();
      if (hold) await both;
      return route.continue();
    });
  }
  hold = true;
  await Promise.all(windows.map(({ page }) => page.locator(`[data-run="${run.run_id}"]`).getByRole("button", { name: "Send the decision" }).click()));
  const cards = windows.map(({ page }) => page.locator(`[data-run="${run.run_id}"]`));
  await Promise.all(cards.map((card) => card.getByText("approved with other arguments").waitFor()));
  const late = await Promise.all(cards.map((card) => card.getByText("Your answer was not taken").count()));
  assert.deepEqual(late.toSorted(), [0, 1]);
  // Both windows show the same record: who, through which route, and what is run.
  const winner = late.indexOf(0) + 3;
  for (const card of cards) {
    await card.getByText("local").waitFor();
    await card.getByText("/api/v1/runs/{id}/resume").waitFor();
    assert.match(await card.getByRole("region", { name: "Arguments that were given instead, text" }).innerText(), new RegExp(`"replicas": ${winner}\\b[^]*9007199254740993`));
  }
  await windows[late.indexOf(1)].axe("an answer that came late");
  await windows[late.indexOf(1)].shot("approvals-late");
  const answered = await gateway.json(`/api/v1/runs/${run.run_id}`);
  const next = await until(async () => {
    const one = await gateway.json(`/api/v1/runs/${answered.resumed_by}`);
    return one.status === "running" ? null : one;
  }, "the end of the resumed run");
  const ran = (await gateway.events(next.run_id)).find((event) => event.type === "tool.started");
  assert.equal(ran.data.arguments.replicas, winner);
  assert.equal((await runsOf("two-windows")).length, 2);
  for (const watched of windows) await watched.done();
});

test("a form is filled with the keyboard, what does not fit is told at its field, and the values keep their types", async () => {
  const run = await gateway.play("helper", "form", "a-form");
  const watched = await open(`/#/approvals?run=${run.run_id}`);
  const { page } = watched;
  const card = page.locator(`[data-run="${run.run_id}"]`);
  await card.getByText("Where shall I deploy it?").waitFor();
  await watched.axe("a form");
  await watched.shot("approvals-form");
  const environment = card.getByRole("combobox", { name: "environment" });
  await environment.focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("many");
  await page.keyboard.press("Enter");
  await card.getByText("This is needed.").waitFor();
  await card.getByText("This must be a number, for example 3 or 2.5.").waitFor();
  assert.ok(await environment.evaluate((one) => one === document.activeElement), "the first fault has the focus");
  await page.keyboard.type("prod");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("3");
  await page.keyboard.press("Tab");
  await page.keyboard.type("no");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await page.keyboard.press("Tab");
  await page.keyboard.type("with care");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await card.getByText("Answered").waitFor();
  await watched.goto(`#/run/${run.run_id}/conversation`);
  await page.getByText('The values were {"environment": "prod", "replicas": 3, "drain": false, "zones": [2], "note": "with care"}.').waitFor();
  await watched.shot("conversation-form");
  await watched.done();
});

test("several calls are decided each in its own way, and several questions at once", async () => {
  const several = await gateway.play("helper", "several", "several");
  const watched = await open("/#/approvals");
  const { page } = watched;
  const card = page.locator(`[data-run="${several.run_id}"]`);
  await card.getByRole("button", { name: "Approve all 3" }).click();
  const second = card.getByRole("group").filter({ hasText: '"service-2"' });
  await second.getByRole("radio", { name: "Reject" }).check();
  await second.getByRole("textbox", { name: "Why not?" }).fill("not on a Friday");
  await card.getByRole("button", { name: "Send 3 decisions" }).click();
  await card.getByText("not on a Friday").waitFor();
  const resumed = (await gateway.json(`/api/v1/runs/${several.run_id}`)).resumed_by;
  const ends = await until(async () => {
    const all = (await gateway.events(resumed)).filter(({ type }) => type === "tool.finished" || type === "tool.error");
    return all.length === 3 ? all : null;
  }, "three ends");
  assert.equal(ends.filter(({ type }) => type === "tool.error").length, 1);

  // New questions come by themselves.
  const asked = [await gateway.play("helper", "approve", "batch-1"), await gateway.play("helper", "approve", "batch-2")];
  await page.locator(`[data-run="${asked[1].run_id}"]`).waitFor();
  await page.locator(`[data-run="${asked[0].run_id}"]`).focus();
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("2 marked").waitFor();
  await watched.axe("several questions");
  await watched.shot("approvals");
  await page.getByRole("button", { name: "Approve all", exact: true }).click();
  for (const run of asked) {
    await page.locator(`[data-run="${run.run_id}"]`).getByText("Answered").waitFor();
    assert.equal((await gateway.json(`/api/v1/runs/${run.run_id}`)).interrupt.decision.decisions[0].decision, "approve");
  }
  await page.getByRole("button", { name: /^Put away/ }).click();
  await page.getByText("Nobody waits for you").waitFor();
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("approvals");
  await watched.done();
});

test("a question is answered inside its conversation, and its answer goes on below", async () => {
  const run = await gateway.play("helper", "approve", "inside");
  const watched = await open(`/#/run/${run.run_id}/conversation`, { dark: true });
  const { page } = watched;
  await page.getByRole("radio", { name: "Approve", exact: true }).check();
  await watched.axe("a question in the dark");
  await watched.shot("conversation-question-dark");
  await page.getByRole("button", { name: "Send the decision" }).dblclick();
  await page.getByText("It was decided.").waitFor();
  await page.getByText("goes on", { exact: true }).waitFor();
  assert.equal((await runsOf("inside")).length, 2);
  await watched.done();
});

test("a question whose time is over says so", async () => {
  const run = await gateway.play("hasty", "approve", "over");
  const watched = await open(`/#/run/${run.run_id}/conversation`);
  await watched.page.getByText("Expired unanswered: nothing of what it asked for was done").waitFor();
  await watched.done();
});

test("a gateway that wants a token gets it once, and its records say whose it was", async () => {
  const guarded = new Gateway({ agents: { helper: live() } });
  const token = "a-token-of-the-test-which-is-long-enough-to-be-one";
  const digest = path.join(guarded.dir, "digest");
  writeFileSync(digest, sha256(token));
  guarded.server = `[auth]\nmode = "service"\ntokens = { reviewers = { file = ${JSON.stringify(digest)} } }`;
  await guarded.start();
  try {
    const watched = await Watched.open(browser, guarded, "/#/start?agent=helper&conversation=guarded");
    const { page } = watched;
    watched.allow(/status of 401/);
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    await dialog.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("textbox", { name: "Message" }).fill("approve");
    await page.keyboard.press("Enter");
    await page.getByRole("radio", { name: "Approve", exact: true }).check();
    await page.getByRole("button", { name: "Send the decision" }).click();
    await page.getByText("It was decided.").waitFor();
    await page.getByText("token:reviewers").waitFor();
    await watched.done();
  } finally {
    await guarded.stop();
  }
});

test("a run is cancelled from its conversation", async () => {
  const run = await gateway.begin("helper", "slow", "cancelled");
  const watched = await open(`/#/run/${run.run_id}/conversation`);
  const { page } = watched;
  await page.getByText("The first half.").waitFor();
  await page.getByText("slow_lookup").first().waitFor();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByText("Somebody asked for it. A tool was at work: what it did is not known.").waitFor();
  await watched.done();
});

test("the gateway is killed and started again in mid-run while the conversation is open", async () => {
  const run = await gateway.begin("helper", "slow", "killed");
  const watched = await open(`/#/run/${run.run_id}/conversation`);
  const { page } = watched;
  watched.allow(/Failed to load resource|net::ERR_/);
  await page.getByText("The first half.").waitFor();
  await page.getByText("slow_lookup").first().waitFor();
  await gateway.kill();
  await page.getByText(/connection lost/).first().waitFor();
  await gateway.start();
  await page.getByText("Failed: thread_durability_uncertain").waitFor();
  await page.getByText("reconnected, no gap").waitFor();
  // What was shown is still there, once.
  assert.equal(await page.getByText("The first half.").count(), 1);
  await watched.shot("conversation-restarted");
  await watched.done();
});
