// Interrupts and answers through the official AG-UI client, in one conversation with a living agent: approve, edit,
// reject, a form, two approvals at once, an interrupt inside a subagent; and the gateway is restarted before an answer.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { told } from "./support/canonical.mjs";
import { Gateway, liveWorker } from "./support/gateway.mjs";
import { quietly } from "./support/quiet.mjs";

const CLIENTS = { "1.0.0": await import("ag-ui-client-1.0.0"), "0.0.59": await import("ag-ui-client-0.0.59") };

const dir = mkdtempSync(join(tmpdir(), "causeway-live-"));
const notes = join(dir, "notes");
const script = join(dir, "script.json");
writeFileSync(script, JSON.stringify(play()));
const config = liveWorker(script);
const skip = config === null ? "SKIPPED: no environment for the live deepagents worker" : false;

/** An agent that asks before it notes anything. */
function play() {
  const note = (id, line) => ({ tool: { id: `${id}_{n}`, name: "note", args: { path: notes, line, seconds: 0.0 } } });
  const all = { allowed_decisions: ["approve", "edit", "reject"] };
  const fields = [
    { field_name: "environment", field_type: "select", field_values: ["dev", "prod"], required: true },
    { field_name: "replicas", field_type: "number" },
  ];
  const done = [{ text: "Done." }];
  return {
    name: "clients",
    agent_name: "helper",
    delay: 0.005,
    piece: 40,
    tools: ["note", "request_user_input"],
    interrupt_on: { note: all, request_user_input: all },
    subagents: [{ name: "writer", description: "Writes", tools: ["note"], interrupt_on: { note: all } }],
    script: { writer: [[note("call_w", "delegated")], [{ text: "Written." }]] },
    plays: [
      { when: ["both"], answers: [[note("call_a", "one"), note("call_b", "two")], done] },
      { when: ["note"], answers: [[{ text: "May I? " }, note("call_n", "noted")], done] },
      {
        when: ["form"],
        answers: [[{ tool: { id: "call_f_{n}", name: "request_user_input", args: { prompt: "Where?", fields } } }], done],
      },
      {
        when: ["delegate"],
        answers: [
          [{ tool: { id: "call_d_{n}", name: "task", args: { description: "Write it", subagent_type: "writer" } } }],
          done,
        ],
      },
      { answers: [[{ text: "You said: {message}" }]] },
    ],
  };
}

let gateway;
before(async () => {
  if (!skip) gateway = await Gateway.start(config);
});
after(async () => {
  await gateway?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** What was noted since the last look. */
function noted() {
  try {
    const lines = readFileSync(notes, "utf8").trim().split("\n");
    rmSync(notes);
    return lines;
  } catch {
    return [];
  }
}

describe("one conversation", { skip, concurrency: 1 }, () => {
  for (const [version, client] of Object.entries(CLIENTS)) {
    test(`@ag-ui/client ${version}`, async (t) => {
      const runIds = [];
      const agent = new client.HttpAgent({
        url: "replaced before each run",
        threadId: `one-${version}`,
        fetch: async (_, init) => {
          const response = await fetch(`${gateway.url}/agui/live`, init);
          runIds.push(response.headers.get("x-causeway-run-id"));
          return response;
        },
      });
      const turn = async (parameters) => {
        await quietly(() => agent.runAgent(parameters));
        return told(await gateway.events(runIds.at(-1)));
      };
      const say = async (text) => {
        agent.addMessage({ id: `said-${runIds.length}`, role: "user", content: text });
        const run = await turn({});
        assert.equal(run.outcome, "interrupted", text);
        assert.deepEqual(noted(), [], "nothing runs before it is answered");
        return agent.pendingInterrupts;
      };
      const answer = async (responses) => {
        const run = await turn({ resume: client.buildResumeArray(agent.pendingInterrupts, responses) });
        assert.equal(run.outcome, "finished");
        assert.deepEqual(agent.pendingInterrupts, []);
        const [last] = Object.values(run.texts).slice(-1);
        assert.equal(last, "Done.");
        const seen = agent.messages.at(-1);
        assert.equal(seen.content, last);
        return run;
      };
      const resolved = (payload) => ({ status: "resolved", payload });
      // A call is announced once, with the arguments that were proposed, and has one result.
      const call = (id) => {
        const calls = agent.messages.flatMap((message) => message.toolCalls ?? []).filter((one) => one.id === id);
        const results = agent.messages.filter((message) => message.toolCallId === id);
        assert.equal(calls.length, 1);
        assert.equal(results.length, 1);
        return { proposed: JSON.parse(calls[0].function.arguments), result: results[0] };
      };

      await t.test("approve", async () => {
        const [one] = await say("note it");
        assert.equal(one.reason, "tool_call");
        await answer({ [one.id]: resolved({ approved: true }) });
        assert.deepEqual(noted(), ["noted"]);
        assert.equal(call(one.toolCallId).proposed.line, "noted");
      });

      await t.test("edit", async () => {
        const [one] = await say("note it");
        const editedArgs = { path: notes, line: "edited", seconds: 0.0 };
        await answer({ [one.id]: resolved({ approved: true, editedArgs }) });
        assert.deepEqual(noted(), ["edited"]);
        assert.equal(call(one.toolCallId).proposed.line, "noted");
      });

      await t.test("reject", async () => {
        const [one] = await say("note it");
        await answer({ [one.id]: resolved({ approved: false, message: "not today" }) });
        assert.deepEqual(noted(), []);
        assert.equal(call(one.toolCallId).result.metadata?.causeway.error.code, "tool_rejected");
      });

      await t.test("a form", async () => {
        const [one] = await say("form please");
        assert.deepEqual([one.reason, one.message], ["input_required", "Where?"]);
        assert.deepEqual(one.responseSchema.required, ["environment"]);
        const run = await answer({ [one.id]: resolved({ environment: "dev", replicas: 3 }) });
        assert.match(Object.values(run.results).join(), /dev/);
      });

      await t.test("a form that is given up", async () => {
        const [one] = await say("form please");
        await answer({ [one.id]: { status: "cancelled" } });
      });

      await t.test("two approvals, and a restart of the gateway before their answer", async () => {
        const both = await say("both");
        assert.equal(both.length, 2);
        await assert.rejects(quietly(() => agent.runAgent({ resume: [] })), "the client itself holds back");
        await gateway.restart();
        const line = (one) => one.metadata.causeway.toolArgs.line;
        const first = both.find((one) => line(one) === "one");
        const second = both.find((one) => line(one) === "two");
        await answer({ [first.id]: resolved({ approved: false }), [second.id]: resolved({ approved: true }) });
        assert.deepEqual(noted(), ["two"]);
        call(first.toolCallId);
        call(second.toolCallId);
      });

      await t.test("inside a subagent", async () => {
        const [one] = await say("delegate it");
        assert.equal(typeof one.subagentRunId, "string");
        await answer({ [one.id]: resolved({ approved: true }) });
        assert.deepEqual(noted(), ["delegated"]);
        call(one.toolCallId);
      });
    });
  }
});
