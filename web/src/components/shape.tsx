// What colour says, a shape says too. One glyph for each outcome, the same in tables, badges and the timeline.
import type { JSX } from "preact";

export type Tone = "running" | "ok" | "waiting" | "stopped" | "bad" | "unsure" | "info" | "warn" | "none";

export interface Glyph {
  /** In a square of 12. */
  readonly fill?: string;
  readonly line?: string;
}

export const GLYPHS: Readonly<Record<Tone, Glyph>> = {
  running: { line: "M6 1.75a4.25 4.25 0 1 1 0 8.5a4.25 4.25 0 1 1 0-8.5z", fill: "M6 1.75a4.25 4.25 0 0 1 0 8.5z" },
  ok: { fill: "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zm2.2 3.1L5.3 7.2 3.9 5.9l-.9 1 2.4 2.2L9.2 5z" },
  waiting: { fill: "M6 .8 11.2 6 6 11.2.8 6zM4.6 4v4h1V4zm1.8 0v4h1V4z" },
  stopped: { line: "M2 2h8v8H2z" },
  bad: { fill: "M6 .9 11.5 11H.5zM5.4 4.4l.2 3.2h.8l.2-3.2zm0 4v1.2h1.2V8.4z" },
  unsure: {
    fill: "M3.2 1h5.6L11.5 6 8.8 11H3.2L.5 6zM4.3 4.7h1.2c0-.5.2-.8.6-.8.3 0 .5.2.5.5 0 .7-1.2.7-1.2 2.1h1.1c0-.9 1.3-1 1.3-2.2C7.8 3.4 7 2.9 6.1 2.9c-1.1 0-1.8.7-1.8 1.8zm1 2.6v1.2h1.3V7.3z",
  },
  info: { line: "M6 2.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7z" },
  warn: { line: "M6 1.6 10.8 10.4H1.2z" },
  none: { fill: "M2 5.25h8v1.5H2z" },
};

export function Shape({ tone }: { readonly tone: Tone }): JSX.Element {
  const { fill, line } = GLYPHS[tone];
  return (
    <svg class="shape" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false">
      {line && <path d={line} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" />}
      {fill && <path d={fill} fill="currentColor" fill-rule="evenodd" />}
    </svg>
  );
}
