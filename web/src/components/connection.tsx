import type { JSX } from "preact";
import type { RunStore } from "../model/store";
import { Badge } from "./badge";

/** Whether what is shown is all there is, and whether anything was missed on the way. */
export function ConnectionSign({ store }: { readonly store: RunStore }): JSX.Element {
  const connection = store.connection.value;
  store.version.value;
  const gaps = store.model.gaps.length;
  const again = store.resumptions.value.length;
  return (
    <span class="connection" role="status">
      {connection.state === "loading" && <Badge tone="info">loading</Badge>}
      {connection.state === "live" && <Badge tone="running">live</Badge>}
      {connection.state === "ended" && <Badge tone="none">complete</Badge>}
      {connection.state === "failed" && <Badge tone="bad">{connection.error.code}</Badge>}
      {connection.state === "reconnecting" && (
        <>
          <Badge tone="warn">connection lost, try {connection.attempt}</Badge>
          <button type="button" class="button small" onClick={() => store.retryNow()}>
            Now
          </button>
        </>
      )}
      {again > 0 && (
        <Badge tone={gaps > 0 ? "bad" : "ok"} title="After every reconnection the first event was compared with the one that was due">
          {again === 1 ? "reconnected" : `reconnected ${again}×`}, {gaps === 0 ? "no gap" : `${gaps} gaps`}
        </Badge>
      )}
    </span>
  );
}
