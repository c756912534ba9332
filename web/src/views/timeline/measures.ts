import type { Bar } from "./layout";

export const ROW = 22;
export const BAR = 16;
/** More bars than this are drawn on a canvas. */
export const MOST_ELEMENTS = 2000;

/** Name of the colour of a bar, and whether its edge is dashed: open ones and reasoning are. */
export function barClass(bar: Bar): { readonly colour: string; readonly dashed: boolean } {
  if (bar.kind === "text") return { colour: "text-bar", dashed: bar.tone === "running" };
  if (bar.kind === "reasoning") return { colour: "reasoning", dashed: true };
  const open = bar.tone === "running" || bar.tone === "unsure";
  return { colour: bar.tone === "none" ? "quiet" : bar.tone, dashed: open };
}
