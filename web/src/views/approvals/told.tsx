// What keeps an answer from being sent, beside what it is about.
import type { JSX } from "preact";
import { Shape } from "../../components/shape";
import { Line } from "../../components/text";
import type { Complaint } from "./answer";

/** What the two kinds of answers share. */
export interface Common {
  readonly sending: boolean;
  readonly told: readonly Complaint[];
  readonly again: boolean;
  readonly onTold: (told: readonly Complaint[]) => void;
}

export function Told({ all, id }: { readonly all: readonly Complaint[]; readonly id?: string }): JSX.Element | null {
  if (all.length === 0) return null;
  return (
    <div class="told" id={id} role="alert">
      {all.map((one) => (
        <p key={one.text} class="tone-bad">
          <Shape tone="bad" /> {<Line text={one.text} max={800} title={false} />}
        </p>
      ))}
    </div>
  );
}
