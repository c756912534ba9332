// What the inbox shows: what waits, and what waited when it was last looked at. Pure.
import type { Pending } from "./pending";

export interface Held {
  readonly pending: Pending;
  /** It waits no longer. */
  readonly gone: boolean;
}

/** What was shown stays where it was, also when it is settled; what is new comes behind; what was put away stays away. */
export function held(before: readonly Held[], fresh: readonly Pending[], away: ReadonlySet<string>): Held[] {
  const now = new Map(fresh.map((one) => [one.interruptId, one]));
  const kept = before
    .filter(({ pending }) => !away.has(pending.interruptId))
    .map(({ pending }): Held => ({ pending: now.get(pending.interruptId) ?? pending, gone: !now.has(pending.interruptId) }));
  const known = new Set(before.map(({ pending }) => pending.interruptId));
  return [...kept, ...fresh.filter(({ interruptId }) => !known.has(interruptId) && !away.has(interruptId)).map((pending) => ({ pending, gone: false }))];
}
