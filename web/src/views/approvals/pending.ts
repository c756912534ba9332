// What waits for an answer, with its free-form values as they were written.
import { request } from "../../api";
import { type Exact, Numeral, member, parse, textOf } from "../../exact";
import { type Approval, VERBS, type Verb } from "./answer";
import { type Field, fields } from "./fields";

export interface Pending {
  readonly runId: string;
  readonly conversationId: string;
  readonly agentId: string;
  readonly interruptId: string;
  readonly revision: number;
  readonly expiresAt: string | null;
  /** Who asks, as the harness names it. */
  readonly asks: string;
  readonly question: Asked;
}

/** What is asked: a form, or decisions about calls. */
export type Asked =
  | { readonly kind: "form"; readonly prompt: string; readonly fields: readonly Field[] }
  | { readonly kind: "approvals"; readonly approvals: readonly Approval[] };

/** The data of an `interrupt.requested`. */
export function asked(data: Exact): Asked {
  const approvals = member(data, "tool_approvals");
  if (member(data, "interrupt_type") !== "tool_approval" || !Array.isArray(approvals)) {
    return { kind: "form", prompt: textOf(member(data, "prompt")), fields: fields(member(data, "fields")) };
  }
  return { kind: "approvals", approvals: approvals.map(approval) };
}

function approval(given: Exact): Approval {
  const allowed = member(given, "allowed_decisions");
  const named = Array.isArray(allowed) ? VERBS.filter((verb) => allowed.includes(verb)) : [];
  return {
    tool_call_id: textOf(member(given, "tool_call_id")),
    tool_name: textOf(member(given, "tool_name")),
    tool_args: member(given, "tool_args"),
    allowed: named.length === 0 ? VERBS : named,
  };
}

export function pendingOf(given: Exact): Pending {
  const data = member(given, "interrupt");
  const revision = member(given, "revision");
  const expires = member(given, "expires_at");
  return {
    runId: textOf(member(given, "run_id")),
    conversationId: textOf(member(given, "conversation_id")),
    agentId: textOf(member(given, "agent_id")),
    interruptId: textOf(member(data, "interrupt_id")),
    revision: revision instanceof Numeral ? Number(revision.raw) : 0,
    expiresAt: typeof expires === "string" ? expires : null,
    asks: textOf(member(data, "agent_id")),
    question: asked(data),
  };
}

/** A JSON answer of the gateway, nothing of it rounded. */
export async function ask(path: string, signal: AbortSignal | null = null): Promise<Exact> {
  const parsed = parse(await (await request(path, { signal })).text());
  if (!parsed.ok) throw new Error(`the gateway's answer is no JSON: ${parsed.fault.message}`);
  return parsed.value;
}

export async function allPending(signal: AbortSignal): Promise<Pending[]> {
  const all = member(await ask("/api/v1/interrupts?status=pending", signal), "interrupts");
  // Ids of runs grow with time: who has waited longest comes first.
  return Array.isArray(all) ? all.map(pendingOf).sort((a, b) => (a.runId < b.runId ? -1 : a.runId > b.runId ? 1 : 0)) : [];
}

/** Sends an answer; `what` is one member of the body with its value as JSON text. */
export async function send(pending: Pick<Pending, "runId" | "interruptId" | "revision">, key: string, what: string): Promise<Exact> {
  const head = JSON.stringify({ interrupt_id: pending.interruptId, revision: pending.revision, idempotency_key: key });
  const response = await request(`/api/v1/runs/${encodeURIComponent(pending.runId)}/resume`, {
    method: "POST",
    text: { type: "application/json", text: `${head.slice(0, -1)},${what}}` },
  });
  const parsed = parse(await response.text());
  return parsed.ok ? parsed.value : null;
}

/** What was decided about an interrupt, and how it stands. */
export interface Settled {
  readonly status: string;
  readonly resumedBy: string | null;
  readonly by: string;
  readonly at: string;
  readonly route: string;
  readonly decisions: readonly { readonly callId: string; readonly verb: Verb | string; readonly args: Exact; readonly message: string }[];
  readonly values: Exact;
  readonly dismissed: boolean;
  /** Whether there is a record of an answer. */
  readonly answered: boolean;
}

export function settledOf(run: Exact): Settled {
  const interrupt = member(run, "interrupt");
  const record = member(interrupt, "decision");
  const decisions = member(record, "decisions");
  return {
    status: textOf(member(interrupt, "status")),
    resumedBy: textOf(member(run, "resumed_by")) || null,
    by: textOf(member(record, "answered_by")),
    at: textOf(member(record, "answered_at")),
    route: textOf(member(record, "route")),
    decisions: Array.isArray(decisions)
      ? decisions.map((one) => ({
          callId: textOf(member(one, "tool_call_id")),
          verb: textOf(member(one, "decision")),
          args: member(one, "edited_args"),
          message: textOf(member(one, "message")),
        }))
      : [],
    values: member(record, "values"),
    dismissed: member(record, "dismissed") === true,
    answered: record !== null,
  };
}

export async function settled(runId: string, signal: AbortSignal | null = null): Promise<Settled> {
  return settledOf(await ask(`/api/v1/runs/${encodeURIComponent(runId)}`, signal));
}
