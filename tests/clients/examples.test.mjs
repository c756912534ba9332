// The examples of `examples/clients` run against a gateway, as their README says.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";

import { Gateway, recordings, settings } from "./support/gateway.mjs";

const EXAMPLES = resolve(import.meta.dirname, "../../examples/clients");
const installed = existsSync(join(EXAMPLES, "node_modules"));
const skip = installed ? false : "SKIPPED: the packages of examples/clients are not installed";
const curl = spawnSync("curl", ["--fail-with-body", "--version"]).status === 0;
const PATIENCE_MS = 60_000;

let gateway;
before(async () => {
  const named = { tour: "subagents_parallel", approve: "approve", form: "form_submit" };
  const agents = Object.entries(named).map(([agent, name]) => {
    const recording = recordings().find((one) => one.name === `deepagents/${name}`);
    return { ...recording, agent };
  });
  gateway = await Gateway.start(settings(agents));
});
after(() => gateway.stop());

/** A command that must end well, what it says, and what it was told. */
async function run(command, args, said = "") {
  const env = { ...process.env, CAUSEWAY_URL: gateway.url };
  const child = spawn(command, args, { cwd: EXAMPLES, env, timeout: PATIENCE_MS });
  let out = "";
  child.stdout.on("data", (text) => (out += text));
  child.stderr.on("data", (text) => (out += text));
  child.stdin.end(said);
  const status = await new Promise((done, failed) => child.once("close", done).once("error", failed));
  assert.equal(status, 0, out);
  return out;
}

test("fetch.mjs goes on where the connection was lost", async () => {
  const out = await run("node", ["fetch.mjs"]);
  assert.match(out, /RUN_FINISHED of run-\S+ on connection 2\n$/);
});

test("curl.sh talks both protocols and reads a run again", { skip: curl ? false : "SKIPPED: no curl with --fail-with-body" }, async () => {
  const out = await run("bash", ["curl.sh"]);
  assert.match(out, /"type":"RUN_FINISHED"/);
  assert.match(out, /\nid: \d+\n/);
  assert.match(out, /data: \[DONE\]\n/);
});

test("ag-ui.mjs asks for an approval and goes on", { skip }, async () => {
  const out = await run("node", ["ag-ui.mjs", "approve"], "hello\ny\n\n");
  assert.match(out, /May the agent run restart_service\? \{"name":"api"\} \[y\/n\]/);
  assert.match(out, /Restarted api\./);
});

test("ag-ui.mjs fills in a form", { skip }, async () => {
  const out = await run("node", ["ag-ui.mjs", "form"], "hello\ndev\n3\n\n");
  assert.match(out, /environment: replicas: /);
});

test("serve.mjs builds the useChat page and passes its requests on, one by one as they come", { skip }, async () => {
  const env = { ...process.env, CAUSEWAY_URL: gateway.url };
  const child = spawn("node", ["serve.mjs", "0"], { cwd: EXAMPLES, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const line = await new Promise((done, failed) => {
      child.stdout.once("data", (text) => done(String(text)));
      child.once("exit", (status) => failed(new Error(`serve.mjs ended with ${status}`)));
      setTimeout(() => failed(new Error("serve.mjs did not start")), PATIENCE_MS).unref();
    });
    const page = line.match(/http:\/\/[^/]*/)[0];
    assert.match(await (await fetch(`${page}/`)).text(), /use-chat\.js/);
    assert.match(await (await fetch(`${page}/event-source`)).text(), /new EventSource/);
    assert.ok((await (await fetch(`${page}/use-chat.js`)).text()).length > 100_000);
    // What a browser on this page posts, its origin included.
    const response = await fetch(`${page}/ui-message/tour?sdk=6`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: page },
      body: JSON.stringify({ id: "page", messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "hi" }] }] }),
    });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /data: \[DONE\]\n\n$/);
  } finally {
    child.kill();
  }
});
