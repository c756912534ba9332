// Two runs side by side, aligned by what they are made of. The address holds both, so that it can be sent to a colleague.
import type { JSX } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import { type Run, api } from "../../api";
import { Badge, StatusBadge } from "../../components/badge";
import { ConnectionSign } from "../../components/connection";
import { usePoll } from "../../components/poll";
import type { Tone } from "../../components/shape";
import { Empty, Failure, Loading } from "../../components/states";
import { Block, Line } from "../../components/text";
import { Duration, When } from "../../components/time";
import { write } from "../../exact";
import { count, duration, moment, plural, shortId, snippet } from "../../format";
import { useKeys } from "../../keys";
import { RunStore } from "../../model/store";
import { href, route, setQuery } from "../../router";
import { type Piece, endInWords, talkOf } from "../conversation/talk";
import type { TopView } from "../registry";
import { type Row, type State, THRESHOLD, type Threshold, compare, summary } from "./compare";
import { Stretches } from "./stretches";
import "./compare.css";

function useStore(runId: string | null): RunStore | null {
  const store = useMemo(() => (runId === null ? null : new RunStore(runId)), [runId]);
  useEffect(() => () => store?.dispose(), [store]);
  return store;
}

function thresholdOf(query: URLSearchParams): Threshold {
  const number = (name: string, otherwise: number, least: number) => {
    const text = query.get(name);
    const value = text === null || text.trim() === "" ? Number.NaN : Number(text);
    return Number.isFinite(value) && value >= least ? value : otherwise;
  };
  return { least: number("least", THRESHOLD.least, 0), factor: number("factor", THRESHOLD.factor, 1) };
}

function Compare(): JSX.Element {
  const { query } = route.value;
  const [leftId, rightId] = [query.get("left") || null, query.get("right") || null];
  const left = useStore(leftId);
  const right = useStore(rightId);
  const recent = usePoll(async (stop) => (await api.runs({ limit: 100 }, stop)).runs, 10_000, []);
  const threshold = thresholdOf(query);
  const onlyDifferent = query.get("all") !== "1";
  useKeys([
    { key: "d", does: "Only what differs, or all", run: () => setQuery({ all: onlyDifferent ? "1" : null }) },
    { key: "x", does: "Swap the two", run: () => setQuery({ left: rightId, right: leftId }) },
  ]);
  return (
    <div class="page">
      <div class="bar">
        <h1>Compare</h1>
        <Pick label="Left" name="left" runId={leftId} recent={recent.value ?? []} />
        <Pick label="Right" name="right" runId={rightId} recent={recent.value ?? []} />
        <button type="button" class="button small" disabled={leftId === null && rightId === null} onClick={() => setQuery({ left: rightId, right: leftId })}>
          Swap
        </button>
        <label class="check">
          <input type="checkbox" checked={onlyDifferent} onChange={(event) => setQuery({ all: event.currentTarget.checked ? null : "1" })} />
          Only what differs
        </label>
        <label class="field">
          <span>Slower: from</span>
          <input type="number" min="0" step="50" class="compare-number" value={threshold.least} onChange={(event) => setQuery({ least: event.currentTarget.value })} />
          <span>ms and</span>
        </label>
        <label class="field">
          <span class="visually-hidden">Slower: times</span>
          <input type="number" min="1" step="0.1" class="compare-number" value={threshold.factor} onChange={(event) => setQuery({ factor: event.currentTarget.value })} />
          <span>times</span>
        </label>
      </div>
      <div class="compare-scroll">
        {left === null || right === null ? (
          <Empty title="Choose two runs">What they said, the calls they made and what came of them are set side by side; ids are left aside.</Empty>
        ) : (
          <Both key={`${left.runId} ${right.runId}`} left={left} right={right} threshold={threshold} onlyDifferent={onlyDifferent} />
        )}
      </div>
    </div>
  );
}

function Pick({ label, name, runId, recent }: { readonly label: string; readonly name: "left" | "right"; readonly runId: string | null; readonly recent: readonly Run[] }): JSX.Element {
  const id = useId();
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" size={20} class="mono" spellcheck={false} list={id} value={runId ?? ""} placeholder="run id" onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim() })} />
      <datalist id={id}>
        {recent.map((run) => (
          <option key={run.run_id} value={run.run_id}>
            {`${run.agent_id.slice(0, 40)}, ${run.status}, ${moment(run.created_at)}${typeof run.request.message === "string" ? `: ${snippet(run.request.message, 50)}` : ""}`}
          </option>
        ))}
      </datalist>
    </label>
  );
}

function Both({ left, right, threshold, onlyDifferent }: { readonly left: RunStore; readonly right: RunStore; readonly threshold: Threshold; readonly onlyDifferent: boolean }): JSX.Element {
  // Runs that have ended are compared once, when both are all there.
  const ready = [left, right].every((store) => store.connection.value.state !== "loading" || store.run.value?.status === "running");
  const versions = [left.version.value, right.version.value];
  const { least, factor } = threshold;
  const rows = useMemo(() => {
    if (!ready) return [];
    const [a, b] = [left, right].map((store) => talkOf(store.model, (sequence) => store.eventAt(sequence)?.raw ?? null));
    return a && b ? compare(a, b, { least, factor }) : [];
  }, [left, right, ...(ready ? versions : [-1, -1]), least, factor]);
  const sum = summary(rows);
  const failed = [left, right].map((store) => store.connection.value).find((one) => one.state === "failed");
  if (failed?.state === "failed") return <Failure error={failed.error} />;
  if (left.run.value === null || right.run.value === null || !ready) {
    return <Loading what={`the runs: ${plural(left.model.count + right.model.count, "event")} so far`} />;
  }
  const same = sum.added + sum.removed + sum.changed + sum.slower + sum.faster === 0;
  return (
    <>
      <p class="compare-sum" role="status">
        {same ? (
          <Badge tone="ok">They said and did the same</Badge>
        ) : (
          <>
            <Badge tone={sum.added > 0 ? "info" : "none"}>{count(sum.added)} added</Badge>
            <Badge tone={sum.removed > 0 ? "stopped" : "none"}>{count(sum.removed)} removed</Badge>
            <Badge tone={sum.changed > 0 ? "warn" : "none"}>{count(sum.changed)} changed</Badge>
            <Badge tone={sum.slower > 0 ? "bad" : "none"}>{count(sum.slower)} slower</Badge>
            <Badge tone={sum.faster > 0 ? "ok" : "none"}>{count(sum.faster)} faster</Badge>
          </>
        )}
      </p>
      <div class="compare" role="table" aria-label="The two runs, aligned">
        <div role="row" class="compare-row compare-head">
          <div role="columnheader">What</div>
          {[left, right].map((store, at) => (
            <div key={at} role="columnheader">
              <RunTitle side={at === 0 ? "left" : "right"} store={store} run={store.run.value as Run} />
            </div>
          ))}
        </div>
        <Rows rows={rows} left={left} right={right} onlyDifferent={onlyDifferent} depth={0} />
      </div>
    </>
  );
}

function RunTitle({ side, store, run }: { readonly side: string; readonly store: RunStore; readonly run: Run }): JSX.Element {
  return (
    <div class="compare-title">
      <span class="visually-hidden">{side}: </span>
      <a href={href(["run", run.run_id, "conversation"])} title={run.run_id}>
        {shortId(run.run_id, 20)}
      </a>
      <StatusBadge status={run.status} />
      <Line text={run.agent_id} max={40} />
      <When iso={run.created_at} />
      <Duration from={run.created_at} to={run.ended_at} />
      {store.connection.value.state !== "ended" && <ConnectionSign store={store} />}
      {typeof run.request.message === "string" && <Block text={run.request.message} first={200} />}
    </div>
  );
}

const SIGNS: Readonly<Record<State, readonly [Tone, string]>> = {
  same: ["none", "same"],
  changed: ["warn", "changed"],
  added: ["info", "added"],
  removed: ["stopped", "removed"],
};

/** Whether something at or below a row differs. */
function differs(row: Row): boolean {
  return row.state !== "same" || (row.time !== null && row.time.verdict !== "alike") || row.children.some(differs);
}

interface RowsProps {
  readonly rows: readonly Row[];
  readonly left: RunStore;
  readonly right: RunStore;
  readonly onlyDifferent: boolean;
  readonly depth: number;
}

const FIRST = 200;

function Rows({ rows, onlyDifferent, ...rest }: RowsProps): JSX.Element {
  const [shown, setShown] = useState(FIRST);
  // What is the same between two differences is told as a number.
  const items: (Row | number)[] = [];
  for (const row of rows) {
    const last = items.at(-1);
    if (!onlyDifferent || differs(row)) items.push(row);
    else if (typeof last === "number") items[items.length - 1] = last + 1;
    else items.push(1);
  }
  return (
    <>
      {items.slice(0, shown).map((item, at) =>
        typeof item === "number" ? (
          <div key={at} role="row" class="compare-row compare-same">
            <div role="cell" class="quiet" style={{ paddingLeft: `${rest.depth * 16 + 8}px` }}>
              {plural(item, "piece")} the same
            </div>
          </div>
        ) : (
          <RowCells key={at} row={item} onlyDifferent={onlyDifferent} {...rest} />
        ),
      )}
      {items.length > shown && (
        <div role="row" class="compare-row compare-same">
          <div role="cell">
            <button type="button" class="link" onClick={() => setShown(shown + 5 * FIRST)}>
              {plural(items.length - shown, "more row")}
            </button>
          </div>
        </div>
      )}
    </>
  );
}

function RowCells({ row, left, right, onlyDifferent, depth }: Omit<RowsProps, "rows"> & { readonly row: Row }): JSX.Element {
  const piece = row.left ?? row.right;
  const [tone, word] = SIGNS[row.state];
  const time = row.time !== null && row.time.verdict !== "alike" ? row.time : null;
  return (
    <>
      <div role="row" class={`compare-row is-${row.state}`}>
        <div role="cell" class="compare-what" style={{ paddingLeft: `${depth * 16 + 8}px` }}>
          <Badge tone={tone}>{word}</Badge>
          {piece !== null && <Name piece={piece} />}
          {time !== null && (
            <Badge tone={time.verdict === "slower" ? "bad" : "ok"}>
              {time.verdict}: {duration(time.left)} → {duration(time.right)}
            </Badge>
          )}
        </div>
        {row.changes.length > 0 ? (
          <div role="cell" class="compare-changes" aria-colspan={2}>
            <p class="quiet compare-links">
              <Events left={row.left} right={row.right} leftStore={left} rightStore={right} />
            </p>
            {row.changes.map((change) => (
              <div key={change.what}>
                <p class="quiet">{change.what}</p>
                <Stretches all={change.stretches} mono={change.what === "arguments" || change.what === "question"} />
              </div>
            ))}
          </div>
        ) : (
          [row.left, row.right].map((side, at) => (
            <div key={at} role="cell" class={side === null ? "compare-none" : ""}>
              {side === null ? <span class="quiet">nothing</span> : <Said piece={side} store={at === 0 ? left : right} short={row.state === "same"} />}
            </div>
          ))
        )}
      </div>
      {row.children.length > 0 && <Rows rows={row.children} left={left} right={right} onlyDifferent={onlyDifferent} depth={depth + 1} />}
    </>
  );
}

function Name({ piece }: { readonly piece: Piece }): JSX.Element {
  if (piece.kind !== "call") return <span>{WORDS[piece.kind]}</span>;
  return (
    <code>
      <Line text={piece.name} max={60} />
    </code>
  );
}

const WORDS = { text: "message", reasoning: "reasoning", question: "question", notice: "warning", end: "end" } as const;

function Events({ left, right, leftStore, rightStore }: { readonly left: Piece | null; readonly right: Piece | null; readonly leftStore: RunStore; readonly rightStore: RunStore }): JSX.Element {
  return (
    <>
      {left !== null && <a href={href(["run", leftStore.runId, "events"], { seq: left.at })}>left #{left.at}</a>}{" "}
      {right !== null && <a href={href(["run", rightStore.runId, "events"], { seq: right.at })}>right #{right.at}</a>}
    </>
  );
}

/** A piece that stands alone, or that is the same on both sides. */
function Said({ piece, store, short }: { readonly piece: Piece; readonly store: RunStore; readonly short: boolean }): JSX.Element {
  const text = words(piece);
  return (
    <>
      <a class="quiet" href={href(["run", store.runId, "events"], { seq: piece.at })}>
        #{piece.at}
      </a>{" "}
      {short ? <Line text={snippet(text, 200)} title={false} /> : <Block text={text} first={1000} mono={piece.kind === "call"} />}
    </>
  );
}

function words(piece: Piece): string {
  switch (piece.kind) {
    case "text":
    case "reasoning":
      return piece.text;
    case "call": {
      const came = piece.result ?? (piece.error === null ? "" : `${piece.error.code}: ${piece.error.message}`);
      return `${piece.given === null ? piece.streamed : write(piece.given)}${came === "" ? "" : `\n→ ${came}`}`;
    }
    case "notice":
      return `${piece.code}: ${piece.message}`;
    case "question":
      return write(piece.request);
    case "end": {
      const { title, text } = endInWords(piece);
      return text === "" ? title : `${title}. ${text}`;
    }
  }
}

export const view: TopView = { scope: "top", name: "compare", title: "Compare", order: 30, component: Compare };
