// The same run in every format, event by event, with sizes and the hash of what a client received.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, api } from "../../api";
import { Badge } from "../../components/badge";
import { VirtualList } from "../../components/list";
import { narrow } from "../../components/narrow";
import { Empty } from "../../components/states";
import { Block, Line } from "../../components/text";
import { Bytes } from "../../components/time";
import { bytes, plural } from "../../format";
import { useKeys } from "../../keys";
import { select } from "../../model/select";
import type { RunStore } from "../../model/store";
import { route, setQuery } from "../../router";
import { copy } from "../../toast";
import type { RunView } from "../registry";
import { type WireEvent, WireReader } from "./frames";
import "./wire.css";

const PROTOCOLS = ["canonical", "custom", "agui", "agui-spec", "ui-message"] as const;
type Protocol = (typeof PROTOCOLS)[number];

const ABOUT: Readonly<Record<Protocol, string>> = {
  canonical: "the log itself",
  custom: "the established stream",
  agui: "established AG-UI",
  "agui-spec": "AG-UI 1.0",
  "ui-message": "Vercel AI SDK",
};

/** A live stream that is quiet for so long is left, and taken up again behind its last whole event. */
const QUIET = 250;
/** Between two looks at a live run. */
const PAUSE = 700;

/** One format's stream, as far as it was read. */
class Tape {
  readonly version = signal(0);
  readonly state = signal<"reading" | "whole" | "failed">("reading");
  readonly reader = new WireReader();
  readonly byEvent = new Map<number, WireEvent>();
  failure: unknown = null;
  private known = 0;

  constructor(
    readonly runId: string,
    readonly protocol: Protocol,
  ) {}

  private index(): void {
    // The last one may have grown at the end of the stream.
    for (let place = Math.max(0, this.known - 1); place < this.reader.events.length; place += 1) {
      const event = this.reader.events[place] as WireEvent;
      this.byEvent.set(event.sequence, event);
    }
    this.known = this.reader.events.length;
    this.version.value += 1;
  }

  /** Reads on: to the end where the run has ended, else for as long as something comes. */
  async turn(running: boolean, stopped: AbortSignal): Promise<void> {
    this.reader.broken();
    const leave = new AbortController();
    const both = AbortSignal.any([leave.signal, stopped]);
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const awake = () => {
      clearTimeout(quiet);
      if (running) quiet = setTimeout(() => leave.abort(), QUIET);
    };
    try {
      const response = await api.stream(this.runId, this.protocol, this.reader.last, both);
      awake();
      if (response?.body) {
        const body = response.body.getReader();
        for (;;) {
          const { done, value } = await body.read();
          if (done) break;
          awake();
          this.reader.push(value);
          this.index();
        }
        if (!running) this.reader.end();
      }
      if (!running) {
        this.index();
        this.state.value = "whole";
      }
    } catch (error) {
      if (both.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
        this.failure = error;
        this.state.value = "failed";
      }
    } finally {
      clearTimeout(quiet);
    }
  }
}

/** Reads all formats, one connection at a time: browsers have few for one host, and the page needs them for other things. */
async function readAll(runId: string, tapes: readonly Tape[], stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    // Asked before the streams: what has ended then is read to its end.
    const running = await api.run(runId, stopped).then(
      (run) => run.status === "running",
      () => true,
    );
    for (const tape of tapes) if (tape.state.peek() === "reading") await tape.turn(running, stopped);
    if (tapes.every((tape) => tape.state.peek() !== "reading")) return;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

function Wire({ store }: { readonly store: RunStore }): JSX.Element {
  const tapes = useMemo(() => PROTOCOLS.map((protocol) => new Tape(store.runId, protocol)), [store]);
  useEffect(() => {
    const stop = new AbortController();
    void readAll(store.runId, tapes, stop.signal);
    return () => stop.abort();
  }, [tapes]);
  store.version.value;
  for (const tape of tapes) tape.version.value;

  const wanted = route.value.query.get("formats")?.split(",") ?? [];
  const chosen = tapes.filter((tape) => wanted.includes(tape.protocol));
  // Where there is room for one column only, it is one.
  const shown = narrow.value ? [chosen[0] ?? (tapes[1] as Tape)] : chosen.length > 0 ? chosen : tapes;
  const selected = store.selected.value;
  const [row, setRow] = useState<number | null>(null);
  const place = selected === null ? row : store.events.findIndex((event) => event.sequence === selected);
  const choose = (protocol: Protocol) => {
    if (narrow.value) return setQuery({ formats: protocol });
    const now = shown.map((tape) => tape.protocol);
    const next = now.includes(protocol) ? now.filter((one) => one !== protocol) : [...now, protocol];
    setQuery({ formats: next.length === 0 || next.length === tapes.length ? null : PROTOCOLS.filter((one) => next.includes(one)).join(",") });
  };
  useKeys([{ key: "Escape", does: "Nothing selected", run: () => select(store, null) }]);

  if (store.events.length === 0) return <Empty title="No events yet" />;
  const template = { gridTemplateColumns: `52px minmax(110px, 0.8fr) repeat(${shown.length}, minmax(0, 1fr))` };
  return (
    <div class="page wire">
      <div class="wire-heads" role="group" aria-label="Formats">
        {tapes.map((tape) => (
          <TapeHead key={tape.protocol} tape={tape} pressed={shown.includes(tape)} onPress={() => choose(tape.protocol)} />
        ))}
      </div>
      <p class="wire-note quiet">
        Sizes and SHA-256 are those of the stream as a client received it live: the <code>id:</code> lines and comments that a replay adds are left out.
      </p>
      <div class="wire-body">
        <div class="wire-row wire-titles" style={template} aria-hidden="true">
          <span class="right">Event</span>
          <span>Type</span>
          {shown.map((tape) => (
            <span key={tape.protocol}>{tape.protocol}</span>
          ))}
        </div>
        <VirtualList
          id="wire"
          label="Events and their frames"
          count={store.events.length}
          rowHeight={26}
          keyOf={(index) => store.events[index]?.sequence ?? index}
          selected={place === null || place < 0 ? null : place}
          onSelect={(index) => {
            setRow(index);
            select(store, store.events[index]?.sequence ?? null);
          }}
          rowClass={() => "wire-slot"}
          render={(index) => {
            const event = store.events[index];
            if (!event) return null;
            return (
              <div class="wire-row" style={template}>
                <span class="number quiet right">{event.sequence}</span>
                <span class="wire-type">{event.type}</span>
                {shown.map((tape) => (
                  <Cell key={tape.protocol} event={tape.byEvent.get(event.sequence)} />
                ))}
              </div>
            );
          }}
        />
        {selected !== null && <Frames sequence={selected} tapes={shown} />}
      </div>
    </div>
  );
}

function TapeHead({ tape, pressed, onPress }: { readonly tape: Tape; readonly pressed: boolean; readonly onPress: () => void }): JSX.Element {
  const { reader } = tape;
  const state = tape.state.value;
  const version = tape.version.value;
  const hash = useMemo(() => reader.hash.hex(), [version, state]);
  return (
    <section class={`wire-head ${pressed ? "is-shown" : ""}`} aria-label={tape.protocol}>
      <button type="button" class="wire-name" aria-pressed={pressed} onClick={onPress}>
        {tape.protocol}
      </button>
      <span class="quiet">{ABOUT[tape.protocol]}</span>
      <span class="number" data-bytes={reader.bytes}>
        {bytes(reader.bytes)}, {plural(reader.frames, "frame")}
      </span>
      {state === "failed" ? (
        <Badge tone="bad">{tape.failure instanceof ApiError ? tape.failure.code : "failed"}</Badge>
      ) : (
        <span class="wire-hash">
          <code data-testid={`hash-${tape.protocol}`} data-whole={state === "whole"} title={`SHA-256 ${hash}`}>
            {hash}
          </code>
          <button type="button" class="button small" aria-label={`Copy the SHA-256 of ${tape.protocol}`} onClick={() => void copy(hash, "the hash")}>
            Copy
          </button>
        </span>
      )}
      {state === "reading" && <Badge tone="running">so far</Badge>}
    </section>
  );
}

function Cell({ event }: { readonly event: WireEvent | undefined }): JSX.Element {
  if (!event) return <span class="quiet">·</span>;
  return (
    <span class="wire-cell">
      <Line text={event.text.trimStart().replace(/^data: /, "")} max={160} title={false} />
      <span class="number quiet">{event.frames > 1 ? `${event.frames}× ` : ""}{bytes(event.bytes)}</span>
    </span>
  );
}

function Frames({ sequence, tapes }: { readonly sequence: number; readonly tapes: readonly Tape[] }): JSX.Element {
  return (
    <div class="wire-frames" role="group" aria-label={`Frames of event ${sequence}`}>
      {tapes.map((tape) => {
        const event = tape.byEvent.get(sequence);
        return (
          <section key={tape.protocol} aria-label={`${tape.protocol}, event ${sequence}`}>
            <h2>
              {tape.protocol}{" "}
              <span class="quiet number">
                {event ? (
                  <>
                    {plural(event.frames, "frame")}, <Bytes count={event.bytes} />
                  </>
                ) : (
                  "no frame"
                )}
              </span>
            </h2>
            {event && (
              <div class="wire-text" tabIndex={0} role="region" aria-label={`Bytes of event ${sequence} in ${tape.protocol}`}>
                <Block key={sequence} text={event.text.replace(/\n+$/, "")} mono first={3000} />
              </div>
            )}
          </section>
        );
      })}
    </div>
  );
}

export const view: RunView = { scope: "run", name: "wire", title: "Wire", order: 50, component: Wire };
