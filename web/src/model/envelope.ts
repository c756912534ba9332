// Canonical events as the log has them. The text is kept as it came (numbers keep their spelling); what is parsed is for reading.
import type { InterruptRequest } from "../api";

export const EVENT_TYPES = [
  "run.started",
  "run.finished",
  "run.interrupted",
  "run.cancelled",
  "run.error",
  "text.started",
  "text.delta",
  "text.finished",
  "reasoning.started",
  "reasoning.delta",
  "reasoning.finished",
  "tool.started",
  "tool.arguments.delta",
  "tool.finished",
  "tool.error",
  "interrupt.requested",
  "namespace.entered",
  "namespace.exited",
  "warning",
  "usage.updated",
  "provider.metadata",
] as const;

export type EventType = (typeof EVENT_TYPES)[number];

interface Head {
  readonly version: 1;
  readonly run_id: string;
  readonly conversation_id: string;
  readonly sequence: number;
  readonly timestamp: string;
  readonly namespace: readonly string[];
}

type SideEffects = "none" | "possible" | "known";
type Of<T extends EventType, D> = Head & { readonly type: T; readonly data: D };

export type Envelope =
  | Of<"run.started", { message_id?: string | null; harness_id: string; adapter_version: string; provider_run_id?: string | null }>
  | Of<
      "run.finished",
      {
        outcome: "success";
        stop_reason?: string | null;
        thread_state?: { durability: string; durable_revision: number; head_ref: string } | null;
      }
    >
  | Of<"run.interrupted", { interrupt_id: string; reason: "human_input" | "tool_approval" }>
  | Of<"run.cancelled", { reason: string; side_effect_status: SideEffects }>
  | Of<
      "run.error",
      { code: string; message: string; retryable: boolean; retry_after_seconds?: number | null; side_effect_status: SideEffects }
    >
  | Of<"text.started" | "reasoning.started", { message_id: string; role?: string | null }>
  | Of<"text.delta" | "reasoning.delta", { message_id: string; delta: string }>
  | Of<"text.finished" | "reasoning.finished", { message_id: string }>
  | Of<
      "tool.started",
      { tool_call_id: string; tool_name: string; arguments: Record<string, unknown>; parent_message_id?: string | null }
    >
  | Of<"tool.arguments.delta", { tool_call_id: string; delta: string }>
  | Of<"tool.finished", { tool_call_id: string; result: string; result_ref?: string | null }>
  | Of<"tool.error", { tool_call_id: string; code: string; message: string; retryable: boolean }>
  | Of<"interrupt.requested", InterruptRequest>
  | Of<"namespace.entered", { agent_id: string; agent_name: string; parent_tool_call_id: string }>
  | Of<
      "namespace.exited",
      { agent_id: string; parent_tool_call_id: string; outcome: "success" | "interrupted" | "cancelled" | "error" }
    >
  | Of<"warning", { code: string; message: string; details?: Record<string, unknown> | null }>
  | Of<
      "usage.updated",
      {
        input_tokens?: number | null;
        output_tokens?: number | null;
        cached_input_tokens?: number | null;
        cost?: number | null;
        currency?: string | null;
        final: boolean;
      }
    >
  | Of<"provider.metadata", { provider: string; model: string; metadata: Record<string, unknown> }>;

/** One line of the log: its text, and what tables and filters need of it at hand. */
export interface LogEvent {
  readonly raw: string;
  readonly sequence: number;
  readonly type: EventType;
  /** Path of the namespace, joined; "" at the root. */
  readonly namespace: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly timestamp: string;
}

/** How a path is written where one string is needed: the separator stands in no id (ids hold no control characters). */
export const PATH_SEPARATOR = "\u001f";

export function pathKey(namespace: readonly string[]): string {
  return namespace.join(PATH_SEPARATOR);
}

export function pathOf(key: string): readonly string[] {
  return key === "" ? [] : key.split(PATH_SEPARATOR);
}

export function isTerminal(type: EventType): boolean {
  return type === "run.finished" || type === "run.interrupted" || type === "run.cancelled" || type === "run.error";
}

/** Parses a line of the log; `null` for what is no event (the gateway never sends that). */
export function readEvent(raw: string): { readonly event: LogEvent; readonly envelope: Envelope } | null {
  let envelope: Envelope;
  try {
    envelope = JSON.parse(raw) as Envelope;
  } catch {
    return null;
  }
  if (typeof envelope.sequence !== "number" || !Array.isArray(envelope.namespace)) return null;
  const event: LogEvent = {
    raw,
    sequence: envelope.sequence,
    type: envelope.type,
    namespace: pathKey(envelope.namespace),
    time: Date.parse(envelope.timestamp),
    timestamp: envelope.timestamp,
  };
  return { event, envelope };
}
