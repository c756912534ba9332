// What a dropped file is, before the gateway judges it: canonical JSONL, or something that looks like it. Pure but for
// reading the file.
import { SseParser } from "../../sse";

/** As much as the gateway takes. */
export const MAX_FILE = 64 * 1024 * 1024;

export type Kind =
  /** Goes to the gateway as it is. */
  | "jsonl"
  /** Server-sent events whose data are canonical events: their data is what is judged. */
  | "canonical-sse"
  /** Frames of another format: what a client received. */
  | "sse"
  /** Lines of a worker: what a harness said. */
  | "worker"
  | "json"
  | "binary"
  | "empty"
  | "unknown";

/** What a file is, by its beginning. */
export function kindOf(head: string): Kind {
  if (head.includes("\0")) return "binary";
  const lines = head.split(/\r?\n/).filter((line) => line.trim() !== "");
  const first = lines[0]?.trim();
  if (first === undefined) return "empty";
  if (/^(?:data|event|id|retry)\s*:|^:/.test(first)) {
    const data = lines.find((line) => line.startsWith("data:"));
    return data !== undefined && isEnvelope(data.slice(5)) ? "canonical-sse" : "sse";
  }
  if (isEnvelope(first)) return "jsonl";
  if (/^\{\s*"kind"\s*:\s*"(?:hello|begin|chunk|end|cancelled|error)"/.test(first)) return "worker";
  if (first.startsWith("{") && (first.endsWith("}") || first.length > 2000)) return "jsonl";
  return first.startsWith("{") || first.startsWith("[") ? "json" : "unknown";
}

/** Looks like an event: the beginning may end in the middle of a line. */
function isEnvelope(line: string): boolean {
  return /^\s*\{/.test(line) && /"version"\s*:\s*1\b/.test(line.slice(0, 4000)) && /"(?:type|sequence)"\s*:/.test(line.slice(0, 4000));
}

/** Why a file of this kind is not judged, and what to do; null where it is. */
export function refusal(kind: Kind): { title: string; text: string } | null {
  switch (kind) {
    case "jsonl":
    case "canonical-sse":
      return null;
    case "sse":
      return {
        title: "This is a capture of server-sent events",
        text: "These are frames of a client format (custom, agui, ui-message…). The rules are about canonical events, which these frames no longer hold. Export the run instead: causeway runs export ID, or capture it with protocol=canonical.",
      };
    case "worker":
      return {
        title: "This is a recording of a worker",
        text: "It holds what a harness said, not canonical events. Translate it first: causeway adapt --from HARNESS FILE > events.jsonl",
      };
    case "json":
      return { title: "This is one JSON document over several lines", text: "What is judged is JSONL: one event a line." };
    case "binary":
      return { title: "This is no text", text: "What is judged is JSONL in UTF-8: one event a line." };
    case "empty":
      return { title: "The file is empty", text: "What is judged is JSONL: one event a line." };
    case "unknown":
      return { title: "This is no JSONL", text: "What is judged are canonical events, one JSON object a line, as causeway runs export writes them." };
  }
}

/** The data of server-sent events as JSONL, and on which line of the file each stood. */
export function unwrapped(sse: string): { jsonl: string; lines: number[] } {
  const parser = new SseParser();
  const data: string[] = [];
  const lines: number[] = [];
  let number = 0;
  let begun = 0;
  for (const line of `${sse}\n\n`.split("\n")) {
    number += 1;
    if (line.startsWith("data:") && begun === 0) begun = number;
    for (const frame of parser.push(`${line}\n`)) {
      // A line break in the data would be two lines of JSONL; in JSON it stands only between tokens.
      data.push(frame.data.replaceAll("\n", " "));
      lines.push(begun);
      begun = 0;
    }
    if (line.trim() === "") begun = 0;
  }
  return { jsonl: data.map((one) => `${one}\n`).join(""), lines };
}

/** Line `wanted` (from 1) of a file, read no further than that and cut where it is long; null where there is none. */
export async function lineOf(file: Blob, wanted: number, longest = 100_000): Promise<string | null> {
  const reader = file.stream().getReader();
  const decoder = new TextDecoder();
  let line = 1;
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      let rest = done ? decoder.decode() : decoder.decode(value, { stream: true });
      for (let at = rest.indexOf("\n"); at !== -1; at = rest.indexOf("\n")) {
        if (line === wanted) return (text + rest.slice(0, at)).slice(0, longest);
        line += 1;
        rest = rest.slice(at + 1);
      }
      if (line === wanted && text.length < longest) text += rest;
      if (done) return line === wanted && text !== "" ? text.slice(0, longest) : null;
    }
  } finally {
    void reader.cancel();
  }
}
