// The conversation of a run: what a person saw, in a row with the runs before and after it.
import { type ReadonlySignal, computed, signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Run, api } from "../../api";
import { StatusBadge } from "../../components/badge";
import { ConnectionSign } from "../../components/connection";
import { usePoll } from "../../components/poll";
import { Failure, Loading } from "../../components/states";
import { Block, Id } from "../../components/text";
import { When } from "../../components/time";
import { count, plural } from "../../format";
import { useKeys } from "../../keys";
import { readEvent } from "../../model/envelope";
import { select } from "../../model/select";
import { RunStore } from "../../model/store";
import { href } from "../../router";
import type { RunView } from "../registry";
import { type Found, bySequence } from "../rules/findings";
import { Composer } from "../start/composer";
import { Pieces, type Place } from "./pieces";
import { talkOf } from "./talk";
import "./conversation.css";

/** The most runs of a conversation in one page; those before are a link away. */
const MOST = 100;

function Conversation({ store }: { readonly store: RunStore }): JSX.Element {
  const run = store.run.value as Run;
  const scroll = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [behind, setBehind] = useState(false);
  const ended = store.connection.value.state === "ended";
  const polled = usePoll(
    async (stop) => {
      const page = await api.runs({ conversation_id: run.conversation_id, limit: MOST }, stop);
      // Agents may share a name for a conversation; it is one of this agent.
      return { runs: page.runs.filter((one) => one.agent_id === run.agent_id).reverse(), more: page.next !== null };
    },
    2000,
    [run.conversation_id, run.agent_id, ended],
  );
  const listed = polled.value?.runs ?? [];
  const runs = listed.some((one) => one.run_id === store.runId) ? listed : [...listed, run];
  const last = runs.at(-1) as Run;

  // What was answered elsewhere changes this run's interrupt: the list is where that is seen.
  const status = listed.find((one) => one.run_id === store.runId)?.interrupt?.status;
  useEffect(() => {
    if (status !== undefined && status !== store.run.peek()?.interrupt?.status) void store.refresh().catch(() => undefined);
  }, [status, store]);

  store.version.value;
  useLayoutEffect(() => {
    const box = scroll.current;
    if (box && atEnd.current) box.scrollTop = box.scrollHeight;
  });

  const chosen = useMemo(() => chosenPiece(store), [store]);
  const step = (by: number) => {
    const box = scroll.current;
    if (!box) return;
    const cards = [...box.querySelectorAll<HTMLElement>(".piece[data-at]")];
    const at = cards.findIndex((card) => Number(card.dataset["at"]) === chosen.peek());
    const next = at < 0 ? (by > 0 ? cards[0] : cards.at(-1)) : cards[Math.max(0, Math.min(cards.length - 1, at + by))];
    if (!next) return;
    atEnd.current = false;
    select(store, Number(next.dataset["at"]));
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  const toEnd = () => {
    atEnd.current = true;
    setBehind(false);
    const box = scroll.current;
    if (box) box.scrollTop = box.scrollHeight;
  };
  useKeys([
    { key: "j", does: "Next piece of the conversation", run: () => step(1) },
    { key: "k", does: "Piece before", run: () => step(-1) },
    { key: "o", does: "Open or close the card", run: () => scroll.current?.querySelector<HTMLElement>(".piece.is-chosen summary")?.click() },
    { key: "G", does: "To the end, and stay there", run: toEnd },
  ]);
  // A linked event is brought into view once its card is there.
  const wanted = chosen.value;
  const known = store.connection.value.state !== "loading" || run.status === "running";
  useEffect(() => {
    if (wanted === null) return;
    const card = scroll.current?.querySelector<HTMLElement>(`.piece[data-at="${wanted}"]`);
    if (!card) return;
    atEnd.current = false;
    card.scrollIntoView({ block: "nearest" });
  }, [known, wanted]);

  return (
    <div class="talk">
      <div
        class="talk-scroll"
        ref={scroll}
        tabIndex={0}
        role="region"
        aria-label="Conversation"
        onScroll={(event) => {
          const box = event.currentTarget;
          const near = box.scrollTop + box.clientHeight >= box.scrollHeight - 24;
          atEnd.current = near;
          setBehind(!near);
        }}
      >
        {polled.value?.more && (
          <p class="quiet pad">
            These are the last {plural(runs.length, "run")}. <a href={href(["runs"], { conversation_id: run.conversation_id })}>All of them</a>
          </p>
        )}
        {polled.error !== null && polled.value === null && <Failure error={polled.error} retry={polled.again} />}
        {runs.map((one) => (one.run_id === store.runId ? <Section key={one.run_id} run={run} store={store} beside={null} /> : <Other key={one.run_id} run={one} beside={store.runId} />))}
      </div>
      {behind && (
        <button type="button" class="button small talk-newest" onClick={toEnd}>
          ↓ To the newest
        </button>
      )}
      {store.cursor.value !== null && (
        <p class="talk-past" role="status">
          As it stood after event {store.cursor.value}.{" "}
          <button type="button" class="link" onClick={() => (store.cursor.value = null)}>
            Show all of it
          </button>
        </p>
      )}
      <Composer agentId={last.agent_id} conversationId={last.conversation_id} blocked={blocked(last)} label="Say something more" />
    </div>
  );
}

/** Why nothing can be said now, or null. */
function blocked(last: Run): string | null {
  if (last.status === "running") return "A run is at work: wait for its end, or cancel it.";
  if (last.interrupt?.status === "pending") return "A question waits for its answer above.";
  return null;
}

interface SectionProps {
  readonly run: Run;
  readonly store: RunStore;
  /** The run that the view is of, where this is another one. */
  readonly beside: string | null;
}

function Section({ run, store, beside }: SectionProps): JSX.Element {
  const main = beside === null;
  const version = store.version.value;
  const cursor = store.cursor.value;
  // A run that has ended is drawn once, when it is all there; one that goes on, as it comes.
  const reading = run.status !== "running" && store.connection.value.state === "loading";
  const thread = useMemo(
    () => (reading ? null : talkOf(store.model, (sequence) => store.eventAt(sequence)?.raw ?? null, cursor)),
    [store, reading || version, cursor],
  );
  const resumed = JSON.stringify(resumedCalls(run.seed));
  const place = useMemo(
    (): Place => ({ store, chosen: main ? chosenPiece(store) : NOTHING, found: foundPieces(store), main, resumed: new Set(JSON.parse(resumed) as string[]) }),
    [store, main, resumed],
  );
  const said = typeof run.request.message === "string" ? run.request.message : null;
  return (
    <section class={`turn ${main ? "is-main" : ""}`} aria-label={`Run ${run.run_id.slice(-8)}`} data-run={run.run_id}>
      <header class="turn-head">
        {main ? <Id id={run.run_id} /> : <a href={href(["run", run.run_id, "conversation"])}>{<Id id={run.run_id} />}</a>}
        <StatusBadge status={run.status} />
        <When iso={run.created_at} />
        {beside !== null && <a href={href(["compare"], { left: run.run_id, right: beside })}>compare</a>}
        {!main && store.connection.value.state !== "ended" && <ConnectionSign store={store} />}
      </header>
      {said !== null ? (
        <div class="person" aria-label="The person said">
          <Block text={said} first={20_000} />
        </div>
      ) : (
        <p class="quiet turn-answer">An answer to the question before started this run.</p>
      )}
      {thread === null ? <Loading what={`${count(store.model.count)} of ${plural(run.last_sequence + 1, "event")}`} /> : <Pieces thread={thread} place={place} />}
    </section>
  );
}

/** Another run of the conversation: read once it comes into view. */
function Other({ run, beside }: { readonly run: Run; readonly beside: string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!place.current) return;
    const watch = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setSeen(true);
    });
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const store = useMemo(() => (seen ? new RunStore(run.run_id) : null), [seen, run.run_id]);
  useEffect(() => () => store?.dispose(), [store]);
  return (
    <div ref={place} class="turn-place">
      {store === null ? <Loading what="the run" /> : <Section run={store.run.value ?? run} store={store} beside={beside} />}
    </div>
  );
}

const NOTHING = signal<number | null>(null);

/** First event of the piece that an event belongs to. */
function pieceOf(store: RunStore, sequence: number): number {
  const event = readEvent(store.eventAt(sequence)?.raw ?? "");
  if (event === null) return sequence;
  const { type, data } = event.envelope;
  const kind = type.startsWith("reasoning.") ? "reasoning" : "text";
  if ("message_id" in data) return store.model.messageById.get(`${kind} ${data.message_id}`)?.start ?? sequence;
  if ("tool_call_id" in data) return store.model.toolById.get(data.tool_call_id)?.start ?? sequence;
  if ("parent_tool_call_id" in data) return store.model.toolById.get(data.parent_tool_call_id)?.start ?? sequence;
  return sequence;
}

/** First event of the piece that the chosen event belongs to. */
function chosenPiece(store: RunStore): ReadonlySignal<number | null> {
  return computed(() => {
    const sequence = store.selected.value;
    store.version.value;
    return sequence === null ? null : pieceOf(store, sequence);
  });
}

/** What the rules say about each piece, by its first event. */
function foundPieces(store: RunStore): ReadonlySignal<ReadonlyMap<number, readonly Found[]>> {
  return computed(() => {
    const all = new Map<number, Found[]>();
    if (store.findings.value === null) return all;
    store.version.value;
    for (const [sequence, found] of bySequence(store.findings.value)) {
      const at = pieceOf(store, sequence);
      all.set(at, [...(all.get(at) ?? []), ...found]);
    }
    return all;
  });
}

/** Ids of the calls that were open when the run before was interrupted. */
function resumedCalls(seed: unknown): string[] {
  const open = (seed as { open_tool_calls?: unknown } | undefined)?.open_tool_calls;
  return Array.isArray(open) ? open.map((one) => (typeof one === "string" ? one : String((one as { tool_call_id?: unknown }).tool_call_id))) : [];
}

export const view: RunView = { scope: "run", name: "conversation", title: "Conversation", order: 20, component: Conversation };
