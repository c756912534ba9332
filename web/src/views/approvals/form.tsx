// Answering one interrupt: a form, or a decision about each call. Used by the inbox and inside a conversation.
import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../../api";
import { Badge } from "../../components/badge";
import { Json } from "../../components/json";
import { Shape } from "../../components/shape";
import { Block, Id, Line, visibleText } from "../../components/text";
import { now } from "../../components/time";
import { legible, member, place, textOf, write } from "../../exact";
import { Stretches } from "../compare/stretches";
import { diffText } from "../compare/diff";
import { type Approval, type Complaint, type Draft, type Verb, Keys, complaints, decisions, draftOf, freshKey, isChanged, placed, remaining } from "./answer";
import { type Entry, type Field, fault, values } from "./fields";
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

interface Common {
  readonly sending: boolean;
  readonly told: readonly Complaint[];
  readonly again: boolean;
  readonly onTold: (told: readonly Complaint[]) => void;
}

function Told({ all, id }: { readonly all: readonly Complaint[]; readonly id?: string }): JSX.Element | null {
  if (all.length === 0) return null;
  return (
    <div class="told" id={id} role="alert">
      {all.map((one) => (
        <p key={one.text} class="tone-bad">
          <Shape tone="bad" /> {<Line text={one.text} max={800} title={false} />}
        </p>
      ))}
    </div>
  );
}

function FormInput(props: Common & { readonly prompt: string; readonly fields: readonly Field[]; readonly onSubmit: (what: string) => void }): JSX.Element {
  const { fields, sending, told, again } = props;
  const [entries, setEntries] = useState<ReadonlyMap<string, Entry>>(() => new Map(fields.map((field) => [field.name, field.initial])));
  const form = useRef<HTMLFormElement>(null);
  const enter = (name: string, entry: Entry) => {
    setEntries(new Map(entries).set(name, entry));
    props.onTold(told.filter(({ about }) => about !== name));
  };
  const submit = () => {
    const faults = fields.flatMap((field): Complaint[] => {
      const text = fault(field, entries.get(field.name) ?? field.initial);
      return text === null ? [] : [{ about: field.name, text }];
    });
    if (faults.length === 0) return props.onSubmit(`"values":${write(values(fields, entries))}`);
    props.onTold(faults);
    const at = fields.findIndex(({ name }) => name === faults[0]?.about);
    form.current?.querySelectorAll<HTMLElement>("[data-field]")[at]?.querySelector<HTMLElement>("input,select,textarea")?.focus();
  };
  return (
    <form
      ref={form}
      class="answer-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {props.prompt !== "" && <Block text={props.prompt} first={2000} />}
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          entry={entries.get(field.name) ?? field.initial}
          told={told.filter(({ about }) => about === field.name)}
          onEntry={(entry) => enter(field.name, entry)}
        />
      ))}
      <Told all={told.filter(({ about }) => about === null)} />
      <div class="row-of-buttons">
        <button type="submit" class="button primary" aria-disabled={sending}>
          {sending ? "Sending…" : again ? "Try again" : "Send the answer"}
        </button>
        <button type="button" class="button danger" aria-disabled={sending} onClick={() => props.onSubmit('"dismissed":true')}>
          Dismiss the form
        </button>
      </div>
    </form>
  );
}

const INPUT: Readonly<Partial<Record<Field["control"], "date" | "time" | "email" | "url" | "password">>> = { date: "date", time: "time", email: "email", url: "url", secret: "password" };

function FieldInput({ field, entry, told, onEntry }: { readonly field: Field; readonly entry: Entry; readonly told: readonly Complaint[]; readonly onEntry: (entry: Entry) => void }): JSX.Element {
  const id = useId();
  const text = typeof entry === "string" ? entry : "";
  const chosen = typeof entry === "string" ? [] : entry;
  const common = {
    id,
    "aria-required": field.required,
    "aria-invalid": told.length > 0,
    "aria-describedby": `${id}-help ${id}-told`,
  };
  const label = (
    <>
      <Line text={field.label} max={200} /> {field.required ? <span class="quiet">(needed)</span> : <span class="quiet">(may be left empty)</span>}
    </>
  );
  const input = (): JSX.Element => {
    switch (field.control) {
      case "choices":
        return (
          <div class="choices">
            {field.choices.map((choice, at) => (
              <label key={at} class="check">
                <input
                  type="checkbox"
                  checked={chosen.includes(at)}
                  onChange={(event) => onEntry(event.currentTarget.checked ? [...chosen, at].sort((a, b) => a - b) : chosen.filter((one) => one !== at))}
                />
                <Line text={choice.label} max={200} />
              </label>
            ))}
          </div>
        );
      case "choice":
        return (
          <select {...common} value={chosen[0] === undefined ? "" : String(chosen[0])} onChange={(event) => onEntry(event.currentTarget.value === "" ? [] : [Number(event.currentTarget.value)])}>
            <option value="">choose…</option>
            {field.choices.map((choice, at) => (
              <option key={at} value={String(at)}>
                {visibleText(choice.label.slice(0, 200))}
              </option>
            ))}
          </select>
        );
      case "boolean":
        return (
          <select {...common} value={text} onChange={(event) => onEntry(event.currentTarget.value)}>
            <option value="">choose…</option>
            <option value="true">yes</option>
            <option value="false">no</option>
          </select>
        );
      case "lines":
        return <textarea {...common} rows={4} value={text} onInput={(event) => onEntry(event.currentTarget.value)} />;
      default:
        return (
          <input
            {...common}
            {...((field.control === "number" ? { type: "text", inputMode: "decimal" } : { type: INPUT[field.control] ?? "text" }) as object)}
            autocomplete="off"
            value={text}
            onInput={(event) => onEntry(event.currentTarget.value)}
          />
        );
    }
  };
  return (
    <div class="answer-field" data-field={field.name}>
      {field.control === "choices" ? (
        <fieldset aria-describedby={`${id}-help ${id}-told`}>
          <legend>{label}</legend>
          {input()}
        </fieldset>
      ) : (
        <>
          <label for={id}>{label}</label>
          {input()}
        </>
      )}
      <p class="quiet" id={`${id}-help`}>
        {field.help !== "" && <Line text={field.help} max={500} />}
        {field.foreign && (
          <>
            Type <code>{<Line text={field.type} max={60} />}</code>: the harness judges what you enter.
          </>
        )}
      </p>
      <Told all={told} id={`${id}-told`} />
    </div>
  );
}

function Decisions(
  props: Common & { readonly approvals: readonly Approval[]; readonly onSubmit: (what: string, drafts: ReadonlyMap<string, Draft>) => void },
): JSX.Element {
  const { approvals, sending, told, again } = props;
  const [drafts, setDrafts] = useState<ReadonlyMap<string, Draft>>(() => new Map(approvals.map((one) => [one.tool_call_id, draftOf(one)])));
  const form = useRef<HTMLFormElement>(null);
  const draft = (one: Approval) => drafts.get(one.tool_call_id) ?? draftOf(one);
  const change = (one: Approval, changes: Partial<Draft>) => {
    setDrafts(new Map(drafts).set(one.tool_call_id, { ...draft(one), ...changes }));
    props.onTold(told.filter(({ about }) => about !== one.tool_call_id && about !== null));
  };
  const all = (verb: Verb) => {
    setDrafts(new Map(approvals.map((one) => [one.tool_call_id, one.allowed.includes(verb) ? { ...draft(one), verb } : draft(one)])));
    props.onTold([]);
  };
  const submit = () => {
    const faults = approvals.flatMap((one) => complaints(one, draft(one)));
    if (faults.length === 0) return props.onSubmit(`"decisions":${decisions(approvals.map((one) => [one, draft(one)] as const))}`, drafts);
    props.onTold(faults);
    const at = approvals.findIndex(({ tool_call_id }) => tool_call_id === faults[0]?.about);
    const call = form.current?.querySelectorAll<HTMLElement>("[data-call]")[at];
    call?.querySelector<HTMLElement>("textarea,input")?.focus();
  };
  return (
    <form
      ref={form}
      class="answer-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {approvals.length > 1 && (
        <div class="row-of-buttons">
          <button type="button" class="button small" onClick={() => all("approve")}>
            Approve all {approvals.length}
          </button>
          <button type="button" class="button small" onClick={() => all("reject")}>
            Reject all {approvals.length}
          </button>
        </div>
      )}
      {approvals.map((one) => (
        <CallDecision
          key={one.tool_call_id}
          approval={one}
          draft={draft(one)}
          told={told.filter(({ about }) => about === one.tool_call_id)}
          onChange={(changes) => change(one, changes)}
        />
      ))}
      <Told all={told.filter(({ about }) => about === null)} />
      <div class="row-of-buttons">
        <button type="submit" class="button primary" aria-disabled={sending}>
          {sending ? "Sending…" : again ? "Try again" : approvals.length === 1 ? "Send the decision" : `Send ${approvals.length} decisions`}
        </button>
      </div>
    </form>
  );
}

const VERBS: Readonly<Record<Verb, string>> = { approve: "Approve", edit: "Approve with other arguments", reject: "Reject" };

function CallDecision({ approval, draft, told, onChange }: { readonly approval: Approval; readonly draft: Draft; readonly told: readonly Complaint[]; readonly onChange: (changes: Partial<Draft>) => void }): JSX.Element {
  const id = useId();
  const editor = useRef<HTMLTextAreaElement>(null);
  const at = told.find((one) => one.at !== undefined)?.at;
  const original = useMemo(() => legible(approval.tool_args), [approval]);
  // The cursor goes where the fault is, once for each fault.
  const goTo = () => {
    if (at === undefined || editor.current === null) return;
    const offset = offsetOf(draft.edited, at);
    editor.current.focus();
    editor.current.setSelectionRange(offset, offset);
  };
  useEffect(goTo, [at?.line, at?.column]);
  return (
    <fieldset class="call-decision" data-call={approval.tool_call_id}>
      <legend>
        <code>{<Line text={approval.tool_name} max={120} />}</code> <Id id={approval.tool_call_id} />
      </legend>
      {draft.verb !== "edit" && <Json text={write(approval.tool_args)} label={`Arguments of ${approval.tool_name.slice(0, 80)}`} what="the arguments" />}
      <div class="verbs">
        {approval.allowed.map((verb) => (
          <label key={verb} class="check">
            <input
              type="radio"
              name={id}
              value={verb}
              checked={draft.verb === verb}
              aria-describedby={`${id}-told`}
              onChange={() => onChange({ verb })}
            />
            {VERBS[verb]}
          </label>
        ))}
      </div>
      {draft.verb === "edit" && (
        <div class="editor">
          <label for={`${id}-editor`}>
            Arguments to run with instead <span class="quiet">(JSON; they replace the original ones whole)</span>
          </label>
          <textarea
            ref={editor}
            id={`${id}-editor`}
            class="mono"
            dir="ltr"
            spellcheck={false}
            rows={Math.min(24, Math.max(4, draft.edited.split("\n", 30).length + 1))}
            value={draft.edited}
            aria-invalid={told.length > 0}
            aria-describedby={`${id}-told`}
            onInput={(event) => onChange({ edited: event.currentTarget.value })}
          />
          <div class="row-of-buttons">
            <CaretPlace editor={editor} text={draft.edited} />
            {at !== undefined && (
              <button type="button" class="button small" onClick={goTo}>
                Go to line {at.line}, column {at.column}
              </button>
            )}
            <button type="button" class="button small" disabled={draft.edited === original} onClick={() => onChange({ edited: original })}>
              Restore the original
            </button>
          </div>
          {told.length === 0 && isChanged(approval, draft) && draft.edited !== original && (
            <details>
              <summary>What you changed</summary>
              <Stretches all={diffText(original, draft.edited)} mono />
            </details>
          )}
        </div>
      )}
      {draft.verb === "reject" && (
        <div class="editor">
          <label for={`${id}-message`}>
            Why not? <span class="quiet">(the agent reads it; may be left empty)</span>
          </label>
          <textarea id={`${id}-message`} rows={3} value={draft.message} aria-describedby={`${id}-told`} onInput={(event) => onChange({ message: event.currentTarget.value })} />
        </div>
      )}
      <Told all={told} id={`${id}-told`} />
    </fieldset>
  );
}

/** Where the caret stands, so that a told line is found. */
function CaretPlace({ editor, text }: { readonly editor: { readonly current: HTMLTextAreaElement | null }; readonly text: string }): JSX.Element {
  const [caret, setCaret] = useState(0);
  useEffect(() => {
    const moved = () => {
      if (document.activeElement === editor.current && editor.current) setCaret(editor.current.selectionStart);
    };
    document.addEventListener("selectionchange", moved);
    return () => document.removeEventListener("selectionchange", moved);
  }, [editor]);
  const { line, column } = place(text, Math.min(caret, text.length));
  return (
    <span class="quiet number">
      line {line}, column {column}
    </span>
  );
}

function offsetOf(text: string, { line, column }: { readonly line: number; readonly column: number }): number {
  let begin = 0;
  for (let at = 1; at < line; at += 1) begin = text.indexOf("\n", begin) + 1;
  return begin + column - 1;
}
