// Reading what happened: conversations, findings, files against the rules, two runs side by side. And content that means harm.
import assert from "node:assert/strict";
import { truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { Gateway, ROOT, Watched, launch, recorded, until } from "./harness.mjs";
import { live } from "./support/worker.mjs";

/** What scrolls, and never sideways. */
const BOXES = "main, .run-view, .talk-scroll, .asked-list, .check-scroll, .compare-scroll, .start";
const stream = (name) => path.join(ROOT, "contract/streams", name);

let gateway;
let browser;
before(async () => {
  [gateway, browser] = await Promise.all([
    Gateway.start({ agents: { helper: live(), broken: recorded("canonical", stream("rejected/r05-delta-after-finish.jsonl")) } }),
    launch(),
  ]);
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const open = (where, options) => Watched.open(browser, gateway, where, options);

test("a stored conversation: reasoning folded, subagents inside their call, arguments as written, a result whole on demand", async () => {
  await gateway.play("helper", "team mild", "stored");
  const run = await gateway.play("helper", "large", "stored");
  const watched = await open(`/#/run/${run.run_id}/conversation`, { width: 400 });
  const { page } = watched;
  await page.getByText("row 0", { exact: false }).first().waitFor();
  await watched.fits("a conversation");
  await watched.shot("conversation-400");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole("button", { name: "Load the whole result" }).click();
  await page.getByText(/the whole result, 18\d KiB/).waitFor();
  // By keyboard: up to the call of the run, and open it.
  await page.getByRole("region", { name: "Conversation" }).focus();
  await page.keyboard.press("j");
  await until(() => page.url().includes("seq="), "a chosen piece in the address");
  await page.keyboard.press("o");
  await page.getByRole("group", { name: "Arguments of list_rows" }).waitFor();
  // The run before stands above; it is read once it is seen.
  const before = page.locator(".turn-place").first();
  await before.scrollIntoViewIfNeeded();
  await before.getByText("The researcher says: mild.").waitFor();
  const task = before.locator(".piece.call").first();
  await task.locator("summary").first().click();
  await task.getByText("9007199254740993").first().waitFor();
  await task.getByRole("region", { name: "Subagent Researcher" }).getByText("It is mild in Oslo.").waitFor();
  const thought = before.locator(".thought");
  assert.equal(await thought.locator(".block").count(), 0, "folded");
  await thought.locator("summary").click();
  await thought.locator(".block").getByText("Somebody should look it up.").waitFor();
  await watched.axe("a stored conversation");
  await watched.shot("conversation-stored");
  await watched.done();
});

test("of a run with 1,500 calls the last are drawn, the others on demand, and a linked one is there", async () => {
  const run = await gateway.play("helper", "many", "many");
  const watched = await open(`/#/run/${run.run_id}/conversation`);
  const { page } = watched;
  await page.getByText("counted 1499", { exact: true }).waitFor();
  const drawn = () => page.locator(".piece").count();
  assert.equal(await drawn(), 200);
  await page.getByRole("button", { name: /^1.301 earlier pieces$/ }).click();
  await until(async () => (await drawn()) === 600, "more pieces");
  await watched.goto(`#/run/${run.run_id}/conversation?seq=1001`);
  const linked = page.locator('.piece[data-at="1001"]');
  await linked.waitFor();
  await until(() => linked.evaluate((one) => one.classList.contains("is-chosen")), "the linked piece");
  await watched.done();
});

test("what was refused in a run is told with its rule and the accepted form", async () => {
  const run = await gateway.play("broken", "Go", "broken");
  const watched = await open(`/#/run/${run.run_id}/rules`);
  const { page } = watched;
  const finding = page.getByRole("region", { name: "R05: 1 finding" });
  await finding.getByText("text.delta for text message m-1, which already finished").waitFor();
  await finding.getByText("Why, and what is accepted").click();
  await finding.getByText(/clients build a bubble at the start/).waitFor();
  await finding.getByRole("region", { name: "R05: accepted stream" }).waitFor();
  await finding.getByRole("region", { name: "R05: rejected stream" }).waitFor();
  await page.getByRole("link", { name: /Rules !2 findings/ }).waitFor();
  await watched.axe("rules");
  await watched.shot("rules");
  await page.keyboard.press("f");
  await page.getByRole("region", { name: "L08: 1 finding" }).waitFor({ state: "detached" });
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("rules");
  await finding.getByRole("link", { name: "before #5" }).click();
  await until(() => page.url().includes("/events?seq=5"), "the event");
  // The conversation says it where it happened, and leads back.
  await watched.goto(`#/run/${run.run_id}/conversation`);
  await page.getByRole("link", { name: "refused here: R05" }).click();
  await finding.waitFor();
  await watched.done();
});

test("a file is judged by the gateway; what is no stream of events is told what it is", async () => {
  const watched = await open("/#/check");
  const { page } = watched;
  const choose = (file) => page.getByLabel("File to check").setInputFiles(file);
  const file = (name, text) => {
    const where = path.join(gateway.dir, name);
    writeFileSync(where, text);
    return where;
  };
  await page.getByRole("region", { name: "All rules" }).getByText("a call finishes or fails, never both").waitFor();
  await choose(stream("rejected/r05-delta-after-finish.jsonl"));
  await page.getByText("not valid", { exact: true }).waitFor();
  const finding = page.getByRole("region", { name: /^R05: / });
  await finding.getByRole("button", { name: /^line \d+$/ }).first().click();
  await finding.getByText(/"text.delta"/).first().waitFor();
  await choose(stream("rejected/payload-unknown-role.jsonl"));
  const payload = page.getByRole("region", { name: /^payload: / });
  await payload.getByRole("button", { name: /^line \d+$/ }).first().click();
  await payload.locator("mark").waitFor();
  await watched.axe("a file that is not valid");
  await watched.shot("check");
  await choose(stream("accepted/r06-parallel-calls.jsonl"));
  await page.getByText("valid", { exact: true }).waitFor();
  await page.getByRole("combobox", { name: "As" }).selectOption("yield");
  await page.getByText("not valid", { exact: true }).waitFor();
  await page.getByRole("combobox", { name: "As" }).selectOption("commit");
  // A capture of the canonical stream is judged; its lines are those of the capture.
  const run = await gateway.play("helper", "hello", "captured");
  const sse = await (await fetch(`${gateway.url}/api/v1/runs/${run.run_id}/stream`)).text();
  await choose(file("canonical.sse", sse));
  await page.getByText(/out of a capture of the canonical stream/).waitFor();
  await page.getByText("valid", { exact: true }).waitFor();
  // Other captures are told, and so is what is too large; nothing of them is sent.
  let sent = 0;
  await page.route("**/api/v1/check**", (route) => {
    sent += 1;
    return route.continue();
  });
  const agui = await (await fetch(`${gateway.url}/api/v1/runs/${run.run_id}/stream?protocol=agui`)).text();
  await choose(file("agui.sse", agui));
  await page.getByText("This is a capture of server-sent events").waitFor();
  await choose(file("worker.jsonl", '{"kind": "hello", "protocol": 1}\n'));
  await page.getByText("This is a recording of a worker").waitFor();
  const large = file("large.jsonl", "");
  truncateSync(large, 65 * 1024 * 1024);
  await choose(large);
  await page.getByText("The file has 65.0 MiB").waitFor();
  assert.equal(sent, 0);
  // Dropped into any view, a file is judged as well.
  await watched.goto("#/runs");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "dropped.jsonl"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, "{");
  await page.getByText("dropped.jsonl").waitFor();
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("check");
  await watched.done();
});

test("two runs are compared, and the address of the comparison can be sent on", async () => {
  const mild = await gateway.play("helper", "team mild", "compare-1");
  const cold = await gateway.play("helper", "team cold", "compare-2");
  const watched = await open(`/#/compare?left=${mild.run_id}`);
  const { page } = watched;
  await page.getByText("Choose two runs").waitFor();
  await page.getByRole("combobox", { name: "Right" }).fill(cold.run_id);
  await page.keyboard.press("Enter");
  await page.getByText("1 added", { exact: true }).waitFor();
  await page.getByText("4 changed", { exact: true }).waitFor();
  await page.getByText("2 pieces the same").waitFor();
  assert.deepEqual(await page.locator("del").allInnerTexts(), ["mild", "mild", "mild", "mild"]);
  assert.deepEqual(await page.locator("ins").allInnerTexts(), ["cold", "cold", "cold", "cold"]);
  await watched.axe("a comparison");
  await watched.shot("compare");
  await page.reload();
  await page.getByText("4 changed", { exact: true }).waitFor();
  await page.getByRole("heading", { name: "Compare" }).click();
  await page.keyboard.press("x");
  await page.getByText("1 removed", { exact: true }).waitFor();
  await page.keyboard.press("d");
  await page.getByText("2 pieces the same").waitFor({ state: "detached" });
  await page.setViewportSize({ width: 400, height: 800 });
  await watched.fits("compare");
  await watched.shot("compare-400");
  await watched.goto(`#/compare?left=${mild.run_id}&right=${mild.run_id}`);
  await page.getByText("They said and did the same").waitFor();
  await watched.done();
});

test("content that means harm changes nothing but its own cell", async () => {
  const [approve, form, plain, word] = await Promise.all([
    gateway.play("helper", "hostile approve", "<b>harm-1</b>"),
    gateway.play("helper", "hostile form", "harm-2"),
    gateway.play("helper", "hostile", "harm-3"),
    gateway.play("helper", "word", "harm-4"),
  ]);
  const watched = await open("/#/approvals", { dark: true });
  const { page } = watched;
  page.on("dialog", (dialog) => watched.troubles.push(`dialog: ${dialog.message()}`));
  const whole = async (name) => {
    assert.match(await page.title(), /· Causeway$/, name);
    assert.deepEqual(await page.evaluate(() => [document.scripts.length, document.images.length, document.querySelectorAll("main b b, iframe, object, embed, base").length]), [1, 0, 0], name);
    await watched.fits(name);
    // No box inside is wider than its place, and no mark that turns the direction is in the page but as its code.
    const wide = await page.evaluate((boxes) => [...document.querySelectorAll(boxes)].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.className), BOXES);
    assert.deepEqual(wide, [], name);
    const marks = (await page.locator("main").innerText()).match(/.{0,20}[\u202a-\u202e\u2066-\u2069\u001b].{0,20}/g);
    assert.equal(marks, null, name);
  };
  const asked = page.locator(`[data-run="${approve.run_id}"]`);
  await asked.getByRole("radio", { name: "Approve with other arguments" }).check();
  assert.ok((await asked.getByRole("textbox", { name: /Arguments to run with/ }).inputValue()).includes("</textarea>"));
  await page.locator(`[data-run="${form.run_id}"]`).getByText(/the harness judges/).waitFor();
  await whole("approvals");
  await watched.shot("approvals-hostile-dark");
  await page.setViewportSize({ width: 400, height: 800 });
  await whole("approvals at 400 px");
  for (const run of [approve, form, plain, word]) {
    await watched.goto(`#/run/${run.run_id}/conversation`);
    await page.locator(`.turn[data-run="${run.run_id}"]`).getByText(run === word ? "Finished" : "odd_thing").first().waitFor();
    for (const summary of await page.locator(".turn.is-main summary").all()) await summary.click();
    await whole(`conversation of ${run.conversation_id}`);
    if (run === plain) await watched.shot("conversation-hostile-400");
    await watched.goto(`#/run/${run.run_id}/rules`);
    await page.getByText("Only what was refused").waitFor();
    await whole("rules");
  }
  await watched.goto(`#/compare?left=${plain.run_id}&right=${word.run_id}`);
  await page.getByText(/\d+ added/).waitFor();
  await whole("compare");
  await watched.goto(`#/start?conversation=${encodeURIComponent("<script>x</script>\u202e")}`);
  await page.getByRole("radio", { name: "helper" }).waitFor();
  await whole("start");
  await page.locator("body").evaluate((body) => {
    const data = new DataTransfer();
    data.items.add(new File(['{"<script>":"\u202e"}\n'], "<img src=x onerror=alert(1)>.jsonl"));
    body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.getByText("not valid", { exact: true }).waitFor();
  await whole("check");
  await watched.done();
});
