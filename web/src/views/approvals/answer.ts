// An answer to an interrupt: what a reviewer decided, the body that says so, its key, and where the gateway's refusal
// belongs. Pure.
import { type Exact, legible, locate, parse, place, write } from "../../exact";

export type Verb = "approve" | "edit" | "reject";
export const VERBS: readonly Verb[] = ["approve", "edit", "reject"];

/** A call that waits for a decision. */
export interface Approval {
  readonly tool_call_id: string;
  readonly tool_name: string;
  readonly tool_args: Exact;
  /** Never empty: an empty list on the wire means all. */
  readonly allowed: readonly Verb[];
}

/** What a reviewer has made of a call so far. */
export interface Draft {
  readonly verb: Verb | null;
  /** The text of the editor. */
  readonly edited: string;
  readonly message: string;
}

/** Something that keeps an answer from being sent, or for which it was refused. */
export interface Complaint {
  /** The call or the field; null where the answer as a whole is meant. */
  readonly about: string | null;
  readonly text: string;
  /** In the editor of that call, both from 1. */
  readonly at?: { readonly line: number; readonly column: number };
}

export const MAX_ARGUMENTS = 256 * 1024;
export const MAX_MESSAGE = 64 * 1024;

export function draftOf(approval: Approval): Draft {
  return { verb: null, edited: legible(approval.tool_args), message: "" };
}

/** Whether an edit says something else than the arguments that were asked about. */
export function isChanged(approval: Approval, draft: Draft): boolean {
  const parsed = parse(draft.edited);
  return !parsed.ok || write(parsed.value) !== write(approval.tool_args);
}

/** What of a call's draft cannot be sent. */
export function complaints(approval: Approval, draft: Draft): Complaint[] {
  const about = approval.tool_call_id;
  if (draft.verb === null) return [{ about, text: "Decide about this call." }];
  if (draft.verb === "reject") {
    return size(draft.message) > MAX_MESSAGE ? [{ about, text: "The message is longer than 64 KiB." }] : [];
  }
  if (draft.verb === "approve") return [];
  const parsed = parse(draft.edited);
  if (!parsed.ok) {
    const { line, column, message } = parsed.fault;
    return [{ about, text: `Line ${line}, column ${column}: ${message}.`, at: { line, column } }];
  }
  if (!(parsed.value instanceof Map)) return [{ about, text: "Arguments are one JSON object, in braces.", at: { line: 1, column: 1 } }];
  if (size(write(parsed.value)) > MAX_ARGUMENTS) return [{ about, text: "The arguments are longer than 256 KiB." }];
  return [];
}

/** The body's `decisions`, as JSON text. */
export function decisions(all: readonly (readonly [Approval, Draft])[]): string {
  const entries = all.map(([approval, draft]) => {
    const entry = new Map<string, Exact>([
      ["tool_call_id", approval.tool_call_id],
      ["decision", draft.verb],
    ]);
    if (draft.verb === "edit") {
      const parsed = parse(draft.edited);
      if (parsed.ok) entry.set("edited_args", parsed.value);
    }
    if (draft.verb === "reject" && draft.message.trim() !== "") entry.set("message", draft.message);
    return entry;
  });
  return write(entries);
}

/** The same answer has the same key, another one a new key: a second press or a retry is one answer. */
export class Keys {
  private readonly known = new Map<string, string>();

  constructor(private readonly fresh: () => string) {}

  of(answer: string): string {
    let key = this.known.get(answer);
    if (key === undefined) {
      key = this.fresh();
      this.known.set(answer, key);
    }
    return key;
  }
}

/** An id that nobody else has; `crypto.randomUUID` is missing where the page is not on loopback or TLS. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Where the sentence of a 422 belongs: a call, a place in its editor, a field, or the whole answer. */
export function placed(message: string, drafts: ReadonlyMap<string, Draft>, fieldNames: readonly string[]): Complaint {
  const schema = /^the edited arguments of call (.+) do not satisfy the schema of its tool at ("(?:[^"\\]|\\.)*") \(schema: ("(?:[^"\\]|\\.)*")\)$/s.exec(message);
  if (schema) {
    const [, about = "", at = "", rule = ""] = schema;
    const pointer = unquoted(at);
    const text = `${pointer === "" ? "The arguments" : pointer}: not what the tool's schema asks for (${unquoted(rule)}).`;
    const edited = drafts.get(about)?.edited;
    const span = edited === undefined ? null : locate(edited, pointer);
    return span && edited !== undefined ? { about, text, at: place(edited, span.start) } : { about, text };
  }
  const call = [...drafts.keys()].find((id) => message.includes(`call ${id} `));
  if (call !== undefined) return { about: call, text: sentence(message) };
  const field = fieldNames.find((name) => message.includes(`the field ${name} `));
  return { about: field ?? null, text: sentence(message) };
}

/** A text as Rust's debug format quotes it. */
function unquoted(quoted: string): string {
  return quoted
    .slice(1, -1)
    .replace(/\\(?:u\{([0-9a-f]+)\}|(.))/gs, (_, code: string | undefined, char: string | undefined) =>
      code !== undefined ? String.fromCodePoint(Number.parseInt(code, 16)) : (({ n: "\n", r: "\r", t: "\t", "0": "\0" })[char ?? ""] ?? char ?? ""),
    );
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

function size(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The time until `expires_at`, in words, and whether it is short. */
export function remaining(expiresAt: string, now: number): { text: string; soon: boolean; over: boolean } {
  const left = Math.floor((Date.parse(expiresAt) - now) / 1000);
  if (Number.isNaN(left)) return { text: expiresAt, soon: false, over: false };
  if (left <= 0) return { text: "expired", soon: true, over: true };
  const days = Math.floor(left / 86_400);
  const hours = Math.floor(left / 3600) % 24;
  const minutes = Math.floor(left / 60) % 60;
  const two = (value: number) => String(value).padStart(2, "0");
  const text = days > 0 ? `${days} d ${hours} h` : hours > 0 ? `${hours} h ${two(minutes)} min` : `${minutes}:${two(left % 60)}`;
  return { text: `expires in ${text}`, soon: left < 300, over: false };
}
