// A run as what it is made of: messages, tool calls, namespaces, interrupts, usage, warnings. One pass over the events builds
// it (`apply`, one event at a time, no clock, no network); each part knows at which event it began, grew and ended, so the
// state at any event is read off (`at…`) without going over the events again.
import type { InterruptRequest, RunError, Usage } from "../api";
import { type Envelope, isTerminal, pathKey } from "./envelope";

/** Text that grew by deltas: `text.slice(0, ends[i])` stood after event `sequences[i]`. */
export interface Grown {
  text: string;
  readonly sequences: number[];
  readonly ends: number[];
}

export interface Span {
  readonly start: number;
  readonly startTime: number;
  /** Sequence of the event that ended it. */
  end: number | null;
  endTime: number | null;
}

export interface Message extends Span {
  readonly kind: "text" | "reasoning";
  readonly id: string;
  readonly namespace: string;
  readonly content: Grown;
}

export type ToolOutcome = "open" | "ok" | "error" | "rejected";

export interface Tool extends Span {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  /** Whole arguments of the start; streamed ones are in `streamed`. */
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly streamed: Grown;
  readonly parentMessage: string | null;
  outcome: ToolOutcome;
  result: string | null;
  resultRef: string | null;
  error: { readonly code: string; readonly message: string; readonly retryable: boolean } | null;
}

export interface Subagent extends Span {
  /** Its own path. */
  readonly namespace: string;
  readonly depth: number;
  readonly parent: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly parentTool: string;
  outcome: "open" | "success" | "interrupted" | "cancelled" | "error";
}

export interface Point {
  readonly sequence: number;
  readonly time: number;
  readonly namespace: string;
}

export interface Warning extends Point {
  readonly code: string;
  readonly message: string;
}

export interface UsagePoint extends Point {
  readonly usage: Usage;
}

export interface InterruptPoint extends Point {
  readonly request: InterruptRequest;
}

export interface Terminal extends Point {
  readonly type: "run.finished" | "run.interrupted" | "run.cancelled" | "run.error";
  readonly error: (RunError & { readonly side_effect_status: string }) | null;
  readonly reason: string | null;
}

/** What happened in a run, in the order of its beginnings. */
export interface RunModel {
  runId: string | null;
  harness: string | null;
  adapterVersion: string | null;
  firstTime: number | null;
  lastTime: number | null;
  lastSequence: number | null;
  count: number;
  readonly messages: Message[];
  readonly tools: Tool[];
  readonly subagents: Subagent[];
  readonly interrupts: InterruptPoint[];
  readonly usage: UsagePoint[];
  readonly warnings: Warning[];
  readonly metadata: (Point & { readonly provider: string; readonly model: string })[];
  terminal: Terminal | null;
  /** Numbers that are missing between two events: the log has none. */
  readonly gaps: { readonly after: number; readonly next: number }[];
  readonly messageById: Map<string, Message>;
  readonly toolById: Map<string, Tool>;
  readonly subagentByPath: Map<string, Subagent>;
}

export function emptyModel(): RunModel {
  return {
    runId: null,
    harness: null,
    adapterVersion: null,
    firstTime: null,
    lastTime: null,
    lastSequence: null,
    count: 0,
    messages: [],
    tools: [],
    subagents: [],
    interrupts: [],
    usage: [],
    warnings: [],
    metadata: [],
    terminal: null,
    gaps: [],
    messageById: new Map(),
    toolById: new Map(),
    subagentByPath: new Map(),
  };
}

const grown = (): Grown => ({ text: "", sequences: [], ends: [] });

function grow(what: Grown, sequence: number, delta: string): void {
  what.text += delta;
  what.sequences.push(sequence);
  what.ends.push(what.text.length);
}

function end(span: Span | undefined, sequence: number, time: number): void {
  if (!span || span.end !== null) return;
  span.end = sequence;
  span.endTime = time;
}

/** Adds the next event. What does not fit (an end without a start) changes nothing: rules are the server's business. */
export function apply(model: RunModel, event: Envelope): void {
  const { sequence } = event;
  const time = Date.parse(event.timestamp);
  const namespace = pathKey(event.namespace);
  const point: Point = { sequence, time, namespace };
  if (model.lastSequence !== null && sequence !== model.lastSequence + 1) {
    model.gaps.push({ after: model.lastSequence, next: sequence });
  }
  model.lastSequence = sequence;
  model.firstTime ??= time;
  model.lastTime = model.lastTime === null ? time : Math.max(model.lastTime, time);
  model.count += 1;
  const begun = { start: sequence, startTime: time, end: null, endTime: null };
  switch (event.type) {
    case "run.started":
      model.runId = event.run_id;
      model.harness = event.data.harness_id;
      model.adapterVersion = event.data.adapter_version;
      break;
    case "text.started":
    case "reasoning.started": {
      const kind = event.type === "text.started" ? "text" : "reasoning";
      const message: Message = { ...begun, kind, id: event.data.message_id, namespace, content: grown() };
      model.messages.push(message);
      model.messageById.set(`${kind} ${message.id}`, message);
      break;
    }
    case "text.delta":
    case "reasoning.delta": {
      const kind = event.type === "text.delta" ? "text" : "reasoning";
      const message = model.messageById.get(`${kind} ${event.data.message_id}`);
      if (message) grow(message.content, sequence, event.data.delta);
      break;
    }
    case "text.finished":
    case "reasoning.finished": {
      const kind = event.type === "text.finished" ? "text" : "reasoning";
      end(model.messageById.get(`${kind} ${event.data.message_id}`), sequence, time);
      break;
    }
    case "tool.started": {
      const tool: Tool = {
        ...begun,
        id: event.data.tool_call_id,
        name: event.data.tool_name,
        namespace,
        arguments: event.data.arguments,
        streamed: grown(),
        parentMessage: event.data.parent_message_id ?? null,
        outcome: "open",
        result: null,
        resultRef: null,
        error: null,
      };
      model.tools.push(tool);
      model.toolById.set(tool.id, tool);
      break;
    }
    case "tool.arguments.delta": {
      const tool = model.toolById.get(event.data.tool_call_id);
      if (tool) grow(tool.streamed, sequence, event.data.delta);
      break;
    }
    case "tool.finished": {
      const tool = model.toolById.get(event.data.tool_call_id);
      if (!tool || tool.end !== null) break;
      end(tool, sequence, time);
      tool.outcome = "ok";
      tool.result = event.data.result;
      tool.resultRef = event.data.result_ref ?? null;
      break;
    }
    case "tool.error": {
      const tool = model.toolById.get(event.data.tool_call_id);
      if (!tool || tool.end !== null) break;
      end(tool, sequence, time);
      const { code, message, retryable } = event.data;
      tool.outcome = code === "tool_rejected" ? "rejected" : "error";
      tool.error = { code, message, retryable };
      break;
    }
    case "namespace.entered": {
      const subagent: Subagent = {
        ...begun,
        namespace,
        depth: event.namespace.length,
        parent: pathKey(event.namespace.slice(0, -1)),
        agentId: event.data.agent_id,
        agentName: event.data.agent_name,
        parentTool: event.data.parent_tool_call_id,
        outcome: "open",
      };
      model.subagents.push(subagent);
      model.subagentByPath.set(namespace, subagent);
      break;
    }
    case "namespace.exited": {
      const subagent = model.subagentByPath.get(namespace);
      if (!subagent || subagent.end !== null) break;
      end(subagent, sequence, time);
      subagent.outcome = event.data.outcome;
      break;
    }
    case "interrupt.requested":
      model.interrupts.push({ ...point, request: event.data });
      break;
    case "warning":
      model.warnings.push({ ...point, code: event.data.code, message: event.data.message });
      break;
    case "usage.updated":
      model.usage.push({ ...point, usage: event.data });
      break;
    case "provider.metadata":
      model.metadata.push({ ...point, provider: event.data.provider, model: event.data.model });
      break;
    case "run.finished":
      model.terminal ??= { ...point, type: event.type, error: null, reason: event.data.stop_reason ?? null };
      break;
    case "run.interrupted":
    case "run.cancelled":
      model.terminal ??= { ...point, type: event.type, error: null, reason: event.data.reason };
      break;
    case "run.error": {
      const { code, message, retryable, side_effect_status } = event.data;
      const error = { code, message, retryable, side_effect_status };
      model.terminal ??= { ...point, type: event.type, error, reason: code };
      break;
    }
  }
  if (isTerminal(event.type)) model.lastTime = Math.max(model.lastTime, time);
}

/** How many of the ascending `numbers` are at most `limit`. */
export function upTo(numbers: readonly number[], limit: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The text as it stood after event `sequence`. */
export function textAt(what: Grown, sequence: number): string {
  const known = upTo(what.sequences, sequence);
  return known === 0 ? "" : what.text.slice(0, what.ends[known - 1]);
}

export interface MessageAt {
  readonly message: Message;
  readonly text: string;
  readonly open: boolean;
}

export interface ToolAt {
  readonly tool: Tool;
  readonly outcome: ToolOutcome;
  /** JSON text of the arguments, as far as it was known. */
  readonly arguments: string;
  readonly result: string | null;
}

export interface SubagentAt {
  readonly subagent: Subagent;
  readonly outcome: Subagent["outcome"];
}

/** A run as it stood after one of its events. */
export interface RunState {
  readonly sequence: number;
  readonly messages: readonly MessageAt[];
  readonly tools: readonly ToolAt[];
  readonly subagents: readonly SubagentAt[];
  readonly interrupt: InterruptPoint | null;
  readonly usage: Usage | null;
  readonly warnings: readonly Warning[];
  readonly terminal: Terminal | null;
}

const begunBy = <T extends { readonly start: number }>(all: readonly T[], sequence: number): T[] => {
  const known: T[] = [];
  for (const one of all) {
    if (one.start > sequence) break; // in the order of their beginnings
    known.push(one);
  }
  return known;
};

const pointsBy = <T extends Point>(all: readonly T[], sequence: number): T[] => all.filter((one) => one.sequence <= sequence);

export function messageAt(message: Message, sequence: number): MessageAt {
  // Texts are put together when they are looked at: a run may have thousands, a page shows a few.
  return {
    message,
    get text() {
      return textAt(message.content, sequence);
    },
    open: message.end === null || message.end > sequence,
  };
}

export function toolAt(tool: Tool, sequence: number): ToolAt {
  const ended = tool.end !== null && tool.end <= sequence;
  return {
    tool,
    outcome: ended ? tool.outcome : "open",
    get arguments() {
      return tool.streamed.sequences.length > 0 ? textAt(tool.streamed, sequence) : JSON.stringify(tool.arguments);
    },
    result: ended ? tool.result : null,
  };
}

export function stateAt(model: RunModel, sequence: number): RunState {
  return {
    sequence,
    messages: begunBy(model.messages, sequence).map((message) => messageAt(message, sequence)),
    tools: begunBy(model.tools, sequence).map((tool) => toolAt(tool, sequence)),
    subagents: begunBy(model.subagents, sequence).map((subagent) => ({
      subagent,
      outcome: subagent.end !== null && subagent.end <= sequence ? subagent.outcome : "open",
    })),
    interrupt: pointsBy(model.interrupts, sequence).at(-1) ?? null,
    usage: pointsBy(model.usage, sequence).at(-1)?.usage ?? null,
    warnings: pointsBy(model.warnings, sequence),
    terminal: model.terminal !== null && model.terminal.sequence <= sequence ? model.terminal : null,
  };
}

/** How many of `all`, in the order of their beginnings, had begun by `sequence`. */
function begunCount(all: readonly { readonly start: number }[], sequence: number): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((all[middle] as { start: number }).start <= sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}

export type Piece = { readonly start: number } & ({ readonly message: MessageAt } | { readonly tool: ToolAt });

/** What a page shows of the state at an event: all counts, and the latest pieces. Its cost does not grow with the run. */
export interface Glance {
  readonly messages: number;
  readonly tools: number;
  readonly openTools: number;
  readonly subagents: number;
  readonly active: readonly Subagent[];
  /** The latest, in order. */
  readonly pieces: readonly Piece[];
  readonly interrupt: InterruptPoint | null;
  readonly usage: Usage | null;
  readonly warnings: number;
  readonly terminal: Terminal | null;
}

export function glanceAt(model: RunModel, sequence: number, pieces: number): Glance {
  const messages = begunCount(model.messages, sequence);
  const tools = begunCount(model.tools, sequence);
  const subagents = begunCount(model.subagents, sequence);
  const open = (span: Span) => span.end === null || span.end > sequence;
  let openTools = 0;
  for (let place = 0; place < tools; place += 1) if (open(model.tools[place] as Tool)) openTools += 1;
  const latest: Piece[] = [
    ...model.messages.slice(Math.max(0, messages - pieces), messages).map((one) => ({ start: one.start, message: messageAt(one, sequence) })),
    ...model.tools.slice(Math.max(0, tools - pieces), tools).map((one) => ({ start: one.start, tool: toolAt(one, sequence) })),
  ];
  latest.sort((a, b) => a.start - b.start);
  return {
    messages,
    tools,
    openTools,
    subagents,
    active: model.subagents.slice(0, subagents).filter(open),
    pieces: latest.slice(-pieces),
    interrupt: pointsBy(model.interrupts, sequence).at(-1) ?? null,
    usage: pointsBy(model.usage, sequence).at(-1)?.usage ?? null,
    warnings: pointsBy(model.warnings, sequence).length,
    terminal: model.terminal !== null && model.terminal.sequence <= sequence ? model.terminal : null,
  };
}
