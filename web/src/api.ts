// The public API, typed. Nothing here that another client could not do too (docs/http.md).
import { signal } from "@preact/signals";

export type Status = "running" | "finished" | "interrupted" | "cancelled" | "error" | "uncertain";
export const STATUSES: readonly Status[] = ["running", "finished", "interrupted", "cancelled", "error", "uncertain"];

export interface Usage {
  readonly input_tokens?: number | null;
  readonly output_tokens?: number | null;
  readonly cached_input_tokens?: number | null;
  readonly cost?: number | null;
  readonly currency?: string | null;
  readonly final?: boolean;
}

export interface RunError {
  readonly code: string;
  readonly message: string;
  readonly retryable?: boolean;
}

export type Decision = "approve" | "edit" | "reject";

export interface DecisionOf {
  readonly tool_call_id: string;
  readonly decision: Decision;
  readonly edited_args?: unknown;
  readonly message?: string;
}

export interface RunInterrupt {
  readonly interrupt_id: string;
  readonly interrupt_type: "form_input" | "tool_approval";
  readonly revision: number;
  readonly status: string;
  readonly expires_at: string | null;
  readonly decision?: unknown;
}

export interface Run {
  readonly run_id: string;
  readonly conversation_id: string;
  readonly agent_id: string;
  readonly harness_id: string;
  readonly status: Status;
  readonly created_at: string;
  readonly ended_at: string | null;
  readonly last_sequence: number;
  readonly request: { readonly message?: string; readonly [key: string]: unknown };
  readonly error?: RunError;
  readonly uncertain?: { readonly cause: string | null; readonly happened: string; readonly next: string };
  readonly interrupt?: RunInterrupt;
  readonly resumed_from?: string;
  readonly resumed_by?: string;
  readonly seed?: unknown;
  readonly usage?: Usage;
}

export interface RunFilter {
  readonly status?: string | undefined;
  readonly agent_id?: string | undefined;
  readonly conversation_id?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

export interface Violation {
  readonly index: number | null;
  readonly line: number | null;
  readonly sequence: number | null;
  readonly rule: string;
  readonly type?: string | null;
  readonly message: string;
  readonly pointer: string | null;
}

export interface LintWarning {
  readonly index: number | null;
  readonly line: number | null;
  readonly sequence: number | null;
  readonly code: string;
  readonly message: string;
  readonly pointer: string | null;
}

export interface Findings {
  readonly violations: readonly Violation[];
  readonly warnings: readonly LintWarning[];
}

export interface CheckReport extends Findings {
  readonly file: string;
  readonly events: number;
  readonly valid: boolean;
  readonly notes: readonly string[];
}

export interface FormField {
  readonly field_name: string;
  readonly field_type: string;
  readonly required?: boolean;
  readonly [key: string]: unknown;
}

export interface ToolApproval {
  readonly tool_call_id: string;
  readonly tool_name: string;
  readonly tool_args: Readonly<Record<string, unknown>>;
  readonly allowed_decisions: readonly Decision[];
}

export type InterruptRequest =
  | {
      readonly interrupt_id: string;
      readonly interrupt_type: "form_input";
      readonly agent_id: string;
      readonly prompt: string;
      readonly fields: readonly FormField[];
    }
  | {
      readonly interrupt_id: string;
      readonly interrupt_type: "tool_approval";
      readonly agent_id: string;
      readonly tool_approvals: readonly ToolApproval[];
    };

export interface PendingInterrupt {
  readonly run_id: string;
  readonly conversation_id: string;
  readonly agent_id: string;
  readonly revision: number;
  readonly expires_at: string | null;
  readonly interrupt: InterruptRequest;
}

export interface Agent {
  readonly agent_id: string;
  readonly name: string;
  readonly harness_id: string;
  readonly thread: "durable" | "ephemeral";
  readonly driver: string;
  readonly on_disconnect: string;
  readonly deadline_seconds: number;
  readonly idle_timeout_seconds: number;
  readonly capabilities?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly interrupt_id: string;
  readonly revision: number;
  readonly idempotency_key?: string;
  readonly decisions?: readonly DecisionOf[];
  readonly values?: Readonly<Record<string, unknown>>;
  readonly dismissed?: true;
}

/** A refusal of the gateway, or no answer at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** Kept in the tab only. */
const TOKEN = "causeway-token";
function storedToken(): string | null {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}
let token: string | null = storedToken();

/** The gateway wants a token that it has not got, or not a good one. */
export const tokenWanted = signal(false);
/** The prompt was put away: it does not come back by itself. */
export const signInDeclined = signal(false);
/** Counts sign-ins: what was refused before is asked again. */
export const session = signal(0);

export function signIn(given: string | null): void {
  token = given === "" ? null : given;
  try {
    if (token === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, token);
  } catch {
    // it holds until the page is closed, then
  }
  tokenWanted.value = false;
  signInDeclined.value = false;
  session.value += 1;
}

export function declineSignIn(): void {
  tokenWanted.value = false;
  signInDeclined.value = true;
}

export function hasToken(): boolean {
  return token !== null;
}

export interface Options {
  readonly method?: string;
  readonly body?: unknown;
  readonly text?: { readonly type: string; readonly text: string | Blob };
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | null;
}

/** The answer as it came; refusals become {@link ApiError}. */
export async function request(path: string, options: Options = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  const init: RequestInit = {
    method: options.method ?? "GET",
    headers,
    signal: options.signal ?? null,
    cache: "no-store",
    credentials: "same-origin",
    redirect: "error",
  };
  if (options.text) {
    headers.set("content-type", options.text.type);
    init.body = options.text.text;
  } else if (options.body !== undefined) {
    headers.set("content-type", "application/json");
    init.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The gateway does not answer", null);
  }
  if (response.ok) return response;
  if (response.status === 401 && !signInDeclined.peek()) tokenWanted.value = true;
  throw await refusal(response);
}

async function refusal(response: Response): Promise<ApiError> {
  let code = `http_${response.status}`;
  let message = response.statusText || `The gateway answered ${response.status}`;
  let requestId = response.headers.get("x-request-id");
  try {
    const body = (await response.json()) as { error?: { code?: unknown; message?: unknown; request_id?: unknown } };
    if (typeof body.error?.code === "string") code = body.error.code;
    if (typeof body.error?.message === "string") message = body.error.message;
    if (typeof body.error?.request_id === "string") requestId = body.error.request_id;
  } catch {
    // a proxy's page, say: the status has to do
  }
  return new ApiError(response.status, code, message, requestId);
}

async function json<T>(path: string, options?: Options): Promise<T> {
  return (await (await request(path, options)).json()) as T;
}

function query(all: object): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(all)) {
    if (value !== undefined && value !== null && value !== "") parameters.set(key, String(value));
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

const of = (id: string): string => `/api/v1/runs/${encodeURIComponent(id)}`;

export const api = {
  runs: (filter: RunFilter, signal?: AbortSignal) =>
    json<{ runs: Run[]; next: string | null }>(`/api/v1/runs${query(filter)}`, { signal: signal ?? null }),
  run: (id: string, signal?: AbortSignal) => json<Run>(of(id), { signal: signal ?? null }),
  findings: (id: string, signal?: AbortSignal) => json<Findings>(`${of(id)}/findings`, { signal: signal ?? null }),
  /** The stream of a run; `null` when nothing is left behind `after`. */
  stream: async (id: string, protocol: string, after: number | null, signal: AbortSignal): Promise<Response | null> => {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (after !== null) headers["last-event-id"] = String(after);
    const response = await request(`${of(id)}/stream${query({ protocol })}`, { headers, signal });
    return response.status === 204 ? null : response;
  },
  result: async (id: string, reference: string): Promise<string> =>
    (await request(`${of(id)}/results/${encodeURIComponent(reference)}`)).text(),
  start: (body: { agent_id: string; conversation_id: string; message: string; idempotency_key?: string }) =>
    json<Run>("/api/v1/runs", { method: "POST", body }),
  cancel: (id: string) =>
    json<{ cancelled: boolean; interrupt_voided?: boolean }>(`${of(id)}/cancel`, { method: "POST", body: {} }),
  resume: (id: string, answer: Answer) => json<Run>(`${of(id)}/resume`, { method: "POST", body: answer }),
  interrupts: (signal?: AbortSignal) =>
    json<{ interrupts: PendingInterrupt[] }>("/api/v1/interrupts?status=pending", { signal: signal ?? null }),
  agents: (signal?: AbortSignal) => json<{ agents: Agent[] }>("/api/v1/agents", { signal: signal ?? null }),
  check: (stream: string | Blob, boundary: "commit" | "yield", thread: "durable" | "ephemeral") =>
    json<CheckReport>(`/api/v1/check${query({ boundary, thread })}`, {
      method: "POST",
      text: { type: "application/x-ndjson", text: stream },
    }),
};
