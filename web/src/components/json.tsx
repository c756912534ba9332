// JSON as it was written: numbers keep their spelling and members their order, since nothing is parsed into values.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count } from "../format";
import { copy } from "../toast";
import { visible } from "./text";

type Kind = "key" | "string" | "number" | "word" | "punctuation";
interface Token {
  readonly kind: Kind;
  readonly text: string;
}
interface JsonLine {
  readonly indent: number;
  readonly tokens: readonly Token[];
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[-0-9.eE+]+|true|false|null|[[\]{},:]/gs;

/** Lines of the text as an indented tree; `null` when it is no JSON. */
export function lines(text: string): JsonLine[] | null {
  const all: JsonLine[] = [];
  let indent = 0;
  let tokens: Token[] = [];
  let until = 0;
  const flush = () => {
    if (tokens.length > 0) all.push({ indent, tokens });
    tokens = [];
  };
  const put = (kind: Kind, token: string) => tokens.push({ kind, text: token });
  const matches = text.matchAll(TOKEN);
  let previous = "";
  for (const match of matches) {
    if (text.slice(until, match.index).trim() !== "") return null;
    const token = match[0];
    until = match.index + token.length;
    const first = token[0] as string;
    if (first === "{" || first === "[") {
      put("punctuation", token);
      flush();
      indent += 1;
    } else if (first === "}" || first === "]") {
      if (previous === "{" || previous === "[") {
        // An empty one stays on its line.
        const opened = all.pop();
        indent -= 1;
        tokens = [...(opened?.tokens ?? [])];
        put("punctuation", token);
      } else {
        flush();
        indent -= 1;
        put("punctuation", token);
      }
      if (indent < 0) return null;
    } else if (first === ",") {
      put("punctuation", token);
      flush();
    } else if (first === ":") {
      const key = tokens.at(-1);
      if (key?.kind === "string") tokens[tokens.length - 1] = { kind: "key", text: key.text };
      put("punctuation", ": ");
    } else put(first === '"' ? "string" : /[a-z]/.test(first) ? "word" : "number", token);
    previous = token;
  }
  if (indent !== 0 || text.slice(until).trim() !== "") return null;
  flush();
  return all;
}

const LINES = 300;
const LONG = 2000;

function Value({ token }: { readonly token: Token }): JSX.Element {
  const [whole, setWhole] = useState(false);
  if (token.text.length <= LONG || whole) return <span class={`json-${token.kind}`}>{visible(token.text)}</span>;
  return (
    <span class={`json-${token.kind}`}>
      {visible(token.text.slice(0, LONG))}
      <button type="button" class="link" onClick={() => setWhole(true)}>
        {count(token.text.length - LONG)} more characters
      </button>
    </span>
  );
}

export function Json({ text, label, what = "the JSON" }: { readonly text: string; readonly label: string; readonly what?: string }): JSX.Element {
  const all = useMemo(() => lines(text), [text]);
  const [shown, setShown] = useState(LINES);
  return (
    <div class="json" role="group" aria-label={label}>
      <button type="button" class="button small json-copy" onClick={() => void copy(text, what)}>
        Copy
      </button>
      <div class="json-body" tabIndex={0} role="region" aria-label={`${label}, text`}>
        {all === null ? (
          <div class="json-line">{visible(text.slice(0, 60_000))}</div>
        ) : (
          all.slice(0, shown).map((line, index) => (
            <div key={index} class="json-line" style={{ paddingLeft: `${line.indent * 1.25}em` }}>
              <bdi>
                {line.tokens.map((token, place) => (
                  <Value key={place} token={token} />
                ))}
              </bdi>
            </div>
          ))
        )}
        {all !== null && all.length > shown && (
          <button type="button" class="link" onClick={() => setShown(shown + 10 * LINES)}>
            {count(all.length - shown)} more lines
          </button>
        )}
      </div>
    </div>
  );
}
