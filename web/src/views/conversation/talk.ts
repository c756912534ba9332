// What a person saw of a run: messages, calls with what came of them, subagents inside their calls, the question, the end.
// Read off the model of the run, as it stands or as it stood after an event. Pure.
import { type Exact, exact, member, parse } from "../../exact";
import { pathOf } from "../../model/envelope";
import { type Message, type RunModel, type Span, type Subagent, type Terminal, type Tool, textAt, toolAt } from "../../model/model";

/** A piece of a thread. */
export type Piece = Said | Call | Question | Notice | End;

interface Common {
  /** Sequence of its first event. */
  readonly at: number;
  /** Milliseconds since 1970; null while it goes on. */
  readonly begun: number;
  readonly ended: number | null;
}

export interface Said extends Common {
  readonly kind: "text" | "reasoning";
  readonly id: string;
  readonly text: string;
}

export interface Call extends Common {
  readonly kind: "call";
  readonly id: string;
  readonly name: string;
  /** As they were written; null where streamed ones are no JSON (yet). */
  readonly given: Exact;
  /** Streamed pieces, joined. */
  readonly streamed: string;
  readonly state: "running" | "finished" | "failed" | "rejected" | "asked" | "left";
  readonly result: string | null;
  readonly resultRef: string | null;
  readonly error: { readonly code: string; readonly message: string; readonly retryable: boolean } | null;
  /** The subagents that work for this call; nearly always one. */
  readonly children: readonly Thread[];
}

export interface Question extends Common {
  readonly kind: "question";
  readonly id: string;
  readonly request: Exact;
}

export interface Notice extends Common {
  readonly kind: "notice";
  readonly code: string;
  readonly message: string;
}

export interface End extends Common {
  readonly kind: "end";
  readonly type: Terminal["type"];
  readonly reason: string | null;
  readonly error: Terminal["error"];
  readonly sideEffects: string | null;
}

/** What one agent said and did: the root's or a subagent's. */
export interface Thread {
  readonly path: readonly string[];
  readonly agentName: string;
  readonly outcome: Subagent["outcome"];
  readonly at: number;
  readonly begun: number;
  readonly ended: number | null;
  readonly pieces: readonly Piece[];
}

/** The text of an event of the log: free-form values are read from it, with the spelling of their numbers. */
export type RawOf = (sequence: number) => string | null;

/** The run's talk after event `until`, or as it stands. */
export function talkOf(model: RunModel, raw: RawOf, until: number | null = null): Thread {
  const limit = until ?? Number.POSITIVE_INFINITY;
  const begun = <T extends { readonly start: number }>(all: readonly T[]) => all.filter(({ start }) => start <= limit);
  const points = <T extends { readonly sequence: number }>(all: readonly T[]) => all.filter(({ sequence }) => sequence <= limit);
  const terminal = model.terminal !== null && model.terminal.sequence <= limit ? model.terminal : null;
  const questions = points(model.interrupts);
  const asked = new Set(questions.flatMap(({ request }) => (request.interrupt_type === "tool_approval" ? request.tool_approvals.map((one) => one.tool_call_id) : [])));
  const time = (span: Span) => ({ at: span.start, begun: span.startTime, ended: span.end !== null && span.end <= limit ? span.endTime : null });

  const byPath = new Map<string, Piece[]>();
  const put = (namespace: string, piece: Piece) => {
    const pieces = byPath.get(namespace);
    if (pieces === undefined) byPath.set(namespace, [piece]);
    else pieces.push(piece);
  };
  const subagents = begun(model.subagents);
  const byCall = new Map<string, Subagent[]>();
  for (const one of subagents) byCall.set(one.parentTool, [...(byCall.get(one.parentTool) ?? []), one]);

  for (const message of begun(model.messages)) {
    const ended = message.end !== null && message.end <= limit;
    const piece = (ended && SAID.get(message)) || {
      kind: message.kind,
      id: message.id,
      text: until === null ? message.content.text : textAt(message.content, until),
      ...time(message),
    };
    if (ended) SAID.set(message, piece);
    put(message.namespace, piece);
  }
  for (const one of questions) {
    const request = dataOf(raw(one.sequence)) ?? exact(one.request);
    put(one.namespace, { kind: "question", id: one.request.interrupt_id, request, at: one.sequence, begun: one.time, ended: one.time });
  }
  for (const one of points(model.warnings)) {
    put(one.namespace, { kind: "notice", code: one.code, message: one.message, at: one.sequence, begun: one.time, ended: one.time });
  }
  if (terminal !== null) {
    const { type, reason, error, sequence, time: at } = terminal;
    const sideEffects = error?.side_effect_status ?? textIn(dataOf(raw(sequence)), "side_effect_status");
    put("", { kind: "end", type, reason, error, sideEffects, at: sequence, begun: at, ended: at });
  }
  // Calls come last and inner ones first: they hold the finished threads of their subagents.
  const calls = begun(model.tools).sort((a, b) => pathOf(b.namespace).length - pathOf(a.namespace).length);
  const threads = new Map<string, Thread>();
  const thread = (subagent: Subagent): Thread => ({
    path: pathOf(subagent.namespace),
    agentName: subagent.agentName,
    outcome: subagent.end !== null && subagent.end <= limit ? subagent.outcome : "open",
    ...time(subagent),
    pieces: ordered(byPath.get(subagent.namespace) ?? []),
  });
  for (const tool of calls) {
    const known = tool.end !== null && tool.end <= limit && !byCall.has(tool.id) ? CALLED.get(tool) : undefined;
    if (known !== undefined) {
      put(tool.namespace, known);
      continue;
    }
    const state = toolAt(tool, until ?? model.lastSequence ?? 0);
    const ended = state.outcome !== "open";
    const streamed = tool.streamed.sequences.length > 0 ? state.arguments : "";
    const whole = streamed === "" ? (member(dataOf(raw(tool.start)) ?? null, "arguments") ?? exact(tool.arguments)) : null;
    const children = (byCall.get(tool.id) ?? []).map((subagent) => {
      const child = thread(subagent);
      threads.set(subagent.namespace, child);
      return child;
    });
    const piece: Call = {
      kind: "call",
      id: tool.id,
      name: tool.name,
      given: whole ?? parsed(streamed),
      streamed,
      state: ended ? CALL[state.outcome] : terminal?.type === "run.interrupted" || asked.has(tool.id) ? "asked" : terminal !== null ? "left" : "running",
      result: state.result,
      resultRef: ended ? tool.resultRef : null,
      error: ended ? tool.error : null,
      children,
      ...time(tool),
    };
    if (ended && children.length === 0) CALLED.set(tool, piece);
    put(tool.namespace, piece);
  }
  // A subagent whose call was never seen (the log cannot hold one) would be lost: it stands at the root.
  for (const one of subagents) {
    if (threads.has(one.namespace)) continue;
    const call = { kind: "call", id: one.parentTool, name: "", given: null, streamed: "", state: "left", result: null, resultRef: null, error: null } as const;
    put("", { ...call, children: [thread(one)], ...time(one) });
  }
  const at = model.firstTime ?? 0;
  return { path: [], agentName: "", outcome: terminal === null ? "open" : "success", at: 0, begun: at, ended: terminal?.time ?? null, pieces: ordered(byPath.get("") ?? []) };
}

/** What has ended stays as it is: its piece is made once, so a run that grows costs what is new. */
const SAID = new WeakMap<Message, Said>();
const CALLED = new WeakMap<Tool, Call>();

const CALL = { ok: "finished", error: "failed", rejected: "rejected", open: "running" } as const;

function ordered(pieces: readonly Piece[]): Piece[] {
  return [...pieces].sort((a, b) => a.at - b.at);
}

const EMPTY: Exact = new Map();

function parsed(text: string): Exact {
  if (text === "") return EMPTY;
  const result = parse(text);
  return result.ok ? result.value : null;
}

function dataOf(raw: string | null): Exact | undefined {
  if (raw === null) return undefined;
  const event = parse(raw);
  return event.ok ? member(event.value, "data") : undefined;
}

function textIn(data: Exact | undefined, key: string): string | null {
  const value = member(data, key);
  return typeof value === "string" ? value : null;
}

/** Milliseconds that a piece took; null while it goes on. */
export function took(piece: { readonly begun: number; readonly ended: number | null }): number | null {
  return piece.ended === null ? null : piece.ended - piece.begun;
}

/** How a run ended, in plain words. */
export function endInWords(end: Pick<End, "type" | "reason" | "error" | "sideEffects">): { tone: "ok" | "waiting" | "stopped" | "bad"; title: string; text: string } {
  const effects = EFFECTS[end.sideEffects ?? ""] ?? "";
  switch (end.type) {
    case "run.finished":
      return { tone: "ok", title: "Finished", text: end.reason === null ? "" : `Reason: ${end.reason}` };
    case "run.interrupted":
      return { tone: "waiting", title: "Ended with a question", text: "Its answer starts the next run." };
    case "run.cancelled":
      return { tone: "stopped", title: "Cancelled", text: `${CANCELLED[end.reason ?? ""] ?? ""} ${effects}`.trim() };
    case "run.error": {
      const retry = end.error?.retryable ? "Trying again may help." : "Trying again by itself will not help.";
      return { tone: "bad", title: `Failed: ${end.error?.code ?? "unknown"}`, text: `${end.error?.message ?? ""} ${retry} ${effects}`.trim() };
    }
  }
}

const CANCELLED: Readonly<Record<string, string>> = {
  client_request: "Somebody asked for it.",
  disconnect: "Its last reader went away.",
  shutdown: "The gateway was shut down.",
  deadline: "Its time was over.",
};
const EFFECTS: Readonly<Record<string, string>> = {
  none: "No tool had started.",
  known: "Every tool that had started had also ended.",
  possible: "A tool was at work: what it did is not known.",
};
