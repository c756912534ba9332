// A rule on the page: title, reason, the accepted and the rejected form; and what was found against it.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { request } from "../../api";
import { Badge } from "../../components/badge";
import { Failure } from "../../components/states";
import { visible } from "../../components/text";
import { plural } from "../../format";
import { type Found, type Group, type Rule, example } from "./findings";
import "./rules.css";

/** All rules, asked for once a page. */
export const rules = signal<ReadonlyMap<string, Rule> | null>(null);
const failed = signal<unknown>(null);
let asking = false;

export async function loadRules(): Promise<void> {
  if (rules.peek() !== null || asking) return;
  asking = true;
  failed.value = null;
  try {
    const answer = (await (await request("/api/v1/rules")).json()) as { rules: Rule[] };
    rules.value = new Map(answer.rules.map((rule) => [rule.id, rule]));
  } catch (error) {
    failed.value = error;
  } finally {
    asking = false;
  }
}

export function useRules(): ReadonlyMap<string, Rule> {
  useEffect(() => void loadRules(), []);
  return rules.value ?? NONE;
}

const NONE: ReadonlyMap<string, Rule> = new Map();

export function RulesFailed(): JSX.Element | null {
  return failed.value === null ? null : <Failure error={failed.value} retry={() => void loadRules()} />;
}

/** The findings of one rule, and the rule itself. */
export function GroupCard({ group, place }: { readonly group: Group; readonly place: (found: Found) => ComponentChildren }): JSX.Element {
  const [shown, setShown] = useState(FIRST);
  return (
    <section class={`finding ${group.broken ? "is-broken" : ""}`} aria-label={`${group.id}: ${plural(group.found.length, "finding")}`}>
      <h2>
        <Badge tone={group.broken ? "bad" : "warn"}>{group.broken ? "refused" : "warning"}</Badge> <code>{group.id}</code> {group.rule?.title ?? ""}
      </h2>
      <ul class="finding-list">
        {group.found.slice(0, shown).map((found, at) => (
          <li key={at}>
            <span class="finding-place">{place(found)}</span>
            <span class="finding-message">{visible(found.message.slice(0, 2000))}</span>
          </li>
        ))}
      </ul>
      {group.found.length > shown && (
        <button type="button" class="link" onClick={() => setShown(shown + 10 * FIRST)}>
          {plural(group.found.length - shown, "more finding")}
        </button>
      )}
      {group.rule !== null && <Explained rule={group.rule} />}
    </section>
  );
}

const FIRST = 20;

/** Why there is such a rule, and what is right. */
export function Explained({ rule, open = false }: { readonly rule: Rule; readonly open?: boolean }): JSX.Element {
  const [shown, setShown] = useState(open);
  return (
    <details class="explained" open={open} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>{rule.kind === "rule" ? "Why, and what is accepted" : "Why a client may trip over it"}</summary>
      {shown && (
        <>
          {rule.explanation.split("\n").map((paragraph) => (
            <p key={paragraph}>{paragraph}</p>
          ))}
          <h3>{rule.kind === "rule" ? "Accepted" : "Accepted, with this warning"}</h3>
          <Stream text={rule.accepted} label={`${rule.id}: accepted stream`} />
          {rule.rejected !== null && (
            <>
              <h3>Rejected</h3>
              <Stream text={rule.rejected} label={`${rule.id}: rejected stream`} />
            </>
          )}
        </>
      )}
    </details>
  );
}

function Stream({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  const lines = example(text);
  const total = text.trimEnd().split("\n").length;
  return (
    <div class="stream mono" role="region" tabIndex={0} aria-label={label} dir="ltr">
      {lines.map((line, at) => (
        <div key={at}>
          {visible(line.text)}
          {line.cut && " …"}
        </div>
      ))}
      {total > lines.length && <div class="quiet">… {plural(total - lines.length, "line")} like these</div>}
    </div>
  );
}
