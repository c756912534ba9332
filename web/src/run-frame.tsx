// What all views of one run share: its head, its views, its connection, the selected event.
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { api } from "./api";
import { Badge, StatusBadge } from "./components/badge";
import { ConnectionSign } from "./components/connection";
import { Empty, Failure, Loading } from "./components/states";
import { Id, Line } from "./components/text";
import { Duration, When } from "./components/time";
import { count } from "./format";
import { useKeys } from "./keys";
import { RunStore } from "./model/store";
import { runHref } from "./model/select";
import { href, navigate, route } from "./router";
import { toast } from "./toast";
import { runViews } from "./views/registry";

export function RunFrame({ runId, viewName }: { readonly runId: string; readonly viewName: string | null }): JSX.Element {
  const store = useMemo(() => new RunStore(runId), [runId]);
  useEffect(() => () => store.dispose(), [store]);

  // The address leads: a link or the back button changes the selection too.
  const linked = route.value.query.get("seq");
  useEffect(() => {
    const sequence = linked === null || !/^\d+$/.test(linked) ? null : Number(linked);
    if (store.selected.peek() !== sequence) store.selected.value = sequence;
  }, [linked, store]);

  const view = runViews.find((one) => one.name === viewName) ?? (viewName === null ? runViews[0] : undefined);
  const step = (by: number) => {
    const at = runViews.findIndex((one) => one.name === view?.name);
    const next = runViews[(at + by + runViews.length) % runViews.length];
    if (next) navigate(runHref(store, next.name));
  };
  useKeys([
    { key: "]", does: "Next view of this run", run: () => step(1) },
    { key: "[", does: "View before", run: () => step(-1) },
    { key: "u", does: "Up to all runs", run: () => navigate("#/runs") },
  ]);

  const connection = store.connection.value;
  if (connection.state === "failed" && store.run.value === null) return <Failure error={connection.error} />;
  return (
    <div class="run">
      <RunHead store={store} />
      <nav class="tabs" aria-label="Views of the run">
        {runViews.map((one) => (
          <a key={one.name} href={runHref(store, one.name)} aria-current={one.name === view?.name ? "page" : undefined}>
            {one.title}
            {one.badge && <one.badge store={store} />}
          </a>
        ))}
      </nav>
      <div class="run-view">
        {store.run.value === null ? (
          <Loading what="the run" />
        ) : view ? (
          <view.component store={store} />
        ) : (
          <Empty title="There is no such view of a run" />
        )}
      </div>
    </div>
  );
}

function RunHead({ store }: { readonly store: RunStore }): JSX.Element {
  const run = store.run.value;
  const events = store.version.value >= 0 ? store.events.length : 0;
  return (
    <header class="run-head">
      <h1>
        <span class="quiet">Run</span> <Id id={store.runId} length={40} />
      </h1>
      {run && (
        <>
          <StatusBadge status={run.status} />
          <dl class="facts">
            <div>
              <dt>Agent</dt>
              <dd>
                <a href={href(["runs"], { agent_id: run.agent_id })}>
                  <Line text={run.agent_id} max={40} />
                </a>
              </dd>
            </div>
            <div>
              <dt>Conversation</dt>
              <dd>
                <a href={href(["runs"], { conversation_id: run.conversation_id })}>
                  <Id id={run.conversation_id} length={24} />
                </a>
              </dd>
            </div>
            <div>
              <dt>Started</dt>
              <dd>
                <When iso={run.created_at} />
              </dd>
            </div>
            <div>
              <dt>Took</dt>
              <dd>
                <Duration from={run.created_at} to={run.ended_at} />
              </dd>
            </div>
            <div>
              <dt>Events</dt>
              <dd class="number">{count(events)}</dd>
            </div>
            {run.resumed_from && (
              <div>
                <dt>Resumes</dt>
                <dd>
                  <a href={href(["run", run.resumed_from])}>
                    <Id id={run.resumed_from} />
                  </a>
                </dd>
              </div>
            )}
            {run.resumed_by && (
              <div>
                <dt>Resumed by</dt>
                <dd>
                  <a href={href(["run", run.resumed_by])}>
                    <Id id={run.resumed_by} />
                  </a>
                </dd>
              </div>
            )}
          </dl>
          <ConnectionSign store={store} />
          {run.status === "running" && (
            <button
              type="button"
              class="button small danger"
              onClick={() => {
                api
                  .cancel(store.runId)
                  .then((answer) => toast(answer.cancelled ? "Cancelled" : "It had ended already", "ok"))
                  .catch((error: unknown) => toast(error instanceof Error ? error.message : "It could not be cancelled", "error"));
              }}
            >
              Cancel run
            </button>
          )}
          {run.error && (
            <p class="run-error">
              <Badge tone={run.status === "uncertain" ? "unsure" : "bad"}>
                <code>{run.error.code}</code>
              </Badge>{" "}
              <Line text={run.error.message} />
              {run.uncertain && (
                <>
                  {" "}
                  <Line text={`${run.uncertain.happened}.`} max={600} /> <strong>Next:</strong> <Line text={run.uncertain.next} max={600} />
                </>
              )}
            </p>
          )}
        </>
      )}
    </header>
  );
}
