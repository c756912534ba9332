// One line about an event, for tables and tooltips.
import type { Tone } from "../components/shape";
import { bytes } from "../format";
import type { Envelope, EventType } from "./envelope";

export function summary(event: Envelope): string {
  switch (event.type) {
    case "run.started":
      return `${event.data.harness_id} ${event.data.adapter_version}`;
    case "run.finished":
      return event.data.stop_reason ?? event.data.outcome;
    case "run.interrupted":
    case "run.cancelled":
      return event.data.reason;
    case "run.error":
      return `${event.data.code}: ${event.data.message}`;
    case "text.started":
    case "reasoning.started":
    case "text.finished":
    case "reasoning.finished":
      return event.data.message_id;
    case "text.delta":
    case "reasoning.delta":
    case "tool.arguments.delta":
      return event.data.delta;
    case "tool.started":
      return `${event.data.tool_name} ${compact(event.data.arguments)}`;
    case "tool.finished":
      return event.data.result;
    case "tool.error":
      return `${event.data.code}: ${event.data.message}`;
    case "interrupt.requested":
      return event.data.interrupt_type === "form_input"
        ? event.data.prompt
        : event.data.tool_approvals.map((one) => one.tool_name).join(", ");
    case "namespace.entered":
      return `${event.data.agent_name} (${event.data.agent_id})`;
    case "namespace.exited":
      return `${event.data.agent_id}: ${event.data.outcome}`;
    case "warning":
      return `${event.data.code}: ${event.data.message}`;
    case "usage.updated": {
      const { input_tokens, output_tokens, cached_input_tokens, final } = event.data;
      const parts = [`in ${input_tokens ?? "–"}`, `out ${output_tokens ?? "–"}`];
      if (cached_input_tokens !== null && cached_input_tokens !== undefined) parts.push(`cached ${cached_input_tokens}`);
      return `${parts.join(", ")}${final ? ", final" : ""}`;
    }
    case "provider.metadata":
      return `${event.data.provider} ${event.data.model}`;
  }
}

function compact(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 2000 ? `${text.slice(0, 300)}… (${bytes(text.length)})` : text;
}

const TONES: Readonly<Record<EventType, Tone>> = {
  "run.started": "running",
  "run.finished": "ok",
  "run.interrupted": "waiting",
  "run.cancelled": "stopped",
  "run.error": "bad",
  "text.started": "none",
  "text.delta": "none",
  "text.finished": "none",
  "reasoning.started": "none",
  "reasoning.delta": "none",
  "reasoning.finished": "none",
  "tool.started": "running",
  "tool.arguments.delta": "none",
  "tool.finished": "ok",
  "tool.error": "bad",
  "interrupt.requested": "waiting",
  "namespace.entered": "info",
  "namespace.exited": "info",
  warning: "warn",
  "usage.updated": "info",
  "provider.metadata": "info",
};

export function toneOf(event: Envelope): Tone {
  if (event.type === "namespace.exited" && event.data.outcome === "error") return "bad";
  return TONES[event.type] ?? "none";
}

/** The ids that an event names, besides its run's. */
export function idsOf(event: Envelope): string[] {
  const data = event.data as Readonly<Record<string, unknown>>;
  return ["message_id", "tool_call_id", "interrupt_id", "parent_tool_call_id", "parent_message_id", "agent_id", "result_ref"]
    .map((name) => data[name])
    .filter((id): id is string => typeof id === "string");
}
