// The official AG-UI clients read a run of every recording: no error, no warning, and exactly what the events say.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { anyAnswer, interruptNames, told } from "./support/canonical.mjs";
import { Gateway, recordings, settings } from "./support/gateway.mjs";
import { quietly } from "./support/quiet.mjs";

const CLIENTS = { "1.0.0": await import("ag-ui-client-1.0.0"), "0.0.59": await import("ag-ui-client-0.0.59") };

let gateway;
before(async () => {
  gateway = await Gateway.start(settings(recordings()));
});
after(() => gateway.stop());

/** Runs the agent once, and gives what the client has of the run besides its messages. */
async function run(agent, parameters) {
  const seen = { subagents: {}, warnings: [], outcome: undefined, usage: undefined };
  const note = (event) => (seen.usage = event.usage);
  await agent.runAgent(parameters, {
    onEvent: ({ event }) => {
      if (event.type === "SUBAGENT_STARTED") {
        seen.subagents[event.subagentRunId] = {
          agent: event.name,
          parent: event.parentSubagentRunId,
          call: event.parentToolCallId,
        };
      }
      if (event.type === "SUBAGENT_FINISHED") {
        seen.subagents[event.subagentRunId].outcome = event.outcome.type === "suspended" ? "interrupted" : "success";
      }
      if (event.type === "SUBAGENT_ERROR") {
        seen.subagents[event.subagentRunId].outcome = event.code === "cancelled" ? "cancelled" : "error";
      }
      if (event.type === "CUSTOM" && event.name === "causeway.warning") seen.warnings.push(event.value.code);
    },
    onRunFinishedEvent: ({ event }) => {
      note(event);
      seen.outcome = { success: "finished", interrupt: "interrupted", cancelled: "cancelled" }[event.outcome.type];
      seen.interrupts = event.outcome.interrupts;
    },
    onRunErrorEvent: ({ event }) => {
      note(event);
      seen.outcome = event.code === "cancelled" ? "cancelled" : "error";
      seen.error = event;
    },
  });
  return seen;
}

/** What the client's messages hold of one run. */
function read(messages, runId, expected) {
  const texts = {};
  const thoughts = {};
  const calls = {};
  const results = {};
  for (const message of messages) {
    if (message.role === "assistant" && message.id in expected.texts) texts[message.id] = message.content;
    const thought = message.role === "reasoning" ? message.id.replace("reasoning:", "") : undefined;
    if (thought !== undefined && thought in expected.thoughts) thoughts[thought] = message.content;
    for (const call of message.toolCalls ?? []) {
      const args = JSON.parse(call.function.arguments);
      if (call.id in expected.calls) calls[call.id] = { name: call.function.name, arguments: args };
    }
    const result = `result:${runId}:`;
    if (message.role === "tool" && message.id.startsWith(result)) results[message.toolCallId] = message.content;
  }
  return { texts, thoughts, calls, results };
}

for (const [version, { HttpAgent }] of Object.entries(CLIENTS)) {
  describe(`@ag-ui/client ${version}`, () => {
    for (const recording of recordings()) {
      test(recording.name, async () => {
        const runIds = [];
        const agent = new HttpAgent({
          url: `${gateway.url}/agui/${recording.agent}`,
          threadId: `agui-${version}-${recording.agent}`,
          fetch: async (url, init) => {
            const response = await fetch(url, init);
            runIds.push(response.headers.get("x-causeway-run-id"));
            assert.equal(response.headers.get("x-causeway-warning"), null);
            return response;
          },
        });
        let resume;
        let open = []; // calls of the run before that nothing ended: the client knows them
        for (let turn = 0; turn < recording.turns.length; turn += 1) {
          if (resume === undefined) agent.addMessage({ id: `user-${runIds.length}`, role: "user", content: "Go on." });
          const seen = await quietly(() => run(agent, resume ? { resume } : {}));
          const runId = runIds.at(-1);
          const row = await (await gateway.get(`/api/v1/runs/${runId}`)).json();
          const expected = told(await gateway.events(runId), row.seed?.open_tool_calls ?? open);
          open.splice(0, open.length, ...expected.open);

          const { texts, thoughts, calls, results } = expected;
          assert.deepEqual(read(agent.messages, runId, expected), { texts, thoughts, calls, results });
          assert.deepEqual(seen.subagents, expected.subagents);
          assert.deepEqual(seen.warnings, expected.warnings);
          assert.equal(seen.outcome, expected.outcome, JSON.stringify(seen.error));
          assert.equal(seen.error?.code, expected.outcome === "cancelled" ? seen.error?.code : expected.error?.code);
          assert.equal(seen.usage?.[0]?.inputTokens, expected.usage?.input_tokens ?? undefined);
          assert.equal(seen.usage?.[0]?.outputTokens, expected.usage?.output_tokens ?? undefined);
          // An interrupted recording goes on with an answer, every other one with the next message.
          resume = undefined;
          if (expected.outcome === "interrupted") {
            assert.deepEqual(seen.interrupts.map((one) => one.id), interruptNames(expected.interrupt));
            assert.ok(seen.interrupts.every((one) => one.responseSchema.type === "object"));
            resume = anyAnswer(expected.interrupt);
          }
        }
      });
    }
  });
}
