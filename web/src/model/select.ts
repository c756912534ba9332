// The selected event is one for all views of a run, and part of the address.
import { href, setQuery } from "../router";
import type { RunStore } from "./store";

/** Chooses an event, in every view and in the address. */
export function select(store: RunStore, sequence: number | null): void {
  store.selected.value = sequence;
  setQuery({ seq: sequence });
}

/** The address of the same run in another view, the selection kept. */
export function runHref(store: RunStore, view: string, query: Readonly<Record<string, string | number | null>> = {}): string {
  return href(["run", store.runId, view], { seq: store.selected.value, ...query });
}
