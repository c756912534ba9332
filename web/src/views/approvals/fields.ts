// A form of an interrupt: which control a field gets, whether what was entered fits, and the values to send. Pure.
//
// The gateway judges again; what is judged here saves a round trip, and says the same.
import { type Exact, Numeral, member, parse, textOf, write } from "../../exact";

export type Control = "text" | "lines" | "number" | "boolean" | "choice" | "choices" | "date" | "time" | "email" | "url" | "secret";

/** One of the values that a field offers. */
export interface Choice {
  readonly value: Exact;
  readonly label: string;
}

export interface Field {
  readonly name: string;
  readonly type: string;
  readonly control: Control;
  readonly label: string;
  readonly help: string;
  readonly required: boolean;
  readonly choices: readonly Choice[];
  /** What the form starts with. */
  readonly initial: Entry;
  /** A type that no control is made for: the harness judges it. */
  readonly foreign: boolean;
}

/** What a person entered: a text, or the places of the chosen values. */
export type Entry = string | readonly number[];

const CONTROLS: Readonly<Record<string, Control>> = {
  text: "text",
  string: "text",
  textarea: "lines",
  multiline: "lines",
  long_text: "lines",
  number: "number",
  integer: "number",
  boolean: "boolean",
  bool: "boolean",
  checkbox: "boolean",
  select: "text",
  enum: "text",
  radio: "text",
  date: "date",
  time: "time",
  email: "email",
  url: "url",
  password: "secret",
  secret: "secret",
};
const SEVERAL = new Set(["multiselect", "multi_select", "multi-select", "checkboxes", "list"]);

/** The fields of a form, as they came in `interrupt.requested`. */
export function fields(given: Exact): Field[] {
  return Array.isArray(given) ? given.map(field) : [];
}

function field(given: Exact): Field {
  const name = textOf(member(given, "field_name"));
  const type = textOf(member(given, "field_type"), "text");
  const offered = member(given, "field_values");
  const choices = Array.isArray(offered) ? offered.map(choice) : [];
  const control = choices.length > 0 ? (SEVERAL.has(type) ? "choices" : "choice") : (CONTROLS[type] ?? "text");
  const standard = first(given, ["default_value", "default"]);
  return {
    name,
    type,
    control,
    label: firstText(given, ["field_label", "label", "title"], name),
    help: firstText(given, ["field_description", "description", "help"], ""),
    required: member(given, "required") === true,
    choices,
    initial: initial(control, choices, standard),
    foreign: CONTROLS[type] === undefined && !SEVERAL.has(type),
  };
}

function choice(given: Exact): Choice {
  if (given instanceof Map && given.has("value")) {
    const value = given.get("value") ?? null;
    return { value, label: firstText(given, ["label", "title", "name"], plain(value)) };
  }
  return { value: given, label: plain(given) };
}

function initial(control: Control, choices: readonly Choice[], standard: Exact): Entry {
  if (control !== "choice" && control !== "choices") return plain(standard);
  const wanted = Array.isArray(standard) ? standard : standard === null ? [] : [standard];
  const places = wanted.map((value) => choices.findIndex((one) => plain(one.value) === plain(value))).filter((at) => at >= 0);
  return control === "choice" ? places.slice(0, 1) : places;
}

function first(given: Exact, keys: readonly string[]): Exact {
  for (const key of keys) {
    const found = member(given, key);
    if (found !== null) return found;
  }
  return null;
}

function firstText(given: Exact, keys: readonly string[], otherwise: string): string {
  const found = first(given, keys);
  return typeof found === "string" && found !== "" ? found : otherwise;
}

/** A value as one would type it. */
export function plain(value: Exact): string {
  if (value === null) return "";
  return typeof value === "string" ? value : write(value);
}

/** Why an entry does not fit its field, or null. */
export function fault(field: Field, entry: Entry): string | null {
  const value = valueOf(field, entry);
  if (value === null) return field.required ? "This is needed." : null;
  if (field.control === "number") {
    if (!(value instanceof Numeral)) return "This must be a number, for example 3 or 2.5.";
    if (!Number.isFinite(Number(value.raw))) return "This number is too large.";
    if (field.type === "integer" && !Number.isInteger(Number(value.raw))) return "This must be a whole number.";
  }
  if (typeof value === "string" && value.includes("\0")) return "This holds a character (U+0000) that cannot be sent.";
  return null;
}

/** What is sent for an entry; null where it was left empty. */
export function valueOf(field: Field, entry: Entry): Exact {
  if (typeof entry !== "string") {
    const chosen = entry.flatMap((at) => field.choices.slice(at, at + 1).map((one) => one.value));
    if (field.control === "choices") return chosen.length === 0 ? null : chosen;
    return chosen[0] ?? null;
  }
  const text = field.control === "text" || field.control === "lines" || field.control === "secret" ? entry : entry.trim();
  if (text === "") return null;
  if (field.control === "boolean") return text === "true" ? true : text === "false" ? false : text;
  if (field.control === "number") {
    const parsed = parse(text.replace(/^\+/, ""));
    return parsed.ok && parsed.value instanceof Numeral ? parsed.value : text;
  }
  return text;
}

/** The body's `values`: what was left empty is left out. */
export function values(all: readonly Field[], entries: ReadonlyMap<string, Entry>): Map<string, Exact> {
  const out = new Map<string, Exact>();
  for (const one of all) {
    const value = valueOf(one, entries.get(one.name) ?? one.initial);
    if (value !== null) out.set(one.name, value);
  }
  return out;
}
