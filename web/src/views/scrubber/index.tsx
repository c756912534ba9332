// The run as it stood after any of its events: step, play, or follow the live end.
import { batch } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Badge } from "../../components/badge";
import { EventDetail } from "../../components/event-detail";
import { narrow } from "../../components/narrow";
import { Shape, type Tone } from "../../components/shape";
import { Empty } from "../../components/states";
import { Block, Id, Line } from "../../components/text";
import { clock, count, duration, plural } from "../../format";
import { useKeys } from "../../keys";
import { type LogEvent, readEvent } from "../../model/envelope";
import { type MessageAt, type ToolAt, glanceAt } from "../../model/model";
import { runHref, select } from "../../model/select";
import type { RunStore } from "../../model/store";
import { summary, toneOf } from "../../model/summary";
import type { RunView } from "../registry";
import { Schedule } from "./schedule";
import "./scrubber.css";

const SPEEDS = [1, 4, 16] as const;
/** Messages and calls that are shown at once; the others are a click away. */
const SHOWN = 12;

/** Place of the last event whose number is at most `sequence`. */
function placeOf(events: readonly LogEvent[], sequence: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((events[middle] as LogEvent).sequence <= sequence) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

function Scrubber({ store }: { readonly store: RunStore }): JSX.Element {
  store.version.value;
  const total = store.events.length;
  const cursor = store.cursor.value;
  const follows = cursor === null;
  const running = store.run.value?.status === "running";
  const schedule = useMemo(() => new Schedule((index) => store.events[index]?.time ?? 0), [store]);
  schedule.extend(total);
  const place = cursor === null ? total - 1 : placeOf(store.events, cursor);
  const event = store.events[place];

  // A selection made elsewhere (another view, the address) is where this one goes.
  const selected = store.selected.value;
  useEffect(() => {
    if (selected !== null && store.cursor.peek() !== selected) store.cursor.value = selected;
  }, [selected, store]);
  // The address waits until the cursor stands still: browsers allow few changes a second.
  useEffect(() => {
    if (cursor === null) return;
    const timer = setTimeout(() => select(store, cursor), 300);
    return () => clearTimeout(timer);
  }, [cursor]);

  // Cursor and selection move as one, so that whoever changes only the selection is somebody else.
  const goTo = (sequence: number) =>
    batch(() => {
      store.cursor.value = sequence;
      store.selected.value = sequence;
    });
  const go = (to: number) => {
    const target = store.events[Math.max(0, Math.min(store.events.length - 1, to))];
    if (target) goTo(target.sequence);
  };
  const follow = () => {
    setSpeed(null);
    store.cursor.value = null;
    select(store, null);
  };

  const [speed, setSpeed] = useState<number | null>(null);
  useEffect(() => {
    if (speed === null) return;
    let frame = 0;
    let at = store.cursor.peek() === null ? 0 : placeOf(store.events, store.cursor.peek() ?? 0);
    if (at >= store.events.length - 1) at = 0;
    let due = schedule.dueAt(at);
    let before: number | null = null;
    const turn = (now: number) => {
      if (before !== null) due += (now - before) * speed;
      before = now;
      const next = schedule.reached(due, at);
      if (next !== at || store.cursor.peek() === null) {
        at = next;
        go(at);
      }
      if (at >= store.events.length - 1) {
        // The end of what there is: of a live run it goes on with what comes.
        setSpeed(null);
        if (store.run.peek()?.status === "running") follow();
        return;
      }
      frame = requestAnimationFrame(turn);
    };
    frame = requestAnimationFrame(turn);
    return () => cancelAnimationFrame(frame);
  }, [speed, store]);

  const step = (by: number) => {
    setSpeed(null);
    go(place + by);
  };
  useKeys([
    { key: "j", does: "Next event", run: () => step(1) },
    { key: "k", does: "Event before", run: () => step(-1) },
    { key: "ArrowRight", does: "Next event", run: () => step(1) },
    { key: "ArrowLeft", does: "Event before", run: () => step(-1) },
    { key: "PageDown", does: "100 events on", run: () => step(100) },
    { key: "PageUp", does: "100 events back", run: () => step(-100) },
    { key: "Home", does: "First event", run: () => step(-1e9) },
    { key: "End", does: "Newest event, and stay there", run: follow },
    { key: " ", does: "Play or pause", run: () => (speed === null ? (running && follows ? go(place) : setSpeed(1)) : setSpeed(null)) },
  ]);

  if (!event) return <Empty title="No events yet" />;
  const fresh = total - 1 - place;
  const began = store.events[0]?.time ?? 0;
  return (
    <div class="page">
      <div class="bar scrubber-bar">
        <div class="choice" role="group" aria-label="Step">
          <button type="button" class="button small" aria-label="First event" disabled={place === 0} onClick={() => step(-1e9)}>
            ⇤
          </button>
          <button type="button" class="button small" aria-label="Event before" disabled={place === 0} onClick={() => step(-1)}>
            ←
          </button>
          <button type="button" class="button small" aria-label="Next event" disabled={fresh === 0} onClick={() => step(1)}>
            →
          </button>
          <button type="button" class="button small" aria-label="Newest event" disabled={follows} onClick={follow}>
            ⇥
          </button>
        </div>
        <div class="choice" role="group" aria-label="Play">
          {SPEEDS.map((one) => (
            <button
              key={one}
              type="button"
              class="button small"
              aria-pressed={speed === one}
              aria-label={speed === one ? `Pause (${one}×)` : `Play at ${one}×`}
              onClick={() => setSpeed(speed === one ? null : one)}
            >
              {speed === one ? "❚❚" : "▶"} {one}×
            </button>
          ))}
        </div>
        <input
          type="range"
          class="scrubber-range"
          aria-label="Event"
          aria-valuetext={`event ${event.sequence} of ${store.last.value ?? 0}, ${event.type}`}
          min={0}
          max={Math.max(1, total - 1)}
          value={place}
          onInput={(input) => {
            setSpeed(null);
            go(Number(input.currentTarget.value));
          }}
        />
        <span class="number scrubber-place" data-testid="place">
          {count(event.sequence)} <span class="quiet">of {count(store.last.value ?? 0)}</span>
        </span>
        {running &&
          (follows ? (
            <button type="button" class="button small" onClick={() => go(place)}>
              <Shape tone="running" /> Live: pause
            </button>
          ) : (
            <button type="button" class="button small primary" onClick={follow}>
              {fresh > 0 ? `${count(fresh)} new` : "Follow"}
            </button>
          ))}
        <Resumptions store={store} />
      </div>
      <div class={narrow.value ? "scrubber-narrow" : "split"}>
        <div class="scrubber-state">
          <Moment event={event} began={began} />
          <State store={store} at={event.sequence} />
        </div>
        <aside class="side" aria-label="The event">
          <EventDetail store={store} event={event} here="scrubber" onStep={(sequence) => { setSpeed(null); goTo(sequence); }} />
        </aside>
      </div>
    </div>
  );
}

/** What became of the connection: every loss, what was asked for, and whether the next event was the one that was due. */
function Resumptions({ store }: { readonly store: RunStore }): JSX.Element | null {
  const all = store.resumptions.value;
  if (all.length === 0) return null;
  return (
    <details class="scrubber-resumptions">
      <summary>
        {plural(all.length, "reconnection")}, {store.model.gaps.length === 0 ? "no gap" : plural(store.model.gaps.length, "gap")}
      </summary>
      <ul>
        {all.map((one) => {
          const due = one.after === null ? 0 : one.after + 1;
          const good = one.nothingLeft || one.next === null || one.next === due;
          return (
            <li key={one.at}>
              <Badge tone={good ? "ok" : "bad"}>{clock(new Date(one.at).toISOString())}</Badge> asked for what follows{" "}
              <span class="number">{one.after ?? "the beginning"}</span>,{" "}
              {one.nothingLeft ? (
                "nothing was left"
              ) : one.next === null ? (
                "nothing came yet"
              ) : (
                <>
                  got <span class="number">{one.next}</span>
                  {good ? "" : `: ${one.next - due} missing`}
                </>
              )}
            </li>
          );
        })}
      </ul>
    </details>
  );
}

function Moment({ event, began }: { readonly event: LogEvent; readonly began: number }): JSX.Element | null {
  const read = readEvent(event.raw);
  if (!read) return null;
  const tone = toneOf(read.envelope);
  return (
    <p class="scrubber-moment">
      <span class={`tone-${tone}`}>
        <Shape tone={tone} /> <code>{event.type}</code>
      </span>
      <span class="number quiet">+{duration(event.time - began)}</span>
      <Line text={summary(read.envelope)} max={200} title={false} />
    </p>
  );
}

function State({ store, at }: { readonly store: RunStore; readonly at: number }): JSX.Element {
  const [shown, setShown] = useState(SHOWN);
  const state = glanceAt(store.model, at, shown);
  const { usage } = state;
  const earlier = state.messages + state.tools - state.pieces.length;
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
  }, [at]);
  return (
    <>
      <dl class="scrubber-facts">
        <Fact name="Messages" value={count(state.messages)} />
        <Fact name="Calls" value={`${count(state.tools)}${state.openTools > 0 ? `, ${count(state.openTools)} open` : ""}`} />
        <Fact name="Subagents" value={`${count(state.subagents)}${state.active.length > 0 ? `, ${count(state.active.length)} active` : ""}`} />
        <Fact name="Tokens in / out" value={usage ? `${usage.input_tokens ?? "–"} / ${usage.output_tokens ?? "–"}` : "–"} />
        <Fact name="Warnings" value={count(state.warnings)} />
        <div>
          <dt>State</dt>
          <dd>
            {state.terminal ? (
              <Badge tone={TERMINAL[state.terminal.type]}>{state.terminal.type.replace("run.", "")}</Badge>
            ) : state.interrupt ? (
              <Badge tone="waiting">asks</Badge>
            ) : (
              <Badge tone="running">active</Badge>
            )}
          </dd>
        </div>
      </dl>
      {state.active.length > 0 && (
        <ul class="scrubber-inside" aria-label="Active subagents">
          {state.active.map((one) => (
            <li key={one.namespace}>
              <Badge tone="running">
                <Line text={one.agentName} max={60} />
              </Badge>
            </li>
          ))}
        </ul>
      )}
      {earlier > 0 && (
        <button type="button" class="link scrubber-earlier" onClick={() => setShown(shown * 4)}>
          {count(earlier)} earlier
        </button>
      )}
      <ol class="scrubber-items" aria-label="Messages and calls so far">
        {state.pieces.map((piece) =>
          "message" in piece ? (
            <MessageItem key={piece.start} store={store} at={at} item={piece.message} ended={state.terminal !== null} />
          ) : (
            <ToolItem key={piece.start} store={store} at={at} item={piece.tool} />
          ),
        )}
      </ol>
      <div ref={end} />
    </>
  );
}

const TERMINAL = { "run.finished": "ok", "run.interrupted": "waiting", "run.cancelled": "stopped", "run.error": "bad" } as const;
const OUTCOME: Readonly<Record<ToolAt["outcome"], Tone>> = { open: "running", ok: "ok", error: "bad", rejected: "stopped" };

function Fact({ name, value }: { readonly name: string; readonly value: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
    </div>
  );
}

function Where({ store, namespace }: { readonly store: RunStore; readonly namespace: string }): JSX.Element | null {
  if (namespace === "") return null;
  return (
    <span class="quiet">
      › <Line text={store.model.subagentByPath.get(namespace)?.agentName ?? namespace} max={40} title={false} />
    </span>
  );
}

/** The end of a text that grows: that is where something happens. */
function tail(text: string, most: number): { readonly text: string; readonly cut: number } {
  return text.length <= most ? { text, cut: 0 } : { text: text.slice(-most), cut: text.length - most };
}

interface MessageItemProps {
  readonly store: RunStore;
  readonly at: number;
  readonly item: MessageAt;
  readonly ended: boolean;
}

function MessageItem({ store, at, item, ended }: MessageItemProps): JSX.Element {
  const { text, cut } = tail(item.text, 2000);
  return (
    <li class={`scrubber-item ${item.message.kind === "reasoning" ? "is-reasoning" : ""}`} data-testid="message">
      <p class="scrubber-item-head">
        <strong>{item.message.kind}</strong> <Where store={store} namespace={item.message.namespace} />
        {item.open && <Badge tone={ended ? "unsure" : "running"}>{ended ? "never ended" : "writing"}</Badge>}
        <a class="number" href={runHref(store, "events", { seq: item.message.start, id: item.message.id })}>
          from {item.message.start}
        </a>
        {cut > 0 && <span class="quiet number">{count(cut)} characters before</span>}
      </p>
      <Block key={at} text={text} first={2000} />
    </li>
  );
}

function ToolItem({ store, at, item }: { readonly store: RunStore; readonly at: number; readonly item: ToolAt }): JSX.Element {
  return (
    <li class="scrubber-item" data-testid="tool">
      <p class="scrubber-item-head">
        <Badge tone={OUTCOME[item.outcome]}>
          <Line text={item.tool.name} max={60} />
        </Badge>
        <Where store={store} namespace={item.tool.namespace} />
        <a class="number" href={runHref(store, "events", { seq: item.tool.start, id: item.tool.id })}>
          <Id id={item.tool.id} length={22} />
        </a>
      </p>
      {item.arguments !== "{}" && item.arguments !== "" && <Block key={`a${at}`} text={tail(item.arguments, 1200).text} mono first={1200} />}
      {item.result !== null && <Block key={`r${at}`} text={item.result} mono first={600} />}
      {item.outcome !== "open" && item.tool.error && (
        <p class="tone-bad">
          <code>{item.tool.error.code}</code> <Line text={item.tool.error.message} />
        </p>
      )}
    </li>
  );
}

export const view: RunView = { scope: "run", name: "scrubber", title: "Scrubber", order: 40, component: Scrubber };
