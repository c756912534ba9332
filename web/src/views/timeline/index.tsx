// What went on when: one bar a message, tool call and subagent, lanes by namespace, the whole run on top.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { EventDetail } from "../../components/event-detail";
import { narrow } from "../../components/narrow";
import { GLYPHS, Shape } from "../../components/shape";
import { Empty } from "../../components/states";
import { Line, visibleText } from "../../components/text";
import { count, duration, plural } from "../../format";
import { useKeys } from "../../keys";
import { select } from "../../model/select";
import type { RunStore } from "../../model/store";
import { route, setQuery } from "../../router";
import { isDark, theme } from "../../theme";
import type { RunView } from "../registry";
import { type Axis, type Bar, type Finding, type Layout, type Mark, type Window, clamp, layout, tickStep, zoom } from "./layout";
import { BAR, MOST_ELEMENTS, ROW, barClass } from "./measures";
import { paint, paintMap } from "./paint";
import "./timeline.css";

function useSize<T extends HTMLElement>(): [{ current: T | null }, { width: number; height: number }] {
  const element = useRef<T>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const box = element.current;
    if (!box) return;
    const measure = () => setSize({ width: box.clientWidth, height: box.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    return () => watch.disconnect();
  }, [element.current === null]);
  return [element, size];
}

const WORDS: Readonly<Record<string, string>> = {
  running: "running",
  ok: "ended well",
  waiting: "interrupted",
  stopped: "cancelled or refused",
  bad: "failed",
  unsure: "never ended",
  none: "",
};

function described(bar: Bar): string {
  const took = bar.endTime === null ? "open" : duration(bar.endTime - bar.startTime);
  const outcome = WORDS[bar.tone] ?? "";
  return `${bar.kind} ${visibleText(bar.label.slice(0, 80))}, ${took}${outcome === "" ? "" : `, ${outcome}`}, events ${bar.start}–${bar.end ?? "…"}`;
}

function Timeline({ store }: { readonly store: RunStore }): JSX.Element {
  const version = store.version.value;
  const findings = store.findings.value;
  const axis: Axis = route.value.query.get("axis") === "events" ? "events" : "time";
  const state = store.connection.value.state;
  const dark = theme.value !== "light" && isDark();
  useEffect(() => {
    // Findings are for what is known so far; once more when it is all.
    store.loadFindings().catch(() => undefined);
  }, [state === "ended"]);

  const all = useMemo<Layout>(() => {
    const list: Finding[] = [
      ...(findings?.violations ?? []).map((one) => ({ sequence: one.sequence, label: `${one.rule}: ${one.message}`, kind: "violation" as const })),
      ...(findings?.warnings ?? []).map((one) => ({ sequence: one.sequence, label: `${one.code}: ${one.message}`, kind: "lint" as const })),
    ];
    return layout(store.model, axis, (sequence) => store.eventAt(sequence)?.time ?? store.model.lastTime ?? 0, list);
  }, [version, axis, findings]);

  const whole: Window = { from: all.from, to: all.to };
  const [asked, setWindow] = useState<Window | null>(null);
  useEffect(() => setWindow(null), [axis]);
  const window: Window = asked === null ? whole : clamp(asked, whole);
  const zoomed = window.to - window.from < (whole.to - whole.from) * 0.999;

  const [area, size] = useSize<HTMLDivElement>();
  const [top, setTop] = useState(0);
  const labels = narrow.value ? 76 : 150;
  const width = Math.max(50, size.width - labels);
  const scale = width / (window.to - window.from);
  const selected = store.selected.value;
  const chosenBar = selected === null ? undefined : all.bars.find((bar) => bar.start === selected) ?? all.bars.find((bar) => bar.end === selected);
  const event = selected === null ? null : store.eventAt(selected);

  const pick = (bar: Bar | undefined) => {
    if (!bar) return;
    select(store, bar.start);
    if (bar.to < window.from || bar.from > window.to) {
      const half = (window.to - window.from) / 2;
      setWindow(clamp({ from: bar.from - half, to: bar.from + half }, whole));
    }
    const box = area.current;
    if (!box) return;
    const y = bar.row * ROW;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + ROW - box.clientHeight;
  };
  const step = (by: number) => {
    const at = chosenBar ? all.bars.indexOf(chosenBar) : by > 0 ? -1 : all.bars.length;
    pick(all.bars[Math.max(0, Math.min(all.bars.length - 1, at + by))]);
  };
  const pan = (part: number) => {
    const by = (window.to - window.from) * part;
    setWindow(clamp({ from: window.from + by, to: window.to + by }, whole));
  };
  const centre = () => (chosenBar && chosenBar.from >= window.from && chosenBar.from <= window.to ? chosenBar.from : (window.from + window.to) / 2);
  useKeys([
    { key: "j", does: "Next bar", run: () => step(1) },
    { key: "k", does: "Bar before", run: () => step(-1) },
    { key: "+", does: "Zoom in", run: () => setWindow(zoom(window, whole, 0.5, centre())) },
    { key: "-", does: "Zoom out", run: () => setWindow(zoom(window, whole, 2, centre())) },
    { key: "0", does: "The whole run", run: () => setWindow(null) },
    { key: "ArrowLeft", does: "Pan back", run: () => pan(-0.25) },
    { key: "ArrowRight", does: "Pan on", run: () => pan(0.25) },
    { key: "Escape", does: "Nothing selected", run: () => select(store, null) },
  ]);

  const drag = useRef<{ x: number; window: Window; moved: boolean } | null>(null);
  const at = (clientX: number) => window.from + (clientX - (area.current?.getBoundingClientRect().left ?? 0) - labels) / scale;
  const rowAt = (clientY: number) => Math.floor((clientY - (area.current?.getBoundingClientRect().top ?? 0) + (area.current?.scrollTop ?? 0)) / ROW);
  const hit = (clientX: number, clientY: number): Bar | undefined => {
    const row = rowAt(clientY);
    const value = at(clientX);
    const slack = 3 / scale;
    let best: Bar | undefined;
    for (const bar of all.bars) {
      if (bar.row !== row || bar.from - slack > value || Math.max(bar.to, bar.from + 12 / scale) + slack < value) continue;
      best = bar; // the later one lies on top
    }
    return best;
  };

  // Wheel listeners must be able to keep the page from scrolling.
  const wheel = useRef<(event: WheelEvent) => void>(() => undefined);
  wheel.current = (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      setWindow(zoom(window, whole, event.deltaY > 0 ? 1.25 : 0.8, at(event.clientX)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const by = (event.deltaX || event.deltaY) / scale;
      setWindow(clamp({ from: window.from + by, to: window.to + by }, whole));
    }
  };
  useEffect(() => {
    const box = area.current;
    if (!box) return;
    const listen = (event: WheelEvent) => wheel.current(event);
    box.addEventListener("wheel", listen, { passive: false });
    return () => box.removeEventListener("wheel", listen);
  }, [area.current === null]);

  const [tip, setTip] = useState<{ text: string; x: number; y: number } | null>(null);
  if (store.events.length === 0) return <Empty title="No events yet" />;
  const onCanvas = all.bars.length > MOST_ELEMENTS;
  return (
    <div class="page">
      <div class="bar">
        <div class="choice" role="group" aria-label="Axis">
          {(["time", "events"] as const).map((one) => (
            <button key={one} type="button" class="button small" aria-pressed={axis === one} onClick={() => setQuery({ axis: one === "time" ? null : one })}>
              by {one}
            </button>
          ))}
        </div>
        <div class="choice" role="group" aria-label="Zoom">
          <button type="button" class="button small" aria-label="Zoom in" onClick={() => setWindow(zoom(window, whole, 0.5, centre()))}>
            +
          </button>
          <button type="button" class="button small" aria-label="Zoom out" disabled={!zoomed} onClick={() => setWindow(zoom(window, whole, 2, centre()))}>
            −
          </button>
          <button type="button" class="button small" disabled={!zoomed} onClick={() => setWindow(null)}>
            Whole run
          </button>
        </div>
        <Legend />
        <span class="end quiet number">
          {plural(all.bars.length, "bar")}, {plural(all.lanes.length, "lane")}
          {onCanvas && ", drawn on a canvas"}
        </span>
      </div>
      <div class={event ? "split timeline-split" : "timeline-whole"}>
        <div class="timeline">
          <MiniMap all={all} whole={whole} window={window} onWindow={setWindow} labels={labels} dark={dark} />
          <Ruler window={window} whole={whole} width={width} labels={labels} axis={axis} marks={all.marks} selected={selected} onPick={(mark) => select(store, mark.sequence)} />
          <div
            ref={area}
            class={`timeline-area ${zoomed ? "is-zoomed" : ""}`}
            tabIndex={0}
            role="group"
            aria-label={`Timeline of ${plural(all.bars.length, "bar")}: j and k go through them`}
            onScroll={(event) => setTop(event.currentTarget.scrollTop)}
            onPointerDown={(event) => {
              if (event.button !== 0) return;
              drag.current = { x: event.clientX, window, moved: false };
            }}
            onPointerMove={(event) => {
              const held = drag.current;
              if (held && event.buttons === 1) {
                const by = (held.x - event.clientX) / scale;
                if (Math.abs(event.clientX - held.x) > 3) held.moved = true;
                if (held.moved && zoomed) setWindow(clamp({ from: held.window.from + by, to: held.window.to + by }, whole));
                return;
              }
              const bar = hit(event.clientX, event.clientY);
              const box = event.currentTarget.getBoundingClientRect();
              setTip(bar ? { text: described(bar), x: Math.min(event.clientX - box.left + 12, box.width - 240), y: event.clientY - box.top + 30 } : null);
            }}
            onPointerLeave={() => setTip(null)}
            onPointerUp={(event) => {
              const held = drag.current;
              drag.current = null;
              if (held && !held.moved) pick(hit(event.clientX, event.clientY));
            }}
          >
            <div class="timeline-space" style={{ height: `${all.rows * ROW + 8}px` }}>
              {all.lanes.map((lane) => (
                <div
                  key={lane.namespace}
                  class="timeline-lane"
                  style={{ top: `${lane.row * ROW}px`, height: `${lane.rows * ROW}px` }}
                >
                  <div class="timeline-label" style={{ width: `${labels}px`, paddingLeft: `${8 + lane.depth * (narrow.value ? 4 : 10)}px` }}>
                    <Line text={lane.name} max={60} />
                  </div>
                </div>
              ))}
              {onCanvas ? (
                <Canvas all={all} window={window} width={width} height={size.height} top={top} labels={labels} selected={chosenBar?.start ?? null} dark={dark} />
              ) : (
                <Bars all={all} window={window} width={width} labels={labels} top={top} height={size.height} selected={chosenBar?.start ?? null} />
              )}
            </div>
          </div>
          {tip && (
            <div class="timeline-tip" style={{ left: `${Math.max(4, tip.x)}px`, top: `${tip.y}px` }}>
              {tip.text}
            </div>
          )}
          <p class="visually-hidden" role="status">
            {chosenBar ? described(chosenBar) : ""}
          </p>
        </div>
        {event && (
          <aside class="side" aria-label="What is selected">
            {chosenBar && (
              <p class="pad timeline-chosen">
                <span class={`tone-${chosenBar.tone}`}><Shape tone={chosenBar.tone} /></span> <strong>{chosenBar.kind}</strong> <Line text={chosenBar.label} max={80} />{" "}
                <span class="quiet number">
                  {chosenBar.endTime === null ? "open" : duration(chosenBar.endTime - chosenBar.startTime)}
                  {WORDS[chosenBar.tone] ? `, ${WORDS[chosenBar.tone]}` : ""}
                </span>{" "}
                <button type="button" class="link" onClick={() => select(store, chosenBar.start)}>
                  began at {chosenBar.start}
                </button>
                {chosenBar.end !== null && (
                  <>
                    ,{" "}
                    <button type="button" class="link" onClick={() => select(store, chosenBar.end)}>
                      ended at {chosenBar.end}
                    </button>
                  </>
                )}
              </p>
            )}
            <EventDetail store={store} event={event} here="timeline" />
          </aside>
        )}
      </div>
    </div>
  );
}

function Legend(): JSX.Element {
  return (
    <ul class="timeline-legend" aria-label="What the shapes say">
      {(["ok", "bad", "waiting", "stopped", "unsure", "running"] as const).map((tone) => (
        <li key={tone} class={`tone-${tone}`}>
          <Shape tone={tone} /> {WORDS[tone]}
        </li>
      ))}
    </ul>
  );
}

interface BarsProps {
  readonly all: Layout;
  readonly window: Window;
  readonly width: number;
  readonly height: number;
  readonly top: number;
  readonly labels: number;
  readonly selected: number | null;
}

function Bars({ all, window, width, labels, top, height, selected }: BarsProps): JSX.Element {
  const scale = width / (window.to - window.from);
  const first = Math.floor(top / ROW) - 2;
  const last = Math.ceil((top + height) / ROW) + 2;
  return (
    <svg
      class="timeline-bars"
      width={width}
      height={all.rows * ROW}
      viewBox={`0 0 ${width} ${all.rows * ROW}`}
      style={{ left: `${labels}px` }}
      aria-hidden="true"
      focusable="false"
    >
      {all.bars.map((bar, index) => {
        if (bar.row < first || bar.row > last || bar.to < window.from || bar.from > window.to) return null;
        // Ends outside are cut near the edge: browsers draw huge rectangles badly.
        const x = Math.max(-20, (bar.from - window.from) * scale);
        const right = Math.min(width + 20, (bar.to - window.from) * scale);
        const wide = Math.max(3, right - x);
        const { colour, dashed } = barClass(bar);
        const glyph = GLYPHS[bar.tone];
        const room = wide - 6 - (bar.tone === "none" ? 0 : 14);
        const letters = Math.floor(room / 6.2);
        const label = letters >= 3 ? visibleText(bar.label.slice(0, 100)) : "";
        const inside = Math.max(x, 0);
        return (
          <g key={`${bar.start} ${index}`} class={`bar-${colour} ${bar.start === selected ? "is-chosen" : ""}`}>
            <rect
              x={x + 0.5}
              y={bar.row * ROW + (ROW - BAR) / 2 + 0.5}
              width={wide - 1}
              height={BAR - 1}
              rx={bar.kind === "tool" || bar.kind === "subagent" ? 2 : 7}
              class={dashed ? "is-dashed" : ""}
            />
            {bar.tone !== "none" && (
              <g transform={`translate(${wide >= 16 ? inside + 3 : x + wide / 2 - 6} ${bar.row * ROW + (ROW - 12) / 2})`} class={`glyph tone-${bar.tone}`}>
                {glyph.line && <path d={glyph.line} fill="none" stroke="currentColor" stroke-width="1.5" />}
                {glyph.fill && <path d={glyph.fill} fill="currentColor" fill-rule="evenodd" />}
              </g>
            )}
            {label !== "" && (
              <text x={inside + (bar.tone === "none" ? 6 : 19)} y={bar.row * ROW + ROW / 2 + 4}>
                {label.length > letters ? `${label.slice(0, Math.max(1, letters - 1))}…` : label}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

function Canvas(props: BarsProps & { readonly dark: boolean }): JSX.Element {
  const { all, window, width, height, top, labels, selected, dark } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!canvas.current || height === 0) return;
    paint(canvas.current, { bars: all.bars, window, width, height, top, selected });
  }, [all, window.from, window.to, width, height, top, selected, dark]);
  return (
    <canvas ref={canvas} class="timeline-canvas" aria-hidden="true" style={{ left: `${labels}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` }} />
  );
}

interface MapProps {
  readonly all: Layout;
  readonly whole: Window;
  readonly window: Window;
  readonly onWindow: (window: Window) => void;
  readonly labels: number;
  readonly dark: boolean;
}

const MAP = 44;

function MiniMap({ all, whole, window, onWindow, labels, dark }: MapProps): JSX.Element {
  const [box, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (canvas.current && size.width > 0) paintMap(canvas.current, all.bars, whole, all.rows, size.width, MAP);
  }, [all, size.width, dark]);
  const scale = size.width / (whole.to - whole.from);
  const move = (event: PointerEvent) => {
    const element = box.current;
    if (!element) return;
    const at = whole.from + (event.clientX - element.getBoundingClientRect().left) / scale;
    const half = (window.to - window.from) / 2;
    onWindow(clamp({ from: at - half, to: at + half }, whole));
  };
  const percent = ((window.from - whole.from) / Math.max(1e-9, whole.to - whole.from - (window.to - window.from))) * 100;
  return (
    <div class="timeline-map" style={{ paddingLeft: `${labels}px` }}>
      <div
        ref={box}
        class="timeline-map-box"
        role="scrollbar"
        aria-label="The whole run"
        aria-controls="main"
        aria-orientation="horizontal"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(Math.max(0, Math.min(100, percent)))}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          move(event);
        }}
        onPointerMove={(event) => {
          if (event.buttons === 1) move(event);
        }}
      >
        <canvas ref={canvas} aria-hidden="true" style={{ width: `${size.width}px`, height: `${MAP}px` }} />
        <div class="timeline-map-window" style={{ left: `${(window.from - whole.from) * scale}px`, width: `${Math.max(4, (window.to - window.from) * scale)}px` }} />
      </div>
    </div>
  );
}

interface RulerProps {
  readonly window: Window;
  readonly whole: Window;
  readonly width: number;
  readonly labels: number;
  readonly axis: Axis;
  readonly marks: readonly Mark[];
  readonly selected: number | null;
  readonly onPick: (mark: Mark) => void;
}

/** Marks so near to each other that they would lie on each other are one, the gravest on top. */
function gathered(marks: readonly Mark[], window: Window, scale: number): { readonly mark: Mark; readonly more: number }[] {
  const grave: Readonly<Record<Mark["kind"], number>> = { violation: 6, terminal: 5, interrupt: 4, warning: 3, lint: 2, usage: 1, metadata: 0 };
  const all: { mark: Mark; more: number }[] = [];
  let edge = Number.NEGATIVE_INFINITY;
  const sorted = marks.filter((mark) => mark.at >= window.from && mark.at <= window.to).sort((a, b) => a.at - b.at);
  for (const mark of sorted) {
    const x = (mark.at - window.from) * scale;
    const last = all.at(-1);
    if (last && x < edge) {
      last.more += 1;
      if (grave[mark.kind] > grave[last.mark.kind]) last.mark = mark;
    } else {
      all.push({ mark, more: 0 });
      edge = x + 18;
    }
  }
  return all;
}

function Ruler({ window, whole, width, labels, axis, marks, selected, onPick }: RulerProps): JSX.Element {
  const scale = width / (window.to - window.from);
  const step = Math.max(axis === "events" ? 1 : 0.001, tickStep(window.to - window.from, Math.max(2, width / 90)));
  const base = axis === "time" ? whole.from : 0;
  const ticks: number[] = [];
  for (let value = Math.ceil((window.from - base) / step) * step; value + base <= window.to && ticks.length < 40; value += step) ticks.push(value);
  return (
    <div class="timeline-ruler" style={{ paddingLeft: `${labels}px` }}>
      <div class="timeline-ruler-box">
        {ticks.map((value) => {
          const x = (value + base - window.from) * scale;
          return (
            <span key={value} class={`timeline-tick number ${x > width - 50 ? "is-last" : ""}`} style={{ left: `${x}px` }}>
              {axis === "time" ? (value === 0 ? "0" : duration(value)) : count(Math.round(value))}
            </span>
          );
        })}
        {gathered(marks, window, scale).map(({ mark, more }) => (
          <button
            key={`${mark.kind} ${mark.sequence}`}
            type="button"
            class={`timeline-mark tone-${mark.tone} ${mark.sequence === selected ? "is-chosen" : ""}`}
            style={{ left: `${Math.min(width - 16, Math.max(0, (mark.at - window.from) * scale - 8))}px` }}
            aria-label={`${visibleText(mark.label.slice(0, 200))}, event ${mark.sequence}${more > 0 ? `, and ${more} more here` : ""}`}
            title={`${visibleText(mark.label.slice(0, 300))}${more > 0 ? ` (and ${more} more here)` : ""}`}
            onClick={() => onPick(mark)}
          >
            <Shape tone={mark.tone} />
          </button>
        ))}
      </div>
    </div>
  );
}

export const view: RunView = { scope: "run", name: "timeline", title: "Timeline", order: 10, component: Timeline };
