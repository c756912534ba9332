// Text that somebody else wrote: never markup, its own direction, control and bidirectional marks made visible, and no more
// of it in the page than was asked for.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { count } from "../format";

// C0 but tab and line breaks, DEL and C1, bidirectional controls, zero-width marks, line separators.
const SPECIAL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff]/g;

/** `text` with what cannot be seen written as its code. */
export function visible(text: string): ComponentChildren {
  // `search` begins at the beginning; `test` would leave its place for `matchAll` to begin at.
  if (text.search(SPECIAL) < 0) return text;
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const match of text.matchAll(SPECIAL)) {
    if (match[0] === "\r" && text[match.index + 1] === "\n") continue;
    if (match.index > from) parts.push(text.slice(from, match.index));
    const code = match[0].charCodeAt(0);
    // The C0 controls have pictures of their own.
    const sign = code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(
      <span class="mark" title={`U+${code.toString(16).toUpperCase().padStart(4, "0")}`}>
        {sign}
      </span>,
    );
    from = match.index + 1;
  }
  parts.push(text.slice(from));
  return parts;
}

/** The same as plain text, for titles and labels. */
export function visibleText(text: string): string {
  return text.replace(SPECIAL, (mark) => {
    const code = mark.charCodeAt(0);
    if (mark === "\r") return " ";
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** On one line, cut by the space there is. */
export function Line({ text, max = 300, title = true }: { readonly text: string; readonly max?: number; readonly title?: boolean }): JSX.Element {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text;
  return (
    <bdi class="line" title={title && text.length > 24 ? visibleText(text.slice(0, 600)) : undefined}>
      {visible(cut.replace(/[\r\n\t]+/g, " "))}
    </bdi>
  );
}

const FIRST = 4000;
const MORE = 60_000;

/** A block that keeps its line breaks; long text comes in portions. */
export function Block({ text, mono = false, first = FIRST }: { readonly text: string; readonly mono?: boolean; readonly first?: number }): JSX.Element {
  const [shown, setShown] = useState(first);
  const rest = text.length - shown;
  return (
    <div class={mono ? "block mono" : "block"} dir="auto">
      {visible(rest > 0 ? text.slice(0, shown) : text)}
      {rest > 0 && (
        <span class="more">
          <button type="button" class="link" onClick={() => setShown(shown + MORE)}>
            {count(rest)} more characters
          </button>
        </span>
      )}
    </div>
  );
}

/** An opaque id: whole in the title, both ends in the text. */
export function Id({ id, length = 16 }: { readonly id: string; readonly length?: number }): JSX.Element {
  const text = id.length <= length ? id : `${id.slice(0, length - 7)}…${id.slice(-6)}`;
  return (
    <bdi class="id" title={visibleText(id.slice(0, 300))}>
      {visible(text)}
    </bdi>
  );
}
