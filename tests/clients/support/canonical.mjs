// What a run said and did, from its canonical events: what every client must have read.

/** `{texts, thoughts, calls, warnings, subagents, outcome}`; `seed` names calls that the run before announced. */
export function told(events, seed = []) {
  const told = { texts: {}, thoughts: {}, calls: {}, results: {}, warnings: [], subagents: {}, usage: null };
  const hidden = new Set(seed);
  const started = [];
  for (const { type, data, namespace } of events) {
    switch (type) {
      case "text.started":
        told.texts[data.message_id] = "";
        break;
      case "text.delta":
        told.texts[data.message_id] += data.delta;
        break;
      case "reasoning.started":
        told.thoughts[data.message_id] = "";
        break;
      case "reasoning.delta":
        told.thoughts[data.message_id] += data.delta;
        break;
      case "tool.started":
        started.push(data.tool_call_id);
        if (!hidden.has(data.tool_call_id)) {
          const empty = Object.keys(data.arguments).length === 0;
          told.calls[data.tool_call_id] = { name: data.tool_name, text: empty ? "" : JSON.stringify(data.arguments) };
        }
        break;
      case "tool.arguments.delta":
        if (!hidden.has(data.tool_call_id)) told.calls[data.tool_call_id].text += data.delta;
        break;
      case "tool.finished":
        told.results[data.tool_call_id] = data.result;
        break;
      case "tool.error":
        told.results[data.tool_call_id] = data.message;
        break;
      case "warning":
        told.warnings.push(data.code);
        break;
      case "namespace.entered":
        told.subagents[namespace.at(-1)] = { agent: data.agent_id, parent: namespace.at(-2), call: data.parent_tool_call_id };
        break;
      case "namespace.exited":
        told.subagents[namespace.at(-1)].outcome = data.outcome;
        break;
      case "usage.updated":
        told.usage = data;
        break;
      case "interrupt.requested":
        told.interrupt = data;
        break;
    }
  }
  told.open = started.filter((id) => !(id in told.results));
  const calls = Object.entries(told.calls).map(([id, { name, text }]) => [id, { name, arguments: JSON.parse(text || "{}") }]);
  told.calls = Object.fromEntries(calls);
  const last = events.at(-1);
  told.outcome = last.type.replace("run.", "");
  told.error = last.type === "run.error" ? last.data : undefined;
  return told;
}

/** The names by which a client answers an interrupt. */
export function interruptNames(data) {
  if (data.interrupt_type === "form_input") return [data.interrupt_id];
  return data.tool_approvals.map((approval) => `${data.interrupt_id}:${approval.tool_call_id}`);
}

/** An answer that fits any interrupt: yes where it is allowed, and something in every field. */
export function anyAnswer(data) {
  const entry = (interruptId, payload) => ({ interruptId, status: "resolved", payload });
  if (data.interrupt_type === "form_input") {
    const value = (field) => field.field_values?.[0] ?? (field.field_type === "number" ? 3 : "something");
    const values = data.fields.map((field) => [field.field_name, value(field)]);
    return [entry(data.interrupt_id, Object.fromEntries(values))];
  }
  return data.tool_approvals.map((approval) => {
    const allowed = approval.allowed_decisions.length === 0 ? ["approve"] : approval.allowed_decisions;
    let payload = { approved: false };
    if (allowed.includes("approve")) payload = { approved: true };
    else if (allowed.includes("edit")) payload = { approved: true, editedArgs: approval.tool_args };
    return entry(`${data.interrupt_id}:${approval.tool_call_id}`, payload);
  });
}
