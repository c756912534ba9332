// What is shown where there is nothing to show, not yet or not at all.
import type { ComponentChildren, JSX } from "preact";
import { ApiError } from "../api";
import { Shape } from "./shape";

export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): JSX.Element {
  return (
    <div class="state">
      <p class="state-title">{title}</p>
      {children !== undefined && <div class="state-text">{children}</div>}
    </div>
  );
}

export function Loading({ what }: { readonly what: string }): JSX.Element {
  return (
    <div class="state" role="status">
      <p class="state-text">Loading {what}…</p>
    </div>
  );
}

export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }): JSX.Element {
  const known = error instanceof ApiError ? error : null;
  return (
    <div class="state" role="alert">
      <p class="state-title tone-bad">
        <Shape tone="bad" /> {known?.message ?? "Something failed in this page"}
      </p>
      <div class="state-text">
        <code>{known?.code ?? (error instanceof Error ? error.message : "unknown")}</code>
        {known?.requestId && (
          <>
            {" "}
            request <code>{known.requestId}</code>
          </>
        )}
      </div>
      {retry && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
