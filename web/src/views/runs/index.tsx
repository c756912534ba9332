// All runs, newest first. Filters are the address; the first page is asked for again while it is looked at.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Agent, type Run, type RunFilter, STATUSES, api } from "../../api";
import { Badge, StatusBadge } from "../../components/badge";
import { VirtualList } from "../../components/list";
import { narrow } from "../../components/narrow";
import { usePoll } from "../../components/poll";
import { Empty, Failure, Loading } from "../../components/states";
import { Id, Line } from "../../components/text";
import { Duration, When } from "../../components/time";
import { count, plural } from "../../format";
import { useKeys } from "../../keys";
import { href, navigate, route, setQuery } from "../../router";
import type { TopView } from "../registry";
import "./runs.css";

const PAGE = 100;
/** The most rows that are kept; older ones are found by filters. */
const MOST = 5000;
/** Runs beyond the first page that are asked for again in one turn because they still ran. */
const STRAGGLERS = 8;

interface Listed {
  readonly runs: readonly Run[];
  readonly next: string | null;
}

/** `fresh` in front of what was there; a run that is in both is the fresh one. */
export function merge(before: readonly Run[], fresh: readonly Run[]): Run[] {
  const known = new Map(fresh.map((run) => [run.run_id, run]));
  const kept = before.filter((run) => !known.has(run.run_id));
  return [...fresh, ...kept].sort((a, b) => (a.created_at < b.created_at ? 1 : a.created_at > b.created_at ? -1 : 0));
}

function filterOf(query: URLSearchParams): RunFilter {
  const text = (name: string) => query.get(name) ?? undefined;
  return {
    status: text("status"),
    agent_id: text("agent_id"),
    conversation_id: text("conversation_id"),
    since: text("since"),
    until: text("until"),
  };
}

function said(run: Run): string {
  if (typeof run.request.message === "string") return run.request.message;
  return run.resumed_from ? "answered an interrupt" : "";
}

function matches(run: Run, words: string): boolean {
  const text = `${run.run_id} ${run.agent_id} ${run.conversation_id} ${run.harness_id} ${run.error?.code ?? ""} ${said(run)}`.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function Runs(): JSX.Element {
  const { query } = route.value;
  const filter = filterOf(query);
  const words = query.get("q") ?? "";
  const key = JSON.stringify(filter);
  const [older, setOlder] = useState<{ key: string; listed: Listed } | null>(null);
  const [loading, setLoading] = useState(false);
  const [agents, setAgents] = useState<readonly Agent[]>([]);
  const [selected, setSelected] = useState<string | null>(null);
  const search = useRef<HTMLInputElement>(null);

  const polled = usePoll<Listed>(
    async (signal, before) => {
      const first = await api.runs({ ...filter, limit: PAGE }, signal);
      const runs = merge(before?.runs ?? [], first.runs);
      const fresh = new Set(first.runs.map((run) => run.run_id));
      const stale = runs.filter((run) => run.status === "running" && !fresh.has(run.run_id)).slice(0, STRAGGLERS);
      const again = await Promise.all(stale.map((run) => api.run(run.run_id, signal).catch(() => run)));
      // A run that no longer fits the filter leaves the list.
      const fits = (run: Run) => filter.status === undefined || run.status === filter.status;
      const gone = new Set((before?.runs ?? []).slice(0, first.runs.length).map((run) => run.run_id).filter((id) => !fresh.has(id)));
      const all = merge(runs, again).filter((run) => fits(run) && (filter.status === undefined || !gone.has(run.run_id)));
      return { runs: all.slice(0, MOST), next: first.next };
    },
    2000,
    [key],
  );
  useEffect(() => {
    api.agents().then((answer) => setAgents(answer.agents), () => undefined);
  }, []);

  const behind = older?.key === key ? older.listed : null;
  const all = merge(behind?.runs ?? [], polled.value?.runs ?? []).slice(0, MOST);
  const next = behind ? behind.next : (polled.value?.next ?? null);
  const shown = words === "" ? all : all.filter((run) => matches(run, words));
  const place = shown.findIndex((run) => run.run_id === selected);
  const open = (run: Run | undefined) => run && navigate(href(["run", run.run_id]));

  useKeys([
    { key: "/", does: "Search these runs", run: () => search.current?.focus() },
  ]);

  const more = async () => {
    if (next === null || loading) return;
    setLoading(true);
    try {
      const page = await api.runs({ ...filter, limit: 500, cursor: next });
      setOlder({ key, listed: { runs: merge(page.runs, behind?.runs ?? []), next: page.next } });
    } finally {
      setLoading(false);
    }
  };

  const filtered = Object.values(filter).some((value) => value !== undefined) || words !== "";
  return (
    <div class="page">
      <div class="bar">
        <h1>Runs</h1>
        <label class="field">
          <span>Status</span>
          <select value={filter.status ?? ""} onChange={(event) => setQuery({ status: event.currentTarget.value })}>
            <option value="">any</option>
            {STATUSES.map((status) => (
              <option key={status} value={status}>
                {status}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>Agent</span>
          <select value={filter.agent_id ?? ""} onChange={(event) => setQuery({ agent_id: event.currentTarget.value })}>
            <option value="">any</option>
            {[...new Set([...agents.map((agent) => agent.agent_id), ...(filter.agent_id ? [filter.agent_id] : [])])].map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>Conversation</span>
          <input
            type="text"
            size={14}
            value={filter.conversation_id ?? ""}
            onChange={(event) => setQuery({ conversation_id: event.currentTarget.value.trim() })}
          />
        </label>
        <input
          ref={search}
          type="search"
          class="runs-search"
          aria-label="Search these runs"
          placeholder="Search these runs  /"
          value={words}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        {filtered && (
          <button type="button" class="button small" onClick={() => setQuery({ status: null, agent_id: null, conversation_id: null, since: null, until: null, q: null })}>
            Clear filters
          </button>
        )}
        <span class="end quiet number" role="status">
          {polled.value !== null && (words === "" ? plural(shown.length, "run") : `${count(shown.length)} of ${count(all.length)}`)}
          {next !== null && words === "" && "+"}
        </span>
        {polled.error !== null && polled.value !== null && <Badge tone="warn">not up to date</Badge>}
      </div>
      {polled.value === null ? (
        polled.error !== null ? (
          <Failure error={polled.error} retry={polled.again} />
        ) : (
          <Loading what="runs" />
        )
      ) : shown.length === 0 ? (
        <Empty title={filtered ? "No run fits these filters" : "No runs yet"}>
          {filtered ? "Clear a filter to see more." : "Start one: it shows up here at once. `make demo` fills this list with real ones."}
        </Empty>
      ) : (
        <div class="runs-list">
          {!narrow.value && (
            <div class="runs-row runs-head" aria-hidden="true">
              <span>Status</span>
              <span>Run</span>
              <span>Agent</span>
              <span>Harness</span>
              <span>Request</span>
              <span>First error</span>
              <span class="right">Started</span>
              <span class="right">Took</span>
              <span class="right">Tokens in / out</span>
              <span class="right">Cost</span>
            </div>
          )}
          <VirtualList
            id="runs"
            label="Runs"
            count={shown.length}
            rowHeight={narrow.value ? 76 : 30}
            keyOf={(index) => shown[index]?.run_id ?? index}
            selected={place < 0 ? null : place}
            onSelect={(index) => setSelected(shown[index]?.run_id ?? null)}
            onOpen={(index) => open(shown[index])}
            hrefOf={(index) => href(["run", shown[index]?.run_id ?? ""])}
            rowClass={() => "runs-row"}
            render={(index) => {
              const run = shown[index];
              return run && <RunRow run={run} />;
            }}
          />
          {next !== null && (
            <div class="bar runs-more">
              <button type="button" class="button small" disabled={loading} onClick={() => void more()}>
                {loading ? "Loading…" : "Load older runs"}
              </button>
            </div>
          )}
        </div>
      )}
    </div>
  );
}

function RunRow({ run }: { readonly run: Run }): JSX.Element {
  const usage = run.usage;
  const cost = usage?.cost;
  return (
    <>
      <span class="c-status">
        <StatusBadge status={run.status} />
      </span>
      <span class="c-run">
        <Id id={run.run_id} length={18} />
      </span>
      <span class="c-agent">
        <Line text={run.agent_id} />
      </span>
      <span class="c-harness quiet">
        <Line text={run.harness_id} />
      </span>
      <span class="c-said">
        <Line text={said(run)} max={200} title={false} />
      </span>
      <span class="c-error tone-bad">{run.error && <Line text={run.error.code} />}</span>
      <span class="c-when right quiet">
        <When iso={run.created_at} />
      </span>
      <span class="c-took right">
        <Duration from={run.created_at} to={run.ended_at} />
      </span>
      <span class="c-tokens right number">
        {usage ? `${number(usage.input_tokens)} / ${number(usage.output_tokens)}` : <span class="quiet">–</span>}
      </span>
      <span class="c-cost right number">
        {cost !== null && cost !== undefined ? `${cost.toFixed(4)} ${usage?.currency ?? ""}` : <span class="quiet">–</span>}
      </span>
    </>
  );
}

/** Unknown is not zero. */
function number(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : count(value);
}

export const view: TopView = { scope: "top", name: "runs", title: "Runs", order: 10, component: Runs };
