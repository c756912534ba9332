// The decision record of an interrupt: who, when, through which route, and what.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Badge } from "../../components/badge";
import { Json } from "../../components/json";
import { Failure, Loading } from "../../components/states";
import { Block, Id, Line } from "../../components/text";
import { When } from "../../components/time";
import type { Tone } from "../../components/shape";
import { write } from "../../exact";
import { href } from "../../router";
import { type Settled, settled } from "./pending";

const STATUS: Readonly<Record<string, readonly [Tone, string]>> = {
  pending: ["waiting", "Waits for an answer"],
  consumed: ["ok", "Answered"],
  answered: ["ok", "Answered"],
  expired: ["stopped", "Expired unanswered: nothing of what it asked for was done"],
  voided: ["stopped", "Taken back: it can no longer be answered"],
};

const VERB: Readonly<Record<string, readonly [Tone, string]>> = {
  approve: ["ok", "approved"],
  edit: ["info", "approved with other arguments"],
  reject: ["bad", "rejected"],
};

/** Loads the record, again whenever `changed` is another. */
export function Record({ runId, names, changed }: { readonly runId: string; readonly names: ReadonlyMap<string, string>; readonly changed: unknown }): JSX.Element {
  const [state, setState] = useState<{ settled: Settled | null; error: unknown }>({ settled: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    settled(runId, stop.signal).then(
      (found) => setState({ settled: found, error: null }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ settled: null, error });
      },
    );
    return () => stop.abort();
  }, [runId, changed, round]);
  if (state.error !== null) return <Failure error={state.error} retry={() => setRound(round + 1)} />;
  if (state.settled === null) return <Loading what="the decision" />;
  return <RecordOf settled={state.settled} names={names} />;
}

export function RecordOf({ settled: found, names }: { readonly settled: Settled; readonly names: ReadonlyMap<string, string> }): JSX.Element {
  const [tone, words] = STATUS[found.status] ?? ["info", found.status];
  return (
    <div class="record">
      <p class="record-head">
        <Badge tone={tone}>{words}</Badge>
        {found.answered && (
          <>
            <span>
              by <b>{<Line text={found.by} max={80} />}</b>
            </span>
            <When iso={found.at} />
            <span class="quiet">
              through <code>{found.route}</code>
            </span>
          </>
        )}
        {found.resumedBy !== null && (
          <a href={href(["run", found.resumedBy, "conversation"])}>
            goes on in <Id id={found.resumedBy} />
          </a>
        )}
      </p>
      {found.dismissed && <p>The form was dismissed.</p>}
      {found.values !== null && <Json text={write(found.values)} label="Values given" what="the values" />}
      {found.decisions.map((one) => {
        const [verbTone, verb] = VERB[one.verb] ?? ["info", one.verb];
        return (
          <div key={one.callId} class="record-call">
            <p>
              <Badge tone={verbTone}>{verb}</Badge> <code>{<Line text={names.get(one.callId) ?? ""} max={80} />}</code> <Id id={one.callId} />
            </p>
            {one.args !== null && <Json text={write(one.args)} label="Arguments that were given instead" what="the arguments" />}
            {one.message !== "" && <Block text={one.message} first={1000} />}
          </div>
        );
      })}
    </div>
  );
}
