// `useChat` on a Causeway agent, approvals and forms included. Built and served by serve.mjs.

import { useState } from "react";
import { createRoot } from "react-dom/client";
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";

const agent = new URLSearchParams(location.search).get("agent") ?? "tour";
const api = `/ui-message/${agent}`;
const transport = new DefaultChatTransport({
  api: `${api}?sdk=6`,
  prepareReconnectToStreamRequest: ({ id }) => ({ api: `${api}/${encodeURIComponent(id)}/stream?sdk=6` }),
});
// One conversation for each tab, which survives a reload.
const id = (sessionStorage.chat ??= crypto.randomUUID());

function Part({ part, approve, send }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <p className="aside">{part.text}</p>;
  if (part.type === "data-subagent") return <p className="aside">{`${part.data.agentName}: ${part.data.status}`}</p>;
  if (part.type === "data-warning" || part.type === "data-error") return <p className="aside">{part.data.message}</p>;
  if (part.type === "data-interrupt" && part.data.fields) return <Form interrupt={part.data} send={send} />;
  if (part.type !== "dynamic-tool") return null;
  return (
    <div className="tool">
      <code>{`${part.toolName} ${JSON.stringify(part.input ?? {})}`}</code>
      {part.state === "approval-requested" && (
        <span>
          <button onClick={() => approve({ id: part.approval.id, approved: true })}>Allow</button>
          <button onClick={() => approve({ id: part.approval.id, approved: false })}>Refuse</button>
        </span>
      )}
      <pre>{part.output ?? part.errorText ?? part.state}</pre>
    </div>
  );
}

function Form({ interrupt, send }) {
  const submit = (event) => {
    event.preventDefault();
    const payload = Object.fromEntries(new FormData(event.currentTarget));
    // No new message: the answer goes in the body, and the run goes on in the same message.
    send(undefined, { body: { resume: [{ interruptId: interrupt.interruptId, status: "resolved", payload }] } });
  };
  return (
    <form onSubmit={submit}>
      <p>{interrupt.prompt}</p>
      {interrupt.fields.map((field) => (
        <input key={field.field_name} name={field.field_name} placeholder={field.field_name} required={field.required} />
      ))}
      <button>Send</button>
    </form>
  );
}

function Chat() {
  const [text, setText] = useState("");
  const { messages, sendMessage, addToolApprovalResponse, status, error } = useChat({
    id,
    transport,
    resume: true, // joins a run that is still active
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const submit = (event) => {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  };
  return (
    <main>
      {messages.map((message) => (
        <section key={message.id} className={message.role}>
          {message.parts.map((part, at) => (
            <Part key={at} part={part} approve={addToolApprovalResponse} send={sendMessage} />
          ))}
        </section>
      ))}
      {error && <p className="aside">{error.message}</p>}
      <form onSubmit={submit}>
        <input value={text} onChange={(event) => setText(event.target.value)} placeholder={`Say something to ${agent}`} />
        <button disabled={status !== "ready" && status !== "error"}>Send</button>
      </form>
    </main>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
