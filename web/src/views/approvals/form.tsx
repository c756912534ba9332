// Answering one interrupt: a form, or a decision about each call. Used by the inbox and inside a conversation.
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../../api";
import { Badge } from "../../components/badge";
import { Shape } from "../../components/shape";
import { Line } from "../../components/text";
import { now } from "../../components/time";
import { member, textOf } from "../../exact";
import { type Complaint, Keys, freshKey, placed, remaining } from "./answer";
import { Decisions } from "./decisions-form";
import { FormInput } from "./fields-form";
import { type Pending, send } from "./pending";
import { Record } from "./record";
import "./form.css";

type Phase =
  | { readonly at: "open" }
  | { readonly at: "sending" }
  /** This form's answer was taken. */
  | { readonly at: "sent"; readonly runId: string }
  /** Somebody else was first, or it is over. */
  | { readonly at: "late"; readonly why: string };

export interface AnswerFormProps {
  readonly pending: Pending;
  /** It is no longer among those that wait: it was answered, taken back, or is over. */
  readonly gone?: boolean;
  readonly onSent?: (runId: string) => void;
}

/** Whether the keys of answers outlive the form: a conversation may draw it anew while an answer is under way. */
const allKeys = new Map<string, Keys>();

function keysOf(interruptId: string): Keys {
  let keys = allKeys.get(interruptId);
  if (keys === undefined) {
    keys = new Keys(freshKey);
    allKeys.set(interruptId, keys);
  }
  return keys;
}

/** Sends one answer; pressed twice or tried again, it is one. */
export async function answer(pending: Pending, what: string): Promise<string> {
  const run = await send(pending, keysOf(pending.interruptId).of(what), what);
  return textOf(member(run, "run_id"));
}

export function AnswerForm({ pending, gone = false, onSent }: AnswerFormProps): JSX.Element {
  const [phase, setPhase] = useState<Phase>({ at: "open" });
  const [told, setTold] = useState<readonly Complaint[]>([]);
  const [again, setAgain] = useState(false);
  const busy = useRef(false);
  const { question } = pending;
  const names = useMemo(() => new Map(question.kind === "approvals" ? question.approvals.map((one) => [one.tool_call_id, one.tool_name]) : []), [question]);

  const submit = async (what: string, refusal: (message: string) => Complaint) => {
    if (busy.current) return;
    busy.current = true;
    setPhase({ at: "sending" });
    setTold([]);
    setAgain(false);
    try {
      const runId = await answer(pending, what);
      setPhase({ at: "sent", runId });
      onSent?.(runId);
    } catch (error) {
      const known = error instanceof ApiError ? error : null;
      if (known?.status === 409) setPhase({ at: "late", why: known.message });
      else {
        setPhase({ at: "open" });
        const message = known?.message ?? "Something failed in this page";
        setTold([known?.status === 422 ? refusal(message) : { about: null, text: `${message}.` }]);
        // The same answer keeps its key: it cannot be taken twice.
        setAgain(known === null || known.status === 0 || known.status === 429 || known.status >= 500);
      }
    } finally {
      busy.current = false;
    }
  };

  if (phase.at === "sent" || phase.at === "late" || (gone && phase.at === "open")) {
    return (
      <div class="answer is-settled" role="status">
        {phase.at === "late" && (
          <p class="answer-late">
            <Shape tone="warn" /> Your answer was not taken: {<Line text={phase.why} max={400} />}
          </p>
        )}
        {phase.at === "open" && <p class="quiet">It no longer waits for an answer.</p>}
        <Record runId={pending.runId} names={names} changed={phase.at} />
      </div>
    );
  }
  const common = { sending: phase.at === "sending", told, again };
  return (
    <div class="answer">
      {question.kind === "form" ? (
        <FormInput
          {...common}
          prompt={question.prompt}
          fields={question.fields}
          onTold={setTold}
          onSubmit={(what) => void submit(what, (message) => placed(message, new Map(), question.fields.map(({ name }) => name)))}
        />
      ) : (
        <Decisions
          {...common}
          approvals={question.approvals}
          onTold={setTold}
          onSubmit={(what, drafts) => void submit(what, (message) => placed(message, drafts, []))}
        />
      )}
    </div>
  );
}

/** How long an answer is taken. */
export function Expiry({ expiresAt }: { readonly expiresAt: string | null }): JSX.Element | null {
  if (expiresAt === null) return null;
  const { text, soon, over } = remaining(expiresAt, now.value);
  return (
    <Badge tone={over ? "stopped" : soon ? "warn" : "info"} title={expiresAt}>
      <time dateTime={expiresAt}>{text}</time>
    </Badge>
  );
}
