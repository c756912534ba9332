// The rules in one run: what the harness yielded and the log refused, and what is legal and odd.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Failure, Loading } from "../../components/states";
import { Badge } from "../../components/badge";
import { plural } from "../../format";
import { runHref, select } from "../../model/select";
import type { RunStore } from "../../model/store";
import { useKeys } from "../../keys";
import type { RunView } from "../registry";
import { type Found, grouped } from "./findings";
import { GroupCard, RulesFailed, useRules } from "./rules";

/** Asks for the findings now, while the run goes on every few seconds, and once more at its end. */
function useFindings(store: RunStore): { readonly error: unknown; readonly again: () => void } {
  const [error, setError] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  const ended = store.connection.value.state === "ended";
  useEffect(() => {
    let on = true;
    const ask = () =>
      store.loadFindings().then(
        () => on && setError(null),
        (found: unknown) => on && setError(found),
      );
    void ask();
    const timer = ended ? undefined : setInterval(() => void ask(), 3000);
    return () => {
      on = false;
      clearInterval(timer);
    };
  }, [store, ended, round]);
  return { error, again: () => setRound(round + 1) };
}

function Rules({ store }: { readonly store: RunStore }): JSX.Element {
  const rules = useRules();
  const { error, again } = useFindings(store);
  const findings = store.findings.value;
  const [onlyBroken, setOnlyBroken] = useState(false);
  useKeys([{ key: "f", does: "Only what was refused, or all", run: () => setOnlyBroken(!onlyBroken) }]);
  if (findings === null) return error === null ? <Loading what="the findings" /> : <Failure error={error} retry={again} />;
  const groups = grouped(findings, rules).filter((one) => one.broken || !onlyBroken);
  const place = (found: Found): JSX.Element =>
    found.sequence === null ? (
      <span class="quiet">at the end</span>
    ) : (
      <>
        <a href={runHref(store, "events", { seq: found.sequence })} onClick={() => select(store, found.sequence)}>
          {found.broken ? "before" : "event"} #{found.sequence}
        </a>{" "}
        {found.type !== null && <code>{found.type}</code>} {found.pointer !== null && <code>{found.pointer}</code>}
      </>
    );
  return (
    <div class="findings pad">
      <div class="findings-head">
        <Badge tone={findings.violations.length > 0 ? "bad" : "ok"}>{findings.violations.length === 0 ? "nothing was refused" : `${plural(findings.violations.length, "event")} refused`}</Badge>
        <Badge tone={findings.warnings.length > 0 ? "warn" : "ok"}>{findings.warnings.length === 0 ? "no warnings" : plural(findings.warnings.length, "warning")}</Badge>
        <label class="check">
          <input type="checkbox" checked={onlyBroken} onChange={(event) => setOnlyBroken(event.currentTarget.checked)} /> Only what was refused
        </label>
        <a href="#/check">Check a file</a>
      </div>
      {error !== null && <Failure error={error} retry={again} />}
      <RulesFailed />
      {groups.length === 0 && (
        <Empty title={findings.warnings.length > 0 ? "Nothing was refused" : "Nothing was refused and nothing is odd"}>
          The log is legal by construction. What the gateway refused is remembered until it is restarted.
        </Empty>
      )}
      {groups.map((group) => (
        <GroupCard key={`${group.broken} ${group.id}`} group={group} place={place} />
      ))}
    </div>
  );
}

/** How many findings there are, once they are known; loading them is the view's to do, or the timeline's. */
function Count({ store }: { readonly store: RunStore }): JSX.Element | null {
  const state = store.connection.value.state;
  useEffect(() => {
    if (state === "ended" && store.findings.peek() === null) store.loadFindings().catch(() => undefined);
  }, [state, store]);
  const findings = store.findings.value;
  if (findings === null) return null;
  const { violations, warnings } = findings;
  const count = violations.length + warnings.length;
  if (count === 0) return null;
  return (
    <span class={`count ${violations.length > 0 ? "tone-bad" : "tone-warn"}`} title={`${plural(violations.length, "event")} refused, ${plural(warnings.length, "warning")}`}>
      {violations.length > 0 && "!"}
      {count}
      <span class="visually-hidden"> findings</span>
    </span>
  );
}

export const view: RunView = { scope: "run", name: "rules", title: "Rules", order: 40, component: Rules, badge: Count };
