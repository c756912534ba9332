// The first thing to do: pick an agent, say something, watch it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Agent, api } from "../../api";
import { usePoll } from "../../components/poll";
import { Empty, Failure, Loading } from "../../components/states";
import { Line } from "../../components/text";
import { route, setQuery } from "../../router";
import { freshKey } from "../approvals/answer";
import type { TopView } from "../registry";
import { Composer } from "./composer";
import "./start.css";

function Start(): JSX.Element {
  const polled = usePoll(async (stop) => (await api.agents(stop)).agents, 30_000, []);
  const [fresh, setFresh] = useState(() => `inspector-${freshKey().slice(0, 12)}`);
  const { query } = route.value;
  const conversation = query.get("conversation") ?? fresh;
  const agents = polled.value ?? [];
  const agent = agents.find((one) => one.agent_id === query.get("agent")) ?? agents[0];
  return (
    <div class="page">
      <div class="bar">
        <h1>Start a run</h1>
      </div>
      <div class="start">
        {polled.value === null && (polled.error === null ? <Loading what="the agents" /> : <Failure error={polled.error} retry={polled.again} />)}
        {polled.value !== null && agent === undefined && (
          <Empty title="No agent is configured">
            Agents stand in the gateway's configuration, each under <code>[agents.NAME]</code>.
          </Empty>
        )}
        {agent !== undefined && (
          <>
            <fieldset class="agents">
              <legend>Agent</legend>
              {agents.map((one) => (
                <AgentChoice key={one.agent_id} agent={one} chosen={one.agent_id === agent.agent_id} />
              ))}
            </fieldset>
            <div class="start-conversation">
              <label>
                Conversation
                <input type="text" size={32} spellcheck={false} value={conversation} onChange={(event) => setQuery({ conversation: event.currentTarget.value.trim() })} />
              </label>
              <button
                type="button"
                class="button"
                onClick={() => {
                  setFresh(`inspector-${freshKey().slice(0, 12)}`);
                  setQuery({ conversation: null });
                }}
              >
                A new one
              </button>
            </div>
            <Composer agentId={agent.agent_id} conversationId={conversation} blocked={conversation === "" ? "Name a conversation first." : null} label="Message" rows={5} autofocus />
          </>
        )}
      </div>
    </div>
  );
}

function AgentChoice({ agent, chosen }: { readonly agent: Agent; readonly chosen: boolean }): JSX.Element {
  return (
    <label class={`agent ${chosen ? "is-chosen" : ""}`}>
      <input type="radio" name="agent" value={agent.agent_id} checked={chosen} onChange={() => setQuery({ agent: agent.agent_id })} />
      <span class="agent-name">
        <b>{<Line text={agent.name} max={80} />}</b>
        <span class="quiet">
          {agent.harness_id}, {agent.driver}, {agent.thread}
        </span>
      </span>
    </label>
  );
}

export const view: TopView = { scope: "top", name: "start", title: "Start a run", order: 15, component: Start };
