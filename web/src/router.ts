// The address is the state that can be sent to a colleague: `#/run/ID/timeline?seq=12`. Served paths stay `/` and `/assets/*`.
import { signal } from "@preact/signals";

export interface Route {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#?\/?/, "");
  const at = text.indexOf("?");
  const path = at < 0 ? text : text.slice(0, at);
  return {
    path: path.split("/").filter((part) => part !== "").map(decode),
    query: new URLSearchParams(at < 0 ? "" : text.slice(at + 1)),
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign stands for itself
  }
}

export function href(path: readonly string[], query?: Readonly<Record<string, string | number | null | undefined>>): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") parameters.set(key, String(value));
  }
  const text = parameters.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

export const route = signal<Route>(parseRoute(location.hash));
/** The address that `route` was read from: another one in the bar means that a step to it has been taken, and is about to be told. */
let told = location.hash;

addEventListener("hashchange", () => {
  told = location.hash;
  route.value = parseRoute(location.hash);
});

/** Goes there, as a step that the back button takes back. */
export function navigate(target: string): void {
  location.hash = target;
}

/** Changes the address without a new step of the history: what a filter, a selection or a cursor does. */
export function replace(target: string): void {
  history.replaceState(null, "", target);
  told = location.hash;
  route.value = parseRoute(target);
}

/** Sets or (with null and "") removes members of the query. What comes from a page that is being left is dropped: it would undo the step. */
export function setQuery(changes: Readonly<Record<string, string | number | null>>): void {
  if (location.hash !== told) return;
  const { path, query } = route.peek();
  const all: Record<string, string | number | null> = Object.fromEntries(query);
  replace(href(path, { ...all, ...changes }));
}
