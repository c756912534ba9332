// The pieces of a talk as cards.
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api } from "../../api";
import { Badge } from "../../components/badge";
import { Json } from "../../components/json";
import { Shape, type Tone } from "../../components/shape";
import { Failure } from "../../components/states";
import { Block, Id, Line, visibleText } from "../../components/text";
import { write } from "../../exact";
import { bytes, duration, plural, snippet } from "../../format";
import { select } from "../../model/select";
import type { RunStore } from "../../model/store";
import { href } from "../../router";
import { AnswerForm, Expiry } from "../approvals/form";
import { type Pending, asked } from "../approvals/pending";
import { Record } from "../approvals/record";
import type { Found } from "../rules/findings";
import { type Call, type Piece, type Question, type Said, type Thread, endInWords, took } from "./talk";

/** What the cards of one run share. */
export interface Place {
  readonly store: RunStore;
  /** First event of the chosen piece. */
  readonly chosen: ReadonlySignal<number | null>;
  /** What the rules say about pieces, by their first events. */
  readonly found: ReadonlySignal<ReadonlyMap<number, readonly Found[]>>;
  /** Whether the view is of this run: its selection is the address's. */
  readonly main: boolean;
  /** Calls that were open when the run before was interrupted: here they go on. */
  readonly resumed: ReadonlySet<string>;
}

/** So many pieces of a thread are drawn at first, the last ones. */
const DRAWN = 200;

export function Pieces({ thread, place }: { readonly thread: Thread; readonly place: Place }): JSX.Element {
  const [drawn, setDrawn] = useState(DRAWN);
  const { pieces } = thread;
  // A piece that is the same is not drawn again.
  const cards = useMemo(() => new WeakMap<Piece, JSX.Element>(), [place]);
  // The chosen one is always there: what leads to it must find it.
  const chosen = place.chosen.value;
  const at = chosen === null ? -1 : pieces.findIndex((piece) => piece.at === chosen);
  const from = Math.max(0, at < 0 ? pieces.length - drawn : Math.min(at - 20, pieces.length - drawn));
  return (
    <>
      {from > 0 && (
        <button type="button" class="link earlier" onClick={() => setDrawn(pieces.length - from + 2 * DRAWN)}>
          {plural(from, "earlier piece")}
        </button>
      )}
      {pieces.slice(from).map((piece) => {
        let card = cards.get(piece);
        if (card === undefined) {
          card = <PieceCard key={`${piece.kind} ${piece.at}`} piece={piece} place={place} />;
          cards.set(piece, card);
        }
        return card;
      })}
    </>
  );
}

function PieceCard({ piece, place }: { readonly piece: Piece; readonly place: Place }): JSX.Element | null {
  switch (piece.kind) {
    case "text":
      return <TextCard said={piece} place={place} />;
    case "reasoning":
      return <ReasoningCard said={piece} place={place} />;
    case "call":
      return <CallCard call={piece} place={place} />;
    case "question":
      return <QuestionCard question={piece} place={place} />;
    case "notice":
      return (
        <Framed at={piece.at} place={place} kind="notice">
          <Badge tone="warn">
            <code>
              <Line text={piece.code} max={80} />
            </code>
          </Badge>{" "}
          <Block text={piece.message} first={600} />
        </Framed>
      );
    case "end": {
      const { tone, title, text } = endInWords(piece);
      return (
        <Framed at={piece.at} place={place} kind={`end end-${tone}`}>
          <Badge tone={tone}>
            <Line text={title} max={120} />
          </Badge>
          {text !== "" && <Block text={text} first={600} />}
        </Framed>
      );
    }
  }
}

/** A card with the number of its first event, which leads to it; chosen where the chosen event is its. */
function Framed({ at, place, kind, children }: { readonly at: number; readonly place: Place; readonly kind: string; readonly children: ComponentChildren }): JSX.Element {
  const chosen = place.chosen.value === at;
  return (
    <div class={`piece ${kind} ${chosen ? "is-chosen" : ""}`} data-at={place.main ? at : undefined} tabIndex={-1}>
      <a
        class="piece-at"
        href={href(["run", place.store.runId, "events"], { seq: at })}
        aria-label={`Event ${at}`}
        title="Look at this event"
        onClick={() => place.main && select(place.store, at)}
      >
        #{at}
      </a>
      {children}
      <FoundAt at={at} place={place} />
    </div>
  );
}

/** What the rules say about a piece, each rule once, with the way to its explanation. */
function FoundAt({ at, place }: { readonly at: number; readonly place: Place }): JSX.Element | null {
  const found = place.found.value.get(at);
  if (found === undefined) return null;
  const rules = new Map(found.map((one) => [one.id, one]));
  return (
    <p class="piece-found">
      {[...rules.values()].map((one) => (
        <a key={one.id} href={href(["run", place.store.runId, "rules"])} title={visibleText(one.message.slice(0, 300))}>
          <Badge tone={one.broken ? "bad" : "warn"}>
            {one.broken ? "refused here: " : "warning: "}
            {one.id}
          </Badge>
        </a>
      ))}
    </p>
  );
}

function TextCard({ said, place }: { readonly said: Said; readonly place: Place }): JSX.Element {
  const live = said.ended === null && place.store.connection.value.state === "live";
  return (
    <Framed at={said.at} place={place} kind="said">
      <Block text={said.text} first={20_000} />
      {live && <span class="caret" aria-hidden="true" />}
      {said.text === "" && !live && <span class="quiet">(an empty message)</span>}
    </Framed>
  );
}

function ReasoningCard({ said, place }: { readonly said: Said; readonly place: Place }): JSX.Element {
  const [open, setOpen] = useState(false);
  const ms = took(said);
  return (
    <Framed at={said.at} place={place} kind="thought">
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <Badge tone="info">reasoning</Badge> <span class="quiet">{ms === null ? "" : duration(ms)}</span> {!open && <Line text={snippet(said.text, 90)} title={false} />}
        </summary>
        {open && <Block text={said.text} />}
      </details>
    </Framed>
  );
}

const STATE: Readonly<Record<Call["state"], readonly [Tone, string]>> = {
  running: ["running", "running"],
  finished: ["ok", "finished"],
  failed: ["bad", "failed"],
  rejected: ["bad", "rejected"],
  asked: ["waiting", "waits for a decision"],
  left: ["unsure", "left open"],
};

const SETTLED: readonly [Tone, string] = ["none", "was asked about"];

function CallCard({ call, place }: { readonly call: Call; readonly place: Place }): JSX.Element {
  // The log ends with the question; whether it still waits is what the run says.
  const settled = call.state === "asked" && place.store.run.value?.interrupt?.status !== "pending";
  const [tone, word] = settled ? SETTLED : STATE[call.state];
  const ms = took(call);
  const [open, setOpen] = useState(false);
  const args = call.given === null ? call.streamed : write(call.given);
  return (
    <Framed at={call.at} place={place} kind="call">
      <details onToggle={(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
        <summary>
          <Badge tone={tone}>{word}</Badge>
          <code class="call-name">
            <Line text={call.name} max={80} />
          </code>
          <span class="call-args mono quiet">
            <Line text={snippet(args, 140)} title={false} />
          </span>
          {ms !== null && <span class="number quiet">{duration(ms)}</span>}
          {place.resumed.has(call.id) && <Badge tone="info">goes on</Badge>}
        </summary>
        {open && (
          <div class="call-body">
            <p class="quiet">
              Call <Id id={call.id} length={40} />
            </p>
            <h3>Arguments</h3>
            <Json text={args} label={`Arguments of ${call.name.slice(0, 80)}`} what="the arguments" />
          </div>
        )}
      </details>
      {call.children.map((child) => (
        <section key={child.at} class="child" aria-label={`Subagent ${child.agentName.slice(0, 80)}`}>
          <p class="child-head">
            <Badge tone={OUTCOME[child.outcome]}>{child.outcome === "open" ? "working" : child.outcome}</Badge> <b>{<Line text={child.agentName} max={80} />}</b>{" "}
            {took(child) !== null && <span class="number quiet">{duration(took(child) ?? 0)}</span>}
          </p>
          <Pieces thread={child} place={place} />
        </section>
      ))}
      {call.error !== null && (
        <div class="call-error">
          <p>
            <code>{<Line text={call.error.code} max={80} />}</code> {call.error.retryable && <span class="quiet">trying again may help</span>}
          </p>
          <Block text={call.error.message} first={1000} />
        </div>
      )}
      {call.result !== null && <Result call={call} runId={place.store.runId} />}
    </Framed>
  );
}

const OUTCOME: Readonly<Record<Thread["outcome"], Tone>> = { open: "running", success: "ok", interrupted: "waiting", cancelled: "stopped", error: "bad" };
const SHORT = 280;

/** What came of a call: its beginning, the rest of the event's text, and on demand the whole that the gateway keeps. */
function Result({ call, runId }: { readonly call: Call; readonly runId: string }): JSX.Element {
  const shown = call.result ?? "";
  const [whole, setWhole] = useState<{ text: string | null; error: unknown; asking: boolean }>({ text: null, error: null, asking: false });
  const load = () => {
    const reference = call.resultRef;
    if (reference === null || whole.asking) return;
    setWhole({ text: null, error: null, asking: true });
    api.result(runId, reference).then(
      (text) => setWhole({ text, error: null, asking: false }),
      (error: unknown) => setWhole({ text: null, error, asking: false }),
    );
  };
  return (
    <div class="call-result">
      <p class="quiet">
        <Shape tone="ok" /> {shown === "" ? "an empty result" : whole.text === null ? `result, ${bytes(size(shown))} shown` : `the whole result, ${bytes(size(whole.text))}`}
      </p>
      {whole.text === null ? <Block text={shown} mono first={shown.length <= 3 * SHORT ? 3 * SHORT : SHORT} /> : <Block key="whole" text={whole.text} mono first={20_000} />}
      {call.resultRef !== null && whole.text === null && (
        <button type="button" class="button small" aria-disabled={whole.asking} onClick={load}>
          {whole.asking ? "Loading…" : "Load the whole result"}
        </button>
      )}
      {whole.error !== null && <Failure error={whole.error} retry={load} />}
    </div>
  );
}

function size(text: string): number {
  return new TextEncoder().encode(text).length;
}

function QuestionCard({ question, place }: { readonly question: Question; readonly place: Place }): JSX.Element {
  const run = place.store.run.value;
  const interrupt = run?.interrupt;
  const what = asked(question.request);
  const waits = interrupt?.status === "pending" && interrupt.interrupt_id === question.id;
  const names = new Map(what.kind === "approvals" ? what.approvals.map((one) => [one.tool_call_id, one.tool_name]) : []);
  const pending: Pending | null =
    run && interrupt
      ? {
          runId: run.run_id,
          conversationId: run.conversation_id,
          agentId: run.agent_id,
          interruptId: question.id,
          revision: interrupt.revision,
          expiresAt: interrupt.expires_at,
          asks: "",
          question: what,
        }
      : null;
  return (
    <Framed at={question.at} place={place} kind="question">
      <p class="question-head">
        <Badge tone="waiting">{what.kind === "form" ? "input was asked for" : "approval was asked for"}</Badge>
        {waits && <Expiry expiresAt={interrupt.expires_at} />}
      </p>
      {pending !== null && waits ? (
        <AnswerForm key={pending.revision} pending={pending} onSent={() => void place.store.refresh()} />
      ) : (
        <>
          {what.kind === "form" && <Block text={what.prompt} first={1000} />}
          {pending !== null && <Record runId={pending.runId} names={names} changed={interrupt?.status} />}
        </>
      )}
    </Framed>
  );
}
