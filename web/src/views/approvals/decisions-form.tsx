// Decisions about calls: approve, approve with other arguments, reject with a message, each call for itself.
import type { JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Json } from "../../components/json";
import { Id, Line } from "../../components/text";
import { legible, place, write } from "../../exact";
import { diffText } from "../compare/diff";
import { Stretches } from "../compare/stretches";
import { type Approval, type Complaint, type Draft, type Verb, complaints, decisions, draftOf, isChanged } from "./answer";
import { type Common, Told } from "./told";

export function Decisions(
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
  // The cursor goes where the fault is, once for each fault; with the words that tell it, not after somebody typed on.
  const goTo = () => {
    if (at === undefined || editor.current === null) return;
    const offset = offsetOf(draft.edited, at);
    editor.current.focus();
    editor.current.setSelectionRange(offset, offset);
  };
  useLayoutEffect(goTo, [at?.line, at?.column]);
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
          {draft.edited.includes("[redacted]") && (
            <p class="quiet">
              A place that still says <code>[redacted]</code> keeps its original value.
            </p>
          )}
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
