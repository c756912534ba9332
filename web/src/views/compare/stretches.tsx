import type { JSX } from "preact";
import { visible } from "../../components/text";
import type { Stretch } from "./diff";

/** Long common stretches are cut in the middle. */
const CONTEXT = 240;
const LONGEST = 20_000;

/** A text with its differences: what is gone and what is new differ in mark and words, not by colour alone. */
export function Stretches({ all, mono = false }: { readonly all: readonly Stretch[]; readonly mono?: boolean }): JSX.Element {
  return (
    <div class={`stretches ${mono ? "mono" : ""}`} dir="auto">
      {all.map(({ side, text }, at) => {
        if (side === "left") return <del key={at}>{visible(cut(text, LONGEST))}</del>;
        if (side === "right") return <ins key={at}>{visible(cut(text, LONGEST))}</ins>;
        return <span key={at}>{visible(cut(text, CONTEXT))}</span>;
      })}
    </div>
  );
}

function cut(text: string, longest: number): string {
  if (text.length <= 2 * longest) return text;
  return `${text.slice(0, longest)} … ${text.length - 2 * longest} characters … ${text.slice(-longest)}`;
}
