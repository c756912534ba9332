// A file against the rules: dropped anywhere into the page, judged by the gateway as `causeway check` would. And the rules.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type CheckReport, api } from "../../api";
import { Badge } from "../../components/badge";
import { Json } from "../../components/json";
import { Empty, Failure, Loading } from "../../components/states";
import { Block, Line, visible } from "../../components/text";
import { locate, place as placeOf } from "../../exact";
import { bytes, plural } from "../../format";
import { navigate, route } from "../../router";
import type { TopView } from "../registry";
import { type Found, grouped } from "../rules/findings";
import { Explained, GroupCard, RulesFailed, useRules } from "../rules/rules";
import { type Kind, MAX_FILE, kindOf, lineOf, refusal, unwrapped } from "./file";
import "./check.css";

type Boundary = "commit" | "yield";
type Thread = "durable" | "ephemeral";

interface Judged {
  readonly file: File;
  /** What was sent. */
  readonly stream: Blob;
  readonly kind: Kind;
  /** Of a capture of frames: the line of the file for each line that was sent. */
  readonly lines: readonly number[] | null;
}

/** The file that was dropped or chosen last; it stays while other views are looked at. */
const dropped = signal<File | null>(null);

addEventListener("dragover", (event) => {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
});
addEventListener("drop", (event) => {
  const file = event.dataTransfer?.files[0];
  if (file === undefined) return;
  event.preventDefault();
  dropped.value = file;
  if (route.peek().path[0] !== "check") navigate("#/check");
});

type State =
  | { readonly at: "nothing" }
  | { readonly at: "reading" }
  | { readonly at: "refused"; readonly file: File; readonly title: string; readonly text: string }
  | { readonly at: "failed"; readonly file: File; readonly error: unknown }
  | { readonly at: "judged"; readonly judged: Judged; readonly report: CheckReport };

async function judge(file: File, boundary: Boundary, thread: Thread): Promise<State> {
  if (file.size > MAX_FILE) {
    return { at: "refused", file, title: `The file has ${bytes(file.size)}`, text: "At most 64 MiB are judged here; causeway check takes files of any size." };
  }
  try {
    const kind = kindOf(await file.slice(0, 65_536).text());
    const why = refusal(kind);
    if (why !== null) return { at: "refused", file, ...why };
    const frames = kind === "canonical-sse" ? unwrapped(await file.text()) : null;
    const stream = frames === null ? file : new Blob([frames.jsonl]);
    return { at: "judged", judged: { file, stream, kind, lines: frames?.lines ?? null }, report: await api.check(stream, boundary, thread) };
  } catch (error) {
    return { at: "failed", file, error };
  }
}

function Check(): JSX.Element {
  const rules = useRules();
  const file = dropped.value;
  const [boundary, setBoundary] = useState<Boundary>("commit");
  const [thread, setThread] = useState<Thread>("durable");
  const [state, setState] = useState<State>({ at: "nothing" });
  const [round, setRound] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (file === null) return;
    let on = true;
    setState({ at: "reading" });
    void judge(file, boundary, thread).then((found) => on && setState(found));
    return () => {
      on = false;
    };
  }, [file, boundary, thread, round]);

  return (
    <div class="page">
      <div class="bar">
        <h1>Check a file</h1>
        <label class="field">
          <span>As</span>
          <select value={boundary} onChange={(event) => setBoundary(event.currentTarget.value as Boundary)}>
            <option value="commit">the log holds it (commit)</option>
            <option value="yield">an adapter yields it (yield)</option>
          </select>
        </label>
        <label class="field">
          <span>Thread</span>
          <select value={thread} onChange={(event) => setThread(event.currentTarget.value as Thread)}>
            <option value="durable">durable</option>
            <option value="ephemeral">ephemeral</option>
          </select>
        </label>
      </div>
      <div class="check-scroll">
        <div class="drop">
          <p>Drop a file of canonical events here (JSONL, or a capture of the canonical stream), or</p>
          <button type="button" class="button" onClick={() => input.current?.click()}>
            Choose a file
          </button>
          <input
            ref={input}
            type="file"
            class="visually-hidden"
            aria-label="File to check"
            tabIndex={-1}
            onChange={(event) => {
              dropped.value = event.currentTarget.files?.[0] ?? null;
              event.currentTarget.value = "";
            }}
          />
        </div>
        <div role="status" class="verdict">
          {state.at === "reading" && <Loading what="the verdict" />}
          {state.at === "refused" && (
            <Empty title={state.title}>
              <p>
                <Line text={state.file.name} max={120} /> was not judged.
              </p>
              <p>{state.text}</p>
            </Empty>
          )}
          {state.at === "failed" && <Failure error={state.error} retry={() => setRound(round + 1)} />}
          {state.at === "judged" && <Verdict judged={state.judged} report={state.report} />}
        </div>
        {state.at === "judged" &&
          grouped(state.report, rules).map((group) => (
            <GroupCard key={`${group.broken} ${group.id}`} group={group} place={(found) => <Place found={found} judged={state.judged} />} />
          ))}
        <RulesFailed />
        {rules.size > 0 && (
          <section class="all-rules" aria-label="All rules">
            <h2>The rules</h2>
            {[...rules.values()].map((rule) => (
              <section key={rule.id} class="rule">
                <h3>
                  <code>{rule.id}</code> {rule.title} {rule.kind === "warning" && <span class="quiet">(warning)</span>}
                </h3>
                <Explained rule={rule} />
              </section>
            ))}
          </section>
        )}
      </div>
    </div>
  );
}

function Verdict({ judged, report }: { readonly judged: Judged; readonly report: CheckReport }): JSX.Element {
  return (
    <div class="verdict-head">
      <Badge tone={report.valid ? "ok" : "bad"}>{report.valid ? "valid" : "not valid"}</Badge>
      <Line text={judged.file.name} max={120} />
      <span class="quiet">
        {plural(report.events, "event")}, {bytes(judged.file.size)}, {plural(report.violations.length, "violation")}, {plural(report.warnings.length, "warning")}
        {judged.kind === "canonical-sse" && ", out of a capture of the canonical stream"}
      </span>
      {report.notes.map((note) => (
        <p key={note} class="quiet verdict-note">
          {visible(note)}
        </p>
      ))}
    </div>
  );
}

/** Line and pointer, and on demand the line itself with the place in it. */
function Place({ found, judged }: { readonly found: Found; readonly judged: Judged }): JSX.Element {
  const [line, setLine] = useState<string | null | undefined>(undefined);
  const number = found.line === null ? null : judged.lines === null ? found.line : (judged.lines[found.line - 1] ?? found.line);
  const toggle = () => {
    if (line !== undefined) setLine(undefined);
    else if (found.line !== null) void lineOf(judged.stream, found.line).then(setLine);
  };
  const span = typeof line === "string" && found.pointer !== null ? locate(line, found.pointer) : null;
  return (
    <>
      {number === null ? (
        <span class="quiet">at the end</span>
      ) : (
        <button type="button" class="link" aria-expanded={line !== undefined} onClick={toggle}>
          line {number}
        </button>
      )}
      {found.sequence !== null && <span class="quiet"> #{found.sequence}</span>} {found.pointer !== null && <code>{visible(found.pointer)}</code>}
      {line === null && <p class="quiet">The file ends before it.</p>}
      {typeof line === "string" && (
        <div class="finding-line">
          {span !== null && line.length <= 20_000 ? (
            <>
              <p class="quiet">column {placeOf(line, span.start).column}:</p>
              <div class="stream mono" dir="ltr" role="region" tabIndex={0} aria-label={`Line ${number}`}>
                {visible(line.slice(0, span.start))}
                <mark>{visible(line.slice(span.start, span.end))}</mark>
                {visible(line.slice(span.end))}
              </div>
            </>
          ) : line.length <= 20_000 ? (
            <Json text={line} label={`Line ${number}`} what="the line" />
          ) : (
            <Block text={line} mono first={2000} />
          )}
        </div>
      )}
    </>
  );
}

export const view: TopView = { scope: "top", name: "check", title: "Check", order: 40, component: Check };
