// `ag-ui-validate` (PyPI) judges the streams of every recording, as they came over HTTP.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { anyAnswer } from "./support/canonical.mjs";
import { Gateway, recordings, settings } from "./support/gateway.mjs";

const PYTHON = process.env.AG_UI_VALIDATE_PYTHON;
const skip = PYTHON ? false : "SKIPPED: AG_UI_VALIDATE_PYTHON names no interpreter that has ag-ui-validate";
const run = promisify(execFile);

let gateway;
let dir;
before(async () => {
  if (skip) return;
  gateway = await Gateway.start(settings(recordings()));
  dir = mkdtempSync(join(tmpdir(), "causeway-validate-"));
});
after(async () => {
  if (skip) return;
  await gateway.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Posts a run the way an AG-UI client does; the whole stream, the run's id, and the answer it waits for. */
async function stream(recording, at, version, resume) {
  const response = await fetch(`${gateway.url}/agui/${recording.agent}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      threadId: `validate-${version}-${recording.agent}`,
      runId: `validate-${at}`,
      ...(version && { protocolVersion: version }),
      messages: [{ id: "u", role: "user", content: "Go on." }],
      ...(resume && { resume }),
    }),
  });
  assert.equal(response.status, 200);
  const text = await response.text();
  const runId = response.headers.get("x-causeway-run-id");
  const asked = (await gateway.events(runId)).find((event) => event.type === "interrupt.requested");
  return { text, runId, next: asked && anyAnswer(asked.data) };
}

test("0 errors and 0 warnings", { skip }, async () => {
  const continuing = new Set();
  for (const version of ["1.0", ""]) {
    for (const recording of recordings()) {
      let resume;
      for (const at of recording.turns.keys()) {
        const { text, runId, next } = await stream(recording, at, version, resume);
        // A numbered replay is the same stream once more, over the other route.
        const replay = await (await gateway.get(`/api/v1/runs/${runId}/stream?protocol=agui-spec`)).text();
        for (const [kind, body] of [["post", text], ["replay", replay]]) {
          const name = `${version}-${recording.agent}-${at}-${kind}.sse`;
          writeFileSync(join(dir, name), body);
          if (resume !== undefined || (await announcedBefore(runId, body))) continuing.add(name);
        }
        resume = next;
      }
    }
  }
  const { stdout } = await run(PYTHON, [join(import.meta.dirname, "validate.py"), dir], { maxBuffer: 64 << 20 });
  const judged = stdout.trim().split("\n").map((line) => JSON.parse(line));
  const worse = judged.flatMap(({ file, events, found }) => {
    assert.ok(events > 1, file);
    // The specification has results of calls that an earlier run announced; rule 207 does not know it.
    const left = found.filter(([rule, severity]) => severity !== "info" && !(continuing.has(file) && rule === "AGUI207"));
    return left.map((one) => `${file}: ${one.join(" ")}`);
  });
  assert.deepEqual(worse, []);
  assert.ok(judged.length > 300, `${judged.length} streams`);
  assert.ok(continuing.size > 20 && continuing.size < judged.length / 2);
});

/** Whether a run ends calls of a run before that it does not announce itself. */
async function announcedBefore(runId, text) {
  const ids = (type) => [...text.matchAll(new RegExp(`"type":"${type}".*?"toolCallId":"([^"]*)"`, "g"))].map(([, id]) => id);
  const started = new Set(ids("TOOL_CALL_START"));
  const events = await gateway.events(runId);
  return events.some(({ type, data }) => type === "tool.started" && !started.has(data.tool_call_id));
}
