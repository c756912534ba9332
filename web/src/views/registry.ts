// Every view is a folder here with an `index.tsx` that exports `view`; nothing else has to be told of it.
import type { ComponentType } from "preact";
import type { RunStore } from "../model/store";

export interface TopView {
  readonly scope: "top";
  /** First part of the address: `#/name`. */
  readonly name: string;
  readonly title: string;
  /** Place in the navigation; views without one are reached by links. */
  readonly order: number | null;
  readonly component: ComponentType;
  /** Shown beside the title in the navigation. */
  readonly badge?: ComponentType;
}

export interface RunView {
  readonly scope: "run";
  /** Third part of the address: `#/run/ID/name`. */
  readonly name: string;
  readonly title: string;
  readonly order: number;
  readonly component: ComponentType<{ readonly store: RunStore }>;
  readonly badge?: ComponentType<{ readonly store: RunStore }>;
}

export type View = TopView | RunView;

const found = import.meta.glob<{ view: View }>("./*/index.tsx", { eager: true });
const all = Object.values(found)
  .map((module) => module.view)
  .sort((a, b) => (a.order ?? 1e9) - (b.order ?? 1e9));

export const topViews: readonly TopView[] = all.filter((view) => view.scope === "top");
export const runViews: readonly RunView[] = all.filter((view) => view.scope === "run");
