// What a person says next: one message, sent once however often it is pressed.
import type { JSX } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { ApiError, api } from "../../api";
import { Shape } from "../../components/shape";
import { Line } from "../../components/text";
import { href, navigate } from "../../router";
import { Keys, freshKey } from "../approvals/answer";

export interface ComposerProps {
  readonly agentId: string;
  readonly conversationId: string;
  readonly label: string;
  /** Why nothing can be said now; null where something can. */
  readonly blocked: string | null;
  readonly autofocus?: boolean;
  readonly rows?: number;
}

export function Composer({ agentId, conversationId, label, blocked, autofocus = false, rows = 2 }: ComposerProps): JSX.Element {
  const id = useId();
  const [message, setMessage] = useState("");
  const [sending, setSending] = useState(false);
  const [told, setTold] = useState<{ text: string; again: boolean } | null>(null);
  const keys = useRef(new Keys(freshKey));
  const busy = useRef(false);
  const send = async () => {
    if (busy.current || blocked !== null) return;
    if (message.trim() === "") {
      setTold({ text: "Write a message first.", again: false });
      return;
    }
    busy.current = true;
    setSending(true);
    setTold(null);
    const body = { agent_id: agentId, conversation_id: conversationId, message };
    try {
      const run = await api.start({ ...body, idempotency_key: keys.current.of(JSON.stringify(body)) });
      keys.current = new Keys(freshKey);
      setMessage("");
      navigate(href(["run", run.run_id, "conversation"]));
    } catch (error) {
      const known = error instanceof ApiError ? error : null;
      // The same message keeps its key: it starts one run, whatever became of the first try.
      setTold({ text: known?.message ?? "Something failed in this page", again: known === null || known.status === 0 || known.status === 429 || known.status >= 500 });
    } finally {
      busy.current = false;
      setSending(false);
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label for={id} class={rows > 2 ? undefined : "visually-hidden"}>
        {label}
      </label>
      <textarea
        id={id}
        rows={rows}
        dir="auto"
        placeholder={blocked ?? "Enter sends, Shift+Enter begins a new line"}
        value={message}
        autofocus={autofocus}
        aria-describedby={`${id}-told`}
        aria-invalid={told !== null && !told.again}
        disabled={blocked !== null}
        onInput={(event) => {
          setMessage(event.currentTarget.value);
          setTold(null);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      <button type="submit" class="button primary" disabled={blocked !== null} aria-disabled={sending}>
        {sending ? "Sending…" : told?.again ? "Try again" : "Send"}
      </button>
      <div id={`${id}-told`} role="alert" class="composer-told">
        {told !== null && (
          <p class="tone-bad">
            <Shape tone="bad" /> <Line text={told.text} max={600} title={false} />
          </p>
        )}
      </div>
    </form>
  );
}
