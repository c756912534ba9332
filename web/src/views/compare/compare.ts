// Two runs aligned by what they are made of: messages, calls by name and order, subagents inside their calls. Pure.
//
// Ids say nothing here: two runs never share one. What stands opposite is of the same kind, a call of the same tool.
import { type Exact, sorted, write } from "../../exact";
import { type Piece, type Thread, endInWords, took } from "../conversation/talk";
import { type Stretch, align, diffText } from "./diff";

export type State = "same" | "changed" | "added" | "removed";

/** What differs in one respect. */
export interface Change {
  readonly what: "text" | "arguments" | "result" | "error" | "outcome" | "question" | "agent";
  readonly stretches: readonly Stretch[];
}

export interface Row {
  readonly state: State;
  readonly left: Piece | null;
  readonly right: Piece | null;
  readonly changes: readonly Change[];
  readonly time: Time | null;
  /** What the subagents of a call did. */
  readonly children: readonly Row[];
}

/** How long the two took, and whether the difference is worth a word. */
export interface Time {
  readonly left: number;
  readonly right: number;
  readonly verdict: "slower" | "faster" | "alike";
}

export interface Threshold {
  /** Milliseconds below which a difference is nothing. */
  readonly least: number;
  /** The right must take this many times the left, or the other way round. */
  readonly factor: number;
}
export const THRESHOLD: Threshold = { least: 100, factor: 1.5 };

export interface Summary {
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  readonly slower: number;
  readonly faster: number;
}

/** Compares what two runs said and did. */
export function compare(left: Thread, right: Thread, threshold: Threshold = THRESHOLD): Row[] {
  return rows(left.pieces, right.pieces, threshold);
}

function rows(left: readonly Piece[], right: readonly Piece[], threshold: Threshold): Row[] {
  const pairs = align(left, right, likeness, (a, b) => key(a) === key(b) && content(a) === content(b));
  return pairs.map(([a, b]) => row(a, b, threshold));
}

/** What may stand opposite each other. */
function key(piece: Piece): string {
  if (piece.kind === "call") return `call ${piece.name}`;
  if (piece.kind === "notice") return `notice ${piece.code}`;
  return piece.kind;
}

const contents = new WeakMap<Piece, string>();

function content(piece: Piece): string {
  let text = contents.get(piece);
  if (text === undefined) {
    text = JSON.stringify(sides(piece));
    contents.set(piece, text);
  }
  return text;
}

function likeness(a: Piece, b: Piece): number {
  if (key(a) !== key(b)) return 0;
  if (content(a) === content(b)) return 3;
  if (a.kind !== "call" || b.kind !== "call") return 2;
  return args(a) === args(b) ? 2.5 : 2;
}

function row(left: Piece | null, right: Piece | null, threshold: Threshold): Row {
  const [inLeft, inRight] = [below(left), below(right)];
  const children = inLeft.length + inRight.length > 0 ? rows(inLeft, inRight, threshold) : [];
  if (left === null || right === null) {
    return { state: left === null ? "added" : "removed", left, right, changes: [], time: null, children };
  }
  const [a, b] = [sides(left), sides(right)];
  const changes = WHATS.flatMap((what): Change[] => {
    const [x, y] = [a[what] ?? "", b[what] ?? ""];
    if (x === y) return [];
    // These are words of ours: what they have in common says nothing.
    return [{ what, stretches: what === "outcome" ? whole(x, y) : diffText(x, y) }];
  });
  return { state: changes.length > 0 ? "changed" : "same", left, right, changes, time: timed(left, right, threshold), children };
}

/** What the subagents of a call said and did. */
function below(piece: Piece | null): readonly Piece[] {
  return piece?.kind === "call" ? piece.children.flatMap((child) => child.pieces) : [];
}

function whole(left: string, right: string): Stretch[] {
  const sides: Stretch[] = [
    { side: "left", text: left },
    { side: "right", text: right },
  ];
  return sides.filter(({ text }) => text !== "");
}

type What = Change["what"];
const WHATS: readonly What[] = ["agent", "text", "arguments", "result", "error", "outcome", "question"];

/** A piece in the words in which it is compared. */
function sides(piece: Piece): Partial<Record<What, string>> {
  switch (piece.kind) {
    case "text":
    case "reasoning":
      return { text: piece.text };
    case "call":
      return {
        arguments: args(piece),
        result: piece.result ?? "",
        error: piece.error === null ? "" : `${piece.error.code}: ${piece.error.message}`,
        outcome: piece.state,
        agent: piece.children.map((child) => `${child.agentName} (${child.outcome})`).join(", "),
      };
    case "notice":
      return { text: `${piece.code}: ${piece.message}` };
    case "question":
      return { question: question(piece.request) };
    case "end": {
      const { title, text } = endInWords(piece);
      return { outcome: text === "" ? title : `${title}. ${text}` };
    }
  }
}

function args(piece: Piece): string {
  if (piece.kind !== "call") return "";
  return piece.given === null ? piece.streamed : write(sorted(piece.given), 2);
}

/** Without the ids, which always differ. */
function question(request: Exact): string {
  const without = (value: Exact, key: string): Exact => (value instanceof Map ? new Map([...value].filter(([name]) => name !== key)) : value);
  const rest = without(request, "interrupt_id");
  const approvals = rest instanceof Map ? rest.get("tool_approvals") : null;
  if (rest instanceof Map && Array.isArray(approvals)) {
    rest.set(
      "tool_approvals",
      approvals.map((one) => without(one, "tool_call_id")),
    );
  }
  return write(sorted(rest), 2);
}

function timed(left: Piece, right: Piece, threshold: Threshold): Time | null {
  const [a, b] = [took(left), took(right)];
  if (a === null || b === null) return null;
  return { left: a, right: b, verdict: verdict(a, b, threshold) };
}

/** Whether a duration grew or shrank by more than the threshold. */
export function verdict(left: number, right: number, { least, factor }: Threshold): Time["verdict"] {
  if (Math.abs(right - left) < least) return "alike";
  if (right > left * factor) return "slower";
  return left > right * factor ? "faster" : "alike";
}

/** How many rows are what, those of subagents with them. */
export function summary(rows: readonly Row[]): Summary {
  const sum = { added: 0, removed: 0, changed: 0, slower: 0, faster: 0 };
  const count = (all: readonly Row[]): void => {
    for (const one of all) {
      if (one.state !== "same") sum[one.state] += 1;
      if (one.time !== null && one.time.verdict !== "alike") sum[one.time.verdict] += 1;
      count(one.children);
    }
  };
  count(rows);
  return sum;
}
