// A chat in the terminal with the official AG-UI client: `node ag-ui.mjs [AGENT]`, then type; an empty line ends it.
// Approvals are asked about, forms are filled in field by field.

import { createInterface } from "node:readline/promises";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const gateway = process.env.CAUSEWAY_URL ?? "http://127.0.0.1:8787";
const name = process.argv[2] ?? "tour";
const terminal = createInterface({ input: process.stdin });
const lines = terminal[Symbol.asyncIterator]();

const agent = new HttpAgent({ url: `${gateway}/agui/${name}` });
const show = {
  onTextMessageContentEvent: ({ event }) => process.stdout.write(event.delta),
  onTextMessageEndEvent: () => process.stdout.write("\n"),
  onToolCallEndEvent: ({ toolCallName, toolCallArgs }) => console.log(`· ${toolCallName} ${JSON.stringify(toolCallArgs)}`),
  onToolCallResultEvent: ({ event }) => console.log(`  = ${event.content}`),
  onCustomEvent: ({ event }) => console.log(`! ${event.value.message}`),
  onRunErrorEvent: ({ event }) => console.log(`failed: ${event.message} (${event.code})`),
};

async function ask(question) {
  process.stdout.write(question);
  const { value, done } = await lines.next();
  return done ? "" : value.trim();
}

/** What the user says to one interrupt. */
async function answer({ reason, message, responseSchema, metadata }) {
  if (reason === "tool_call") {
    const said = await ask(`${message} ${JSON.stringify(metadata.causeway.toolArgs)} [y/n] `);
    return { status: "resolved", payload: { approved: said.startsWith("y") } };
  }
  console.log(message);
  const values = {};
  for (const [field, { type }] of Object.entries(responseSchema.properties)) {
    const said = await ask(`${field}: `);
    if (said !== "") values[field] = type === "number" || type === "integer" ? Number(said) : said;
  }
  return { status: "resolved", payload: values };
}

for (let n = 0; ; n += 1) {
  const content = await ask("> ");
  if (content === "") break;
  agent.addMessage({ id: `user-${n}`, role: "user", content });
  await agent.runAgent({}, show);
  // The run ended because it waits for something: the answers start the next one.
  while (agent.pendingInterrupts.length > 0) {
    const answers = {};
    for (const interrupt of agent.pendingInterrupts) answers[interrupt.id] = await answer(interrupt);
    await agent.runAgent({ resume: buildResumeArray(agent.pendingInterrupts, answers) }, show);
  }
}
terminal.close();
