// Where everything stands on the timeline: lanes by namespace, in each as many rows as work went on at the same time. Pure.
import type { Tone } from "../../components/shape";
import type { RunModel } from "../../model/model";

export type Axis = "time" | "events";
export type BarKind = "text" | "reasoning" | "tool" | "subagent";

export interface Bar {
  readonly kind: BarKind;
  readonly label: string;
  readonly tone: Tone;
  readonly namespace: string;
  /** Its first event, and its last if it has ended. */
  readonly start: number;
  readonly end: number | null;
  readonly startTime: number;
  readonly endTime: number | null;
  /** On the axis. */
  readonly from: number;
  readonly to: number;
  /** Row from the top of everything. */
  row: number;
}

export interface Mark {
  readonly kind: "warning" | "usage" | "interrupt" | "terminal" | "metadata" | "violation" | "lint";
  readonly label: string;
  readonly tone: Tone;
  readonly sequence: number;
  readonly at: number;
}

export interface Lane {
  readonly namespace: string;
  readonly name: string;
  readonly depth: number;
  readonly row: number;
  readonly rows: number;
}

export interface Layout {
  readonly lanes: readonly Lane[];
  /** In the order of their first events. */
  readonly bars: readonly Bar[];
  readonly marks: readonly Mark[];
  readonly rows: number;
  readonly from: number;
  readonly to: number;
}

const TOOL: Readonly<Record<RunModel["tools"][number]["outcome"], Tone>> = { open: "running", ok: "ok", error: "bad", rejected: "stopped" };
const SUBAGENT: Readonly<Record<RunModel["subagents"][number]["outcome"], Tone>> = {
  open: "running",
  success: "ok",
  interrupted: "waiting",
  cancelled: "stopped",
  error: "bad",
};

export interface Finding {
  readonly sequence: number | null;
  readonly label: string;
  readonly kind: "violation" | "lint";
}

export function layout(model: RunModel, axis: Axis, timeAt: (sequence: number) => number, findings: readonly Finding[] = []): Layout {
  const from = axis === "time" ? (model.firstTime ?? 0) : 0;
  const last = axis === "time" ? (model.lastTime ?? 1) : (model.lastSequence ?? 1);
  const to = last > from ? last : from + 1;
  const ended = model.terminal !== null;
  const place = (sequence: number, time: number) => (axis === "time" ? time : sequence);

  const bars: Bar[] = [];
  const bar = (
    kind: BarKind,
    label: string,
    tone: Tone,
    span: { start: number; end: number | null; startTime: number; endTime: number | null; namespace: string },
  ) => {
    const { start, end, startTime, endTime, namespace } = span;
    const begin = place(start, startTime);
    const stop = end === null || endTime === null ? last : place(end, endTime);
    bars.push({ kind, label, tone, namespace, start, end, startTime, endTime, from: begin, to: Math.max(begin, stop), row: 0 });
  };
  for (const message of model.messages) {
    bar(message.kind, message.kind === "text" ? "text" : "reasoning", message.end === null && !ended ? "running" : "none", message);
  }
  for (const tool of model.tools) {
    bar("tool", tool.name, tool.outcome === "open" && ended ? "unsure" : TOOL[tool.outcome], tool);
  }
  for (const subagent of model.subagents) bar("subagent", subagent.agentName, SUBAGENT[subagent.outcome], subagent);
  bars.sort((a, b) => a.start - b.start);

  // Lanes depth first: a subagent's stands below the one that called it.
  const children = new Map<string, RunModel["subagents"]>();
  for (const subagent of model.subagents) {
    const siblings = children.get(subagent.parent);
    if (siblings) siblings.push(subagent);
    else children.set(subagent.parent, [subagent]);
  }
  const byLane = new Map<string, Bar[]>();
  for (const one of bars) {
    const lane = byLane.get(one.namespace);
    if (lane) lane.push(one);
    else byLane.set(one.namespace, [one]);
  }
  const lanes: Lane[] = [];
  let row = 0;
  const lane = (namespace: string, name: string, depth: number) => {
    const ends: number[] = [];
    for (const one of byLane.get(namespace) ?? []) {
      // A subagent's own bar spans its lane: it has the first row to itself.
      let free = one.kind === "subagent" ? 0 : ends.findIndex((end, index) => !(depth > 0 && index === 0) && end <= one.from);
      if (free < 0) free = Math.max(ends.length, depth > 0 ? 1 : 0);
      if (depth > 0 && ends.length === 0) ends.push(Number.POSITIVE_INFINITY);
      // What takes no time at all takes its place all the same.
      ends[free] = one.kind === "subagent" ? Number.POSITIVE_INFINITY : Math.max(one.to, one.from + (to - from) * 1e-9);
      one.row = row + free;
    }
    const rows = Math.max(1, ends.length);
    lanes.push({ namespace, name, depth, row, rows });
    row += rows;
    for (const child of children.get(namespace) ?? []) lane(child.namespace, child.agentName, depth + 1);
  };
  lane("", "root", 0);

  const marks: Mark[] = [];
  const mark = (kind: Mark["kind"], label: string, tone: Tone, point: { sequence: number; time: number }) =>
    marks.push({ kind, label, tone, sequence: point.sequence, at: place(point.sequence, point.time) });
  for (const one of model.warnings) mark("warning", `warning ${one.code}`, "warn", one);
  for (const one of model.usage) mark("usage", `usage, in ${one.usage.input_tokens ?? "–"}, out ${one.usage.output_tokens ?? "–"}`, "info", one);
  for (const one of model.interrupts) mark("interrupt", "interrupt requested", "waiting", one);
  if (model.terminal) {
    const tones = { "run.finished": "ok", "run.interrupted": "waiting", "run.cancelled": "stopped", "run.error": "bad" } as const;
    mark("terminal", model.terminal.type, tones[model.terminal.type], model.terminal);
  }
  for (const one of findings) {
    if (one.sequence === null) continue;
    mark(one.kind, one.label, one.kind === "violation" ? "bad" : "warn", { sequence: one.sequence, time: timeAt(one.sequence) });
  }
  marks.sort((a, b) => a.sequence - b.sequence);
  return { lanes, bars, marks, rows: row, from, to };
}

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** `wanted`, kept inside the whole and not narrower than can be told apart. */
export function clamp(wanted: Window, whole: Window): Window {
  const most = whole.to - whole.from;
  const span = Math.min(most, Math.max(wanted.to - wanted.from, most / 1e5, 1e-3));
  const from = Math.min(Math.max(wanted.from, whole.from), whole.to - span);
  return { from, to: from + span };
}

/** Zooms by `factor` with what is at `at` staying where it is. */
export function zoom(window: Window, whole: Window, factor: number, at: number): Window {
  return clamp({ from: at - (at - window.from) * factor, to: at + (window.to - at) * factor }, whole);
}

/** Round steps for an axis of `span`, at most `most` of them. */
export function tickStep(span: number, most: number): number {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) ?? 10;
  return step * power;
}
