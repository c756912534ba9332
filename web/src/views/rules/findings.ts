// Findings grouped by rule, and by event for the marks of a timeline. Pure.
import type { Findings } from "../../api";

/** A rule or a warning as `GET /api/v1/rules` explains it. */
export interface Rule {
  readonly id: string;
  readonly kind: "rule" | "warning";
  readonly title: string;
  readonly explanation: string;
  readonly accepted: string;
  readonly rejected: string | null;
}

export interface Found {
  readonly id: string;
  /** Broken, not only odd. */
  readonly broken: boolean;
  readonly message: string;
  readonly sequence: number | null;
  readonly line: number | null;
  readonly type: string | null;
  readonly pointer: string | null;
}

export interface Group {
  readonly id: string;
  readonly broken: boolean;
  readonly rule: Rule | null;
  readonly found: readonly Found[];
}

/** All findings, what is broken first, each in the order of the events. */
export function allFound(findings: Findings): Found[] {
  const violations = findings.violations.map(
    ({ rule, message, sequence, line, type, pointer }): Found => ({ id: rule, broken: true, message, sequence, line, type: type ?? null, pointer }),
  );
  const warnings = findings.warnings.map(
    ({ code, message, sequence, line, pointer }): Found => ({ id: code, broken: false, message, sequence, line, type: null, pointer }),
  );
  return [...violations, ...warnings];
}

/** By rule: broken ones in the order in which they were first broken (the first is the authority), then warnings. */
export function grouped(findings: Findings, rules: ReadonlyMap<string, Rule>): Group[] {
  const groups = new Map<string, Found[]>();
  for (const one of allFound(findings)) {
    const key = `${one.broken ? "broken" : "odd"} ${one.id}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return [...groups.values()].map((found) => {
    const first = found[0] as Found;
    return { id: first.id, broken: first.broken, rule: rules.get(first.id) ?? null, found };
  });
}

/** What was found at each event; a refused event has the number that it would have had. */
export function bySequence(findings: Findings): Map<number, Found[]> {
  const all = new Map<number, Found[]>();
  for (const one of allFound(findings)) {
    if (one.sequence === null) continue;
    const known = all.get(one.sequence);
    if (known === undefined) all.set(one.sequence, [one]);
    else known.push(one);
  }
  return all;
}

/** The first lines of an example stream; long ones are cut. */
export function example(stream: string, lines = 12, characters = 600): { text: string; cut: boolean }[] {
  const all = stream.trimEnd().split("\n");
  return all.slice(0, lines).map((text) => ({ text: text.slice(0, characters), cut: text.length > characters }));
}
