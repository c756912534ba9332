// JSON as it was written: numbers keep their spelling, objects their order, and a fault has a line and a column.
//
// `JSON.parse` turns 9007199254740993 into 9007199254740992; a reviewer who edits arguments would send that. It also
// takes repeated keys, which the gateway refuses. What is free-form goes through here.

/** A number with its spelling. */
export class Numeral {
  constructor(readonly raw: string) {}
}

/** A JSON value whose numbers are not rounded. */
export type Exact = null | boolean | string | Numeral | Exact[] | Map<string, Exact>;

/** Why a text is no JSON, and where (both counted from 1). */
export interface Fault {
  message: string;
  line: number;
  column: number;
  offset: number;
}

export type Parsed = { ok: true; value: Exact } | { ok: false; fault: Fault };

/** A range of the text. */
export interface Span {
  start: number;
  end: number;
}

const DEPTH = 64;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const ESCAPES: Record<string, string> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

class Refused extends Error {
  constructor(
    message: string,
    readonly offset: number,
  ) {
    super(message);
  }
}

class Reader {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly seen?: (pointer: string, span: Span) => void,
  ) {}

  whole(): Exact {
    const value = this.value("", 1);
    this.space();
    if (this.at < this.text.length) throw new Refused("something follows the value", this.at);
    return value;
  }

  private space(): void {
    SPACE.lastIndex = this.at;
    SPACE.exec(this.text);
    this.at = SPACE.lastIndex;
  }

  private value(pointer: string, depth: number): Exact {
    this.space();
    const start = this.at;
    const value = this.bare(pointer, depth);
    this.seen?.(pointer, { start, end: this.at });
    return value;
  }

  private bare(pointer: string, depth: number): Exact {
    const first = this.text[this.at];
    if (first === undefined) throw new Refused("the text ends where a value should stand", this.at);
    if (first === "{" || first === "[") {
      if (depth > DEPTH) throw new Refused(`it is nested deeper than ${DEPTH} levels`, this.at);
      return first === "{" ? this.object(pointer, depth) : this.array(pointer, depth);
    }
    if (first === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    NUMBER.lastIndex = this.at;
    const number = NUMBER.exec(this.text);
    if (number === null) throw new Refused("here should be a value", this.at);
    const next = this.text[NUMBER.lastIndex];
    if (next !== undefined && /[\w.+-]/.test(next)) throw new Refused("this is no JSON number", this.at);
    this.at = NUMBER.lastIndex;
    return new Numeral(number[0]);
  }

  private object(pointer: string, depth: number): Map<string, Exact> {
    const members = new Map<string, Exact>();
    this.at += 1;
    this.space();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return members;
    }
    for (;;) {
      this.space();
      const at = this.at;
      if (this.text[at] !== '"') throw new Refused('here should be a key in double quotes (")', at);
      const key = this.string();
      if (members.has(key)) throw new Refused("this key stands here twice", at);
      this.space();
      if (this.text[this.at] !== ":") throw new Refused("a colon (:) is missing after the key", this.at);
      this.at += 1;
      members.set(key, this.value(`${pointer}/${escaped(key)}`, depth + 1));
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "}") throw new Refused("a comma (,) or a closing brace (}) is missing", this.at);
      this.at += 1;
      if (next === "}") return members;
    }
  }

  private array(pointer: string, depth: number): Exact[] {
    const items: Exact[] = [];
    this.at += 1;
    this.space();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return items;
    }
    for (;;) {
      items.push(this.value(`${pointer}/${items.length}`, depth + 1));
      this.space();
      const next = this.text[this.at];
      if (next !== "," && next !== "]") throw new Refused("a comma (,) or a closing bracket (]) is missing", this.at);
      this.at += 1;
      if (next === "]") return items;
    }
  }

  private string(): string {
    const start = this.at;
    let out = "";
    let from = this.at + 1;
    for (let at = from; ; at += 1) {
      const char = this.text[at];
      if (char === undefined) throw new Refused("this text in quotes does not end", start);
      if (char === '"') {
        this.at = at + 1;
        return out + this.text.slice(from, at);
      }
      if (char < " ") throw new Refused("a control character in a text is written as an escape, a new line as \\n", at);
      if (char !== "\\") continue;
      out += this.text.slice(from, at);
      const kind = this.text[at + 1] ?? "";
      if (kind === "u") {
        const digits = this.text.slice(at + 2, at + 6);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new Refused("\\u takes four hexadecimal digits", at);
        out += String.fromCharCode(Number.parseInt(digits, 16));
        at += 5;
      } else {
        const plain = ESCAPES[kind];
        if (plain === undefined) throw new Refused("there is no such escape", at);
        out += plain;
        at += 1;
      }
      from = at + 1;
    }
  }
}

const WORDS: [string, Exact][] = [
  ["null", null],
  ["true", true],
  ["false", false],
];

/** Reads a text as one JSON value. */
export function parse(text: string): Parsed {
  try {
    return { ok: true, value: new Reader(text).whole() };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { ok: false, fault: { message: error.message, offset: error.offset, ...place(text, error.offset) } };
  }
}

/** Line and column of an offset, both from 1. */
export function place(text: string, offset: number): { line: number; column: number } {
  let line = 1;
  let begin = 0;
  for (;;) {
    const next = text.indexOf("\n", begin);
    if (next === -1 || next >= offset) return { line, column: offset - begin + 1 };
    line += 1;
    begin = next + 1;
  }
}

/** Where an RFC 6901 pointer points in the text; where nothing stands, the nearest place around it. */
export function locate(text: string, pointer: string): Span | null {
  let best: Span | null = null;
  let length = -1;
  const reader = new Reader(text, (found, span) => {
    const around = found === pointer || found === "" || pointer.startsWith(`${found}/`);
    if (around && found.length > length) {
      best = span;
      length = found.length;
    }
  });
  try {
    reader.whole();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return null;
  }
  return best;
}

/** As JSON text: compact, or with an indent. */
export function write(value: Exact, indent = 0, level = 0): string {
  if (value === null || typeof value === "boolean" || typeof value === "string") return JSON.stringify(value);
  if (value instanceof Numeral) return value.raw;
  const inner = indent > 0 ? `\n${" ".repeat(indent * (level + 1))}` : "";
  const outer = indent > 0 ? `\n${" ".repeat(indent * level)}` : "";
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[${value.map((item) => inner + write(item, indent, level + 1)).join(",")}${outer}]`;
  }
  if (value.size === 0) return "{}";
  const colon = indent > 0 ? ": " : ":";
  const members = [...value].map(([key, item]) => inner + JSON.stringify(key) + colon + write(item, indent, level + 1));
  return `{${members.join(",")}${outer}}`;
}

// C0 but line breaks, DEL and C1, zero-width and bidirectional marks, line separators: what would be written unseen.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** As JSON text to be read and edited by a person: the same value, with what cannot be seen written as escapes. */
export function legible(value: Exact): string {
  // Such characters stand only inside texts in quotes.
  return write(value, 2).replace(UNSEEN, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The same value with the keys of its objects sorted: for comparing. */
export function sorted(value: Exact): Exact {
  if (Array.isArray(value)) return value.map(sorted);
  if (!(value instanceof Map)) return value;
  const entries = [...value].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return new Map(entries.map(([key, item]) => [key, sorted(item)]));
}

/** A value of `JSON.parse` as an exact one. */
export function exact(value: unknown): Exact {
  if (value === null || value === undefined) return null;
  if (typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") return new Numeral(JSON.stringify(value));
  if (value instanceof Numeral) return value;
  if (Array.isArray(value)) return value.map(exact);
  if (value instanceof Map) return value as Map<string, Exact>;
  return new Map(Object.entries(value as object).map(([key, item]) => [key, exact(item)]));
}

/** A member of an object, or null. */
export function member(value: Exact | undefined, key: string): Exact {
  return value instanceof Map ? (value.get(key) ?? null) : null;
}

/** A string, or what to say instead. */
export function textOf(value: Exact | undefined, otherwise = ""): string {
  return typeof value === "string" ? value : otherwise;
}

function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
