// No library: starts a run, loses the connection in the middle, and goes on where it was. `node fetch.mjs [AGENT]`

const gateway = process.env.CAUSEWAY_URL ?? "http://127.0.0.1:8787";
const agent = process.argv[2] ?? "tour";

const started = await fetch(`${gateway}/api/v1/runs`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ agent_id: agent, conversation_id: crypto.randomUUID(), message: "hello" }),
});
if (!started.ok) throw new Error(`${started.status}: ${await started.text()}`);
const { run_id } = await started.json();

/** The frames of the run behind the event `last`, each as `{id, data}`; the id stands in an event's last frame. */
async function* frames(last) {
  const headers = last === undefined ? {} : { "last-event-id": last };
  const response = await fetch(`${gateway}/api/v1/runs/${run_id}/stream?protocol=agui-spec`, { headers });
  if (response.status === 204) return; // nothing is left
  let buffer = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    buffer += piece;
    for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
      const fields = buffer.slice(0, end).split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]);
      const { id, data } = Object.fromEntries(fields);
      if (data !== undefined) yield { id, data: JSON.parse(data) };
    }
  }
}

let last;
let ended = false;
for (let connection = 1; !ended; connection += 1) {
  let left = connection === 1 ? 8 : Infinity; // the first connection does not last
  try {
    for await (const { id, data } of frames(last)) {
      last = id ?? last;
      if (data.type === "TEXT_MESSAGE_CONTENT") process.stdout.write(data.delta);
      if (data.type === "TEXT_MESSAGE_END") process.stdout.write("\n");
      ended = data.type === "RUN_FINISHED" || data.type === "RUN_ERROR";
      if (ended) console.log(`${data.type} of ${run_id} on connection ${connection}`);
      // Only behind a whole event: what came of a half one would come again.
      if ((left -= 1) <= 0 && id !== undefined) break;
    }
  } catch (error) {
    console.error(`connection ${connection} broke: ${error.message}`);
    await new Promise((wait) => setTimeout(wait, 200));
  }
}
