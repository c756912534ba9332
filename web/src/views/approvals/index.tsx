// The inbox: everything that waits for a person, live. What was answered meanwhile stays until it is put away, with who did it.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, api } from "../../api";
import { Badge } from "../../components/badge";
import { usePoll } from "../../components/poll";
import { Empty, Failure, Loading } from "../../components/states";
import { Id, Line } from "../../components/text";
import { plural } from "../../format";
import { useKeys } from "../../keys";
import { href, route } from "../../router";
import { toast } from "../../toast";
import type { TopView } from "../registry";
import { decisions, draftOf, type Verb } from "./answer";
import { AnswerForm, Expiry, answer } from "./form";
import { type Held, held } from "./held";
import { type Pending, allPending } from "./pending";
import "./approvals.css";

const EVERY = 2000;
/** The most that are shown; the oldest of them first is what a reviewer works from. */
const MOST = 200;

/** How many wait, for the navigation; null until it is known. */
const waiting = signal<number | null>(null);

function Approvals(): JSX.Element {
  const wanted = route.value.query.get("run");
  const [away, setAway] = useState<ReadonlySet<string>>(new Set());
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const list = useRef<HTMLDivElement>(null);
  const polled = usePoll<Held[]>(async (stop, before) => held(before ?? [], await allPending(stop), away), EVERY, []);
  const all = (polled.value ?? []).filter(({ pending }) => !away.has(pending.interruptId));
  const shown = all.slice(0, MOST);
  const open = all.filter(({ gone }) => !gone);
  useEffect(() => {
    if (polled.value !== null) waiting.value = open.length;
  }, [open.length, polled.value === null]);

  const step = (by: number) => {
    const cards = [...(list.current?.querySelectorAll<HTMLElement>(".asked") ?? [])];
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    const next = cards[Math.max(0, Math.min(cards.length - 1, at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  useKeys([
    { key: "j", does: "Next question", run: () => step(1) },
    { key: "k", does: "Question before", run: () => step(-1) },
    { key: "x", does: "Mark the question for a decision about several", run: () => document.activeElement?.closest(".asked")?.querySelector<HTMLInputElement>(".asked-mark")?.click() },
  ]);
  // With the cards, not after: nobody who has begun to answer loses the focus.
  useLayoutEffect(() => {
    if (wanted === null || polled.value === null) return;
    const card = [...(list.current?.querySelectorAll<HTMLElement>(".asked") ?? [])].find((one) => one.dataset["run"] === wanted);
    card?.focus();
    card?.scrollIntoView({ block: "start" });
  }, [wanted, polled.value === null]);

  const mark = (id: string, on: boolean) => {
    const next = new Set(marked);
    if (on) next.add(id);
    else next.delete(id);
    setMarked(next);
  };
  const chosen = open.filter(({ pending }) => marked.has(pending.interruptId));
  const puttable = all.filter(({ gone }) => gone);

  return (
    <div class="page">
      <div class="bar">
        <h1>Approvals</h1>
        <span class="quiet" role="status">
          {polled.value === null ? "" : open.length === 0 ? "Nothing waits" : `${plural(open.length, "question waits", "questions wait")} for an answer`}
        </span>
        {polled.error !== null && polled.value !== null && <Badge tone="warn">not up to date: {polled.error instanceof ApiError ? polled.error.code : "failed"}</Badge>}
        {puttable.length > 0 && (
          <button type="button" class="button small" onClick={() => setAway(new Set([...away, ...puttable.map(({ pending }) => pending.interruptId)]))}>
            Put away {puttable.length} settled
          </button>
        )}
        {chosen.length > 0 && <Batch chosen={chosen.map(({ pending }) => pending)} onDone={() => setMarked(new Set())} />}
      </div>
      <div class="asked-list" ref={list}>
        {polled.value === null && (polled.error === null ? <Loading what="what waits" /> : <Failure error={polled.error} retry={polled.again} />)}
        {polled.value !== null && shown.length === 0 && (
          <Empty title="Nobody waits for you">
            When an agent asks for an approval or for input, its question appears here by itself. <a href="#/start">Start a run</a>
          </Empty>
        )}
        {shown.map(({ pending, gone }) => (
          <Card key={pending.interruptId} pending={pending} gone={gone} marked={marked.has(pending.interruptId)} onMark={(on) => mark(pending.interruptId, on)} />
        ))}
        {all.length > shown.length && <p class="quiet pad">{plural(all.length - shown.length, "more question")} behind these.</p>}
      </div>
    </div>
  );
}

function Card({ pending, gone, marked, onMark }: { readonly pending: Pending; readonly gone: boolean; readonly marked: boolean; readonly onMark: (on: boolean) => void }): JSX.Element {
  const [sent, setSent] = useState(false);
  const isForm = pending.question.kind === "form";
  const over = gone || sent;
  return (
    <article class={`asked ${over ? "is-over" : ""}`} tabIndex={-1} data-run={pending.runId} aria-label={`${isForm ? "Form" : "Approval"} for ${pending.agentId.slice(0, 80)}`}>
      <header class="asked-head">
        {!isForm && !over && (
          <input
            type="checkbox"
            class="asked-mark"
            checked={marked}
            aria-label={`Mark the approval for ${pending.agentId.slice(0, 80)} in conversation ${pending.conversationId.slice(0, 80)}`}
            onChange={(event) => onMark(event.currentTarget.checked)}
          />
        )}
        <Badge tone={over ? "none" : "waiting"}>{isForm ? "input wanted" : pending.question.kind === "approvals" && pending.question.approvals.length > 1 ? `${pending.question.approvals.length} approvals` : "approval"}</Badge>
        <h2>
          <Line text={pending.agentId} max={80} />
        </h2>
        {pending.asks !== pending.agentId && (
          <span class="quiet">
            asked by <Line text={pending.asks} max={80} />
          </span>
        )}
        <a href={href(["run", pending.runId, "conversation"])} aria-label={`Conversation ${pending.conversationId.slice(0, 80)}`}>
          <Id id={pending.conversationId} length={28} />
        </a>
        {!over && <Expiry expiresAt={pending.expiresAt} />}
      </header>
      <AnswerForm key={pending.revision} pending={pending} gone={gone} onSent={() => setSent(true)} />
    </article>
  );
}

/** One decision about several interrupts. Each gets its own answer, and each says what became of it. */
function Batch({ chosen, onDone }: { readonly chosen: readonly Pending[]; readonly onDone: () => void }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState("");
  const allows = (verb: Verb) => chosen.every(({ question }) => question.kind === "approvals" && question.approvals.every((one) => one.allowed.includes(verb)));
  const decide = async (verb: Verb) => {
    if (busy) return;
    setBusy(true);
    let taken = 0;
    const refused: string[] = [];
    for (const pending of chosen) {
      if (pending.question.kind !== "approvals") continue;
      const what = `"decisions":${decisions(pending.question.approvals.map((one) => [one, { ...draftOf(one), verb, message }] as const))}`;
      try {
        await answer(pending, what);
        taken += 1;
      } catch (error) {
        refused.push(`${pending.agentId.slice(0, 40)}: ${error instanceof Error ? error.message : "failed"}`);
      }
    }
    setBusy(false);
    if (taken > 0) toast(`${plural(taken, "answer")} taken`, "ok");
    for (const one of refused) toast(one, "error");
    onDone();
  };
  return (
    <form class="batch" onSubmit={(event) => event.preventDefault()} aria-label="Decide about all that are marked">
      <span>{plural(chosen.length, "marked")}</span>
      <button type="button" class="button small primary" disabled={!allows("approve") || busy} onClick={() => void decide("approve")}>
        Approve all
      </button>
      <input type="text" aria-label="Message for those that are rejected" placeholder="message (optional)" value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
      <button type="button" class="button small danger" disabled={!allows("reject") || busy} onClick={() => void decide("reject")}>
        Reject all
      </button>
    </form>
  );
}

/** Asks by itself, slowly, while another view is shown. */
function Waiting(): JSX.Element | null {
  useEffect(() => {
    const stop = new AbortController();
    const ask = () => {
      if (document.hidden || route.peek().path[0] === "approvals") return;
      api.interrupts(stop.signal).then(
        ({ interrupts }) => (waiting.value = interrupts.length),
        () => undefined,
      );
    };
    ask();
    const timer = setInterval(ask, 5000);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, []);
  const count = waiting.value;
  if (count === null || count === 0) return null;
  return (
    <span class="count tone-waiting">
      {count}
      <span class="visually-hidden"> waiting</span>
    </span>
  );
}

export const view: TopView = { scope: "top", name: "approvals", title: "Approvals", order: 20, component: Approvals, badge: Waiting };
