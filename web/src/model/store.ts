// One run in the page: its events, what they come to, and the connection they come over. Stored and live runs come the same
// way: the canonical stream from the cursor on, again and again until the terminal is there.
import { computed, signal } from "@preact/signals";
import { ApiError, api, type Findings, type Run } from "../api";
import { SseParser } from "../sse";
import { type LogEvent, readEvent } from "./envelope";
import { type RunModel, apply, emptyModel } from "./model";

export type Connection =
  | { readonly state: "loading" }
  | { readonly state: "live" }
  | { readonly state: "reconnecting"; readonly attempt: number; readonly after: number | null }
  | { readonly state: "ended" }
  | { readonly state: "failed"; readonly error: ApiError };

/** One time the connection was lost and came back: what was asked for and what came first. */
export interface Resumption {
  readonly after: number | null;
  /** First event behind it; `null` while nothing came, or when nothing was left. */
  readonly next: number | null;
  readonly nothingLeft: boolean;
  readonly at: number;
}

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 4000;
/** The most events that are taken in at one go, so that the page stays awake. */
const SLICE = 400;

export class RunStore {
  /** The run as the gateway tells it; asked again when the stream ends. */
  readonly run = signal<Run | null>(null);
  readonly connection = signal<Connection>({ state: "loading" });
  readonly resumptions = signal<readonly Resumption[]>([]);
  readonly findings = signal<Findings | null>(null);
  /** Grows with every batch of events: read it to be told of new ones. */
  readonly version = signal(0);
  /** The event that is looked at, in every view. */
  readonly selected = signal<number | null>(null);
  /** The scrubber's place; `null` follows the newest event. */
  readonly cursor = signal<number | null>(null);

  readonly events: LogEvent[] = [];
  readonly model: RunModel = emptyModel();
  /** The newest event's sequence; follows `version`. */
  readonly last = computed(() => {
    this.version.value;
    return this.model.lastSequence;
  });
  /** The sequence whose state is shown. */
  readonly position = computed(() => this.cursor.value ?? this.last.value);

  private readonly stop = new AbortController();
  private waiting: (() => void) | null = null;

  constructor(readonly runId: string) {
    void this.follow();
  }

  dispose(): void {
    this.stop.abort();
  }

  /** Ends the pause before the next try. */
  retryNow(): void {
    this.waiting?.();
  }

  eventAt(sequence: number): LogEvent | null {
    // The log has no gaps, so the place is nearly always the number.
    const guess = this.events[sequence - (this.events[0]?.sequence ?? 0)];
    if (guess?.sequence === sequence) return guess;
    return this.events.find((event) => event.sequence === sequence) ?? null;
  }

  async loadFindings(): Promise<void> {
    try {
      this.findings.value = await api.findings(this.runId, this.stop.signal);
    } catch (error) {
      if (!this.stop.signal.aborted) throw error;
    }
  }

  async refresh(): Promise<void> {
    this.run.value = await api.run(this.runId, this.stop.signal);
  }

  private async follow(): Promise<void> {
    const { signal: stopped } = this.stop;
    let attempt = 0;
    while (!stopped.aborted) {
      const after = this.model.lastSequence;
      const came = this.events.length;
      try {
        await this.refresh();
        const response = await api.stream(this.runId, "canonical", after, stopped);
        if (attempt > 0) this.note({ after, next: null, nothingLeft: response === null, at: Date.now() });
        if (response?.body) {
          if (this.run.peek()?.status === "running") this.connection.value = { state: "live" };
          await this.read(response.body, attempt > 0);
        }
        if (this.model.terminal !== null || response === null) {
          // Status, error and usage are the run's own words: ask once more behind the terminal.
          await this.refresh();
          this.connection.value = { state: "ended" };
          return;
        }
      } catch (error) {
        if (stopped.aborted) return;
        if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 408 && error.status !== 429) {
          this.connection.value = { state: "failed", error };
          return;
        }
      }
      if (this.events.length > came) attempt = 0;
      attempt += 1;
      this.connection.value = { state: "reconnecting", attempt, after: this.model.lastSequence };
      await this.pause(Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(attempt - 1, 6)));
    }
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.stop.signal.removeEventListener("abort", done);
        this.waiting = null;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.waiting = done;
      this.stop.signal.addEventListener("abort", done);
    });
  }

  private note(resumption: Resumption): void {
    this.resumptions.value = [...this.resumptions.peek(), resumption].slice(-50);
  }

  private async read(body: ReadableStream<Uint8Array>, resumed: boolean): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    let first = resumed;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const frames = parser.push(decoder.decode(value, { stream: true }));
      for (let from = 0; from < frames.length; from += SLICE) {
        for (const frame of frames.slice(from, from + SLICE)) {
          const read = readEvent(frame.data);
          // A repeated event is one that was half received: it is had already.
          if (!read || (this.model.lastSequence !== null && read.event.sequence <= this.model.lastSequence)) continue;
          if (first) {
            first = false;
            const all = this.resumptions.peek();
            const latest = all.at(-1);
            if (latest) this.resumptions.value = [...all.slice(0, -1), { ...latest, next: read.event.sequence }];
          }
          this.events.push(read.event);
          apply(this.model, read.envelope);
        }
        this.version.value += 1;
        if (from + SLICE < frames.length) await breath();
        if (this.stop.signal.aborted) return;
      }
    }
  }
}

/** Lets the page draw and answer. */
function breath(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}
