// The Vercel AI SDK, majors 5, 6 and 7, reads a run of every recording: the message it makes is what the events say.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { anyAnswer, told } from "./support/canonical.mjs";
import { Gateway, recordings, settings } from "./support/gateway.mjs";
import { quietly } from "./support/quiet.mjs";

const MAJORS = { 5: await import("ai-5"), 6: await import("ai-6"), 7: await import("ai-7") };
const SLOW = "subagents_parallel";

let gateway;
before(async () => {
  const slow = recordings().find(({ name }) => name === `deepagents/${SLOW}`);
  gateway = await Gateway.start(settings([...recordings(), { ...slow, agent: "slow", pace: "20ms" }]));
});
after(() => gateway.stop());

/** A transport for one agent, which also tells the runs that it began. */
function transport({ DefaultChatTransport }, major, agent, runIds = []) {
  return new DefaultChatTransport({
    api: `${gateway.url}/ui-message/${agent}`,
    fetch: async (url, init) => {
      const address = new URL(url);
      if (major > 5) address.searchParams.set("sdk", major);
      const response = await fetch(address, init);
      if (response.ok && response.status !== 204) {
        assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
        runIds.push(response.headers.get("x-causeway-run-id"));
      }
      return response;
    },
  });
}

/** The last state of the message that a stream makes, going on with `message` where there is one. */
async function message({ readUIMessageStream }, stream, message) {
  let last = message;
  const errors = [];
  const states = readUIMessageStream({ stream, message, onError: (error) => errors.push(error.message) });
  for await (const state of states) last = state;
  return { message: last, errors };
}

const user = (text) => ({ id: `u-${text}`, role: "user", parts: [{ type: "text", text }] });

/** What the parts of a message say; of texts and thoughts the words, in order. */
function read(parts) {
  const words = (type) => parts.filter((part) => part.type === type).map(({ text }) => text);
  const calls = {};
  for (const part of parts.filter(({ type }) => type === "dynamic-tool")) {
    calls[part.toolCallId] = {
      name: part.toolName,
      arguments: part.input,
      result: part.output ?? part.errorText ?? (part.state === "output-denied" ? "denied" : undefined),
    };
  }
  const data = (type) => parts.filter((part) => part.type === type).map(({ data }) => data);
  const subagents = data("data-subagent").map((one) => [
    one.subagentRunId,
    { agent: one.agentId, parent: one.parentSubagentRunId, call: one.parentToolCallId, outcome: one.status },
  ]);
  return {
    texts: words("text"),
    thoughts: words("reasoning"),
    calls,
    subagents: Object.fromEntries(subagents),
    warnings: data("data-warning").map(({ code }) => code),
  };
}

const STATUS = { success: "finished", interrupted: "suspended", cancelled: "cancelled", error: "failed" };

/** The same of a conversation's events; a resumed run goes on with the message before. */
function expected(runs, major) {
  const all = { texts: [], thoughts: [], calls: {}, subagents: {}, warnings: [] };
  for (const events of runs) {
    const one = told(events);
    all.texts.push(...Object.values(one.texts));
    all.thoughts.push(...Object.values(one.thoughts));
    for (const [id, call] of Object.entries(one.calls)) all.calls[id] ??= { ...call, result: undefined };
    for (const { type, data } of events) {
      if (type === "tool.finished") all.calls[data.tool_call_id].result = data.result;
      const denied = type === "tool.error" && data.code === "tool_rejected" && major > 5;
      if (type === "tool.error") all.calls[data.tool_call_id].result = denied ? "denied" : data.message;
    }
    for (const [id, { outcome, ...rest }] of Object.entries(one.subagents)) {
      all.subagents[id] = { ...rest, outcome: STATUS[outcome] };
    }
    all.warnings.push(...one.warnings);
  }
  return all;
}

for (const [key, ai] of Object.entries(MAJORS)) {
  const major = Number(key);
  describe(`ai ${major}`, () => {
    for (const recording of recordings()) {
      test(recording.name, async () => {
        const runIds = [];
        const chat = transport(ai, major, recording.agent, runIds);
        const chatId = `ui-${major}-${recording.agent}`;
        const messages = [];
        let body;
        let runs = [];
        for (const [at] of recording.turns.entries()) {
          const before = body === undefined ? undefined : messages.pop();
          if (before === undefined) messages.push(user(`turn ${at}`));
          else messages.push(before);
          const stream = await chat.sendMessages({ chatId, messages, trigger: "submit-message", body });
          const { message: now, errors } = await quietly(() => message(ai, stream, structuredClone(before)));
          const events = await gateway.events(runIds.at(-1));
          const { outcome, error, interrupt } = told(events);
          runs = before === undefined ? [events] : [...runs, events];
          assert.deepEqual(read(now.parts), expected(runs, major));
          assert.deepEqual(errors, outcome === "error" ? [error.message] : []);
          if (before === undefined) {
            assert.equal(now.id, runIds.at(-1));
            messages.push(now);
          } else {
            assert.equal(now.id, before.id, "a resumed run goes on with the message");
            messages[messages.length - 1] = now;
          }
          const asked = now.parts.filter(({ state }) => state === "approval-requested").map(({ approval }) => approval.id);
          const plain = interrupt?.tool_approvals?.filter(
            ({ allowed_decisions: allowed }) => allowed.length === 0 || allowed.includes("approve"),
          );
          const names = plain?.map((one) => `${interrupt.interrupt_id}:${one.tool_call_id}`);
          assert.deepEqual(asked.sort(), major > 5 && outcome === "interrupted" ? (names ?? []).sort() : []);
          body = outcome === "interrupted" ? { resume: anyAnswer(interrupt) } : undefined;
        }
      });
    }

    test("a reconnect in mid-stream gives the whole message of the run, and nothing once it has ended", async () => {
      const runIds = [];
      const chat = transport(ai, major, "slow", runIds);
      let stream = null;
      let chatId;
      // On a machine that stalls the run may be over before the second connection: then once more.
      for (let attempt = 0; stream === null && attempt < 10; attempt += 1) {
        runIds.length = 0;
        chatId = `reconnect ${major} ${attempt}`;
        const abort = new AbortController();
        const options = { chatId, messages: [user("go")], trigger: "submit-message", abortSignal: abort.signal };
        const reader = (await chat.sendMessages(options)).getReader();
        for (let chunks = 0; chunks < 4; chunks += 1) assert.equal((await reader.read()).done, false);
        abort.abort();
        stream = await chat.reconnectToStream({ chatId });
      }
      assert.notEqual(stream, null, "an active run is found");
      const { message: whole, errors } = await quietly(() => message(ai, stream));
      assert.equal(runIds[0], runIds[1]);
      assert.deepEqual(errors, []);
      assert.deepEqual(read(whole.parts), expected([await gateway.events(runIds[0])], major));
      assert.equal(await chat.reconnectToStream({ chatId }), null);
    });
  });
}

for (const major of [6, 7]) {
  const ai = MAJORS[major];
  for (const approved of [true, false]) {
    test(`ai ${major}: an approval ${approved ? "given" : "refused"} in the chat is the answer`, async () => {
      const recording = recordings().find(({ name }) => name === (approved ? "deepagents/approve" : "deepagents/reject"));
      const runIds = [];
      const chat = transport(ai, major, recording.agent, runIds);
      const chatId = `approval-${major}-${approved}`;
      const first = await chat.sendMessages({ chatId, messages: [user("do it")], trigger: "submit-message" });
      const { message: asked } = await message(ai, first);
      // What `addToolApprovalResponse` of useChat does to the message.
      for (const part of asked.parts.filter(({ state }) => state === "approval-requested")) {
        part.state = "approval-responded";
        part.approval = { ...part.approval, approved, reason: approved ? undefined : "not today" };
      }
      assert.equal(ai.lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [user("do it"), asked] }), true);
      const messages = [user("do it"), asked];
      const second = await chat.sendMessages({ chatId, messages, trigger: "submit-message" });
      const { message: now, errors } = await quietly(() => message(ai, second, structuredClone(asked)));
      assert.deepEqual(errors, []);
      const runs = [await gateway.events(runIds[0]), await gateway.events(runIds[1])];
      assert.deepEqual(read(now.parts), expected(runs, major));
      const row = await (await gateway.get(`/api/v1/runs/${runIds[0]}`)).json();
      assert.equal(JSON.stringify(row.interrupt.decision).includes(approved ? "approve" : "not today"), true);
      // Nothing is sent again by itself.
      assert.equal(ai.lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [now] }), false);
      assert.equal(ai.lastAssistantMessageIsCompleteWithToolCalls({ messages: [now] }), false);
    });
  }
}
