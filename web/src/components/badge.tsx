import type { ComponentChildren, JSX } from "preact";
import type { Status } from "../api";
import { Shape, type Tone } from "./shape";

const STATUS: Readonly<Record<Status, Tone>> = {
  running: "running",
  finished: "ok",
  interrupted: "waiting",
  cancelled: "stopped",
  error: "bad",
  uncertain: "unsure",
};

export function statusTone(status: Status): Tone {
  return STATUS[status] ?? "none";
}

/** A word with the shape and the colour of its tone. */
export function Badge({ tone, children, title }: { readonly tone: Tone; readonly children: ComponentChildren; readonly title?: string }): JSX.Element {
  return (
    <span class={`badge tone-${tone}`} title={title}>
      <Shape tone={tone} />
      {children}
    </span>
  );
}

export function StatusBadge({ status }: { readonly status: Status }): JSX.Element {
  return <Badge tone={statusTone(status)}>{status}</Badge>;
}
