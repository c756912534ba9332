// The timeline on a canvas, for runs with more bars than a page can hold as elements. The same picture as the SVG.
import { GLYPHS, type Tone } from "../../components/shape";
import type { Bar, Window } from "./layout";
import { BAR, ROW, barClass } from "./measures";

export interface Colours {
  readonly of: (name: string) => string;
}

export function colours(element: Element): Colours {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return {
    of: (name) => {
      let value = known.get(name);
      if (value === undefined) {
        value = style.getPropertyValue(`--${name}`).trim() || "gray";
        known.set(name, value);
      }
      return value;
    },
  };
}

const paths = new Map<string, Path2D>();
function path(text: string): Path2D {
  let made = paths.get(text);
  if (!made) {
    made = new Path2D(text);
    paths.set(text, made);
  }
  return made;
}

export function glyph(context: CanvasRenderingContext2D, tone: Tone, x: number, y: number, colour: string): void {
  const { fill, line } = GLYPHS[tone];
  context.save();
  context.translate(x, y);
  if (line) {
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.stroke(path(line));
  }
  if (fill) {
    context.fillStyle = colour;
    context.fill(path(fill), "evenodd");
  }
  context.restore();
}

export interface Picture {
  readonly bars: readonly Bar[];
  readonly window: Window;
  readonly width: number;
  readonly height: number;
  /** Pixels from the top of everything to the top of the canvas. */
  readonly top: number;
  readonly selected: number | null;
}

/** A canvas of this many pixels of the page, empty, at the screen's own resolution. */
function cleared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio || 1;
  // Setting them clears it.
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  return context;
}

export function paint(canvas: HTMLCanvasElement, picture: Picture): void {
  const { bars, window, width, height, top } = picture;
  const context = cleared(canvas, width, height);
  if (!context) return;
  const { of } = colours(canvas);
  const scale = width / (window.to - window.from);
  context.font = `11px ${of("font")}`;
  context.textBaseline = "middle";
  // Bars that fall on one pixel of one row are drawn once.
  const last = new Map<string, number>();
  for (const bar of bars) {
    const y = bar.row * ROW - top;
    if (y + ROW < 0 || y > height || bar.to < window.from || bar.from > window.to) continue;
    const x = (bar.from - window.from) * scale;
    const wide = Math.max(2, (bar.to - bar.from) * scale);
    const chosen = picture.selected !== null && bar.start === picture.selected;
    const kind = `${bar.row} ${bar.tone} ${bar.kind}`;
    const right = last.get(kind);
    if (!chosen && right !== undefined && x + wide <= right) continue;
    last.set(kind, Math.ceil(x + wide));
    const colour = of(barClass(bar).colour);
    const box = y + (ROW - BAR) / 2;
    // Too thin for an edge: edges alone would fill the row.
    const thin = wide < 4 && !chosen;
    context.globalAlpha = thin ? 0.55 : 0.22;
    context.fillStyle = colour;
    context.fillRect(x, box, wide, BAR);
    context.globalAlpha = 1;
    if (!thin) {
      context.strokeStyle = chosen ? of("text") : colour;
      context.lineWidth = chosen ? 2 : 1;
      context.setLineDash(barClass(bar).dashed ? [3, 2] : []);
      context.strokeRect(x + 0.5, box + 0.5, Math.max(1, wide - 1), BAR - 1);
      context.setLineDash([]);
    }
    if (wide >= 16 && bar.tone !== "none") glyph(context, bar.tone, x + 2, y + (ROW - 12) / 2, of(bar.tone));
    if (wide >= 40) {
      context.save();
      context.beginPath();
      context.rect(x, y, wide - 4, ROW);
      context.clip();
      context.fillStyle = of("text");
      context.fillText(bar.label.slice(0, 80), Math.max(x, 0) + (bar.tone === "none" ? 5 : 18), y + ROW / 2);
      context.restore();
    }
  }
}

/** The whole run in a strip: where something went on, and where something went wrong. */
export function paintMap(canvas: HTMLCanvasElement, bars: readonly Bar[], whole: Window, rows: number, width: number, height: number): void {
  const context = cleared(canvas, width, height);
  if (!context) return;
  const { of } = colours(canvas);
  const scale = width / (whole.to - whole.from);
  const tall = Math.max(1.5, Math.min(5, (height - 6) / Math.max(1, rows)));
  const last = new Map<string, number>();
  for (const bar of bars) {
    const x = (bar.from - whole.from) * scale;
    const wide = Math.max(1.5, (bar.to - bar.from) * scale);
    const y = 3 + ((height - 6 - tall) * bar.row) / Math.max(1, rows - 1);
    const key = `${Math.round(y)} ${bar.tone}`;
    const right = last.get(key);
    if (right !== undefined && x + wide <= right) continue;
    last.set(key, Math.ceil(x + wide));
    context.globalAlpha = bar.tone === "bad" ? 1 : 0.6;
    context.fillStyle = of(barClass(bar).colour);
    context.fillRect(x, y, wide, tall);
  }
  context.globalAlpha = 1;
}
