// The form of an interrupt: a control for each field, faults told at their fields.
import type { JSX } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { Block, Line, visibleText } from "../../components/text";
import { write } from "../../exact";
import type { Complaint } from "./answer";
import { type Entry, type Field, fault, values } from "./fields";
import { type Common, Told } from "./told";

export function FormInput(props: Common & { readonly prompt: string; readonly fields: readonly Field[]; readonly onSubmit: (what: string) => void }): JSX.Element {
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
