import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { ago, bytes, duration, moment } from "../format";

/** A clock that all times share; it ticks each second while the page is seen. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** When it was, as a distance to now; whole in the title. */
export function When({ iso }: { readonly iso: string }): JSX.Element {
  return (
    <time dateTime={iso} title={`${moment(iso)} (${iso})`}>
      {ago(iso, now.value)}
    </time>
  );
}

/** From one time to another, or to now. */
export function Duration({ from, to }: { readonly from: string; readonly to: string | null }): JSX.Element {
  const end = to === null ? now.value : Date.parse(to);
  return <span class="number">{duration(Math.max(0, end - Date.parse(from)))}</span>;
}

export function Bytes({ count }: { readonly count: number }): JSX.Element {
  return (
    <span class="number" title={`${count} bytes`}>
      {bytes(count)}
    </span>
  );
}
