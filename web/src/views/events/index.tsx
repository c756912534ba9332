// The log as a table: every envelope as it was stored, filtered by type, namespace, id and text.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { EventDetail } from "../../components/event-detail";
import { VirtualList } from "../../components/list";
import { narrow } from "../../components/narrow";
import { Shape } from "../../components/shape";
import { Empty } from "../../components/states";
import { Line } from "../../components/text";
import { Bytes } from "../../components/time";
import { count, duration } from "../../format";
import { useKeys } from "../../keys";
import { EVENT_TYPES, pathOf, readEvent } from "../../model/envelope";
import { select } from "../../model/select";
import type { RunStore } from "../../model/store";
import { summary, toneOf } from "../../model/summary";
import { route, setQuery } from "../../router";
import type { RunView } from "../registry";
import { type EventFilter, type Filtered, FAMILIES, nearest, update } from "./filter";
import "./events.css";

function filterOf(query: URLSearchParams): EventFilter {
  return {
    type: query.get("type") ?? "",
    namespace: query.has("ns") ? pathToKey(query.get("ns") ?? "") : null,
    id: query.get("id") ?? "",
    text: query.get("q") ?? "",
  };
}

/** In the address a path is JSON, "root" its own word. */
function pathToKey(text: string): string {
  if (text === "root") return "";
  try {
    const path: unknown = JSON.parse(text);
    return Array.isArray(path) ? path.join("\u001f") : text;
  } catch {
    return text;
  }
}

function keyToPath(key: string): string {
  return key === "" ? "root" : JSON.stringify(pathOf(key));
}

function Events({ store }: { readonly store: RunStore }): JSX.Element {
  const { query } = route.value;
  const filter = filterOf(query);
  store.version.value;
  const filtered = useRef<Filtered | null>(null);
  filtered.current = update(filtered.current, store.events, filter);
  const { places } = filtered.current;
  const selected = store.selected.value;
  const search = useRef<HTMLInputElement>(null);

  useKeys([
    { key: "/", does: "Search the events", run: () => search.current?.focus() },
    { key: "Escape", does: "Nothing selected", run: () => select(store, null) },
  ]);
  // A selection from another view opens the table there.
  useEffect(() => {
    if (selected === null && places.length > 0 && query.has("first")) select(store, store.events[places[0] as number]?.sequence ?? null);
  }, []);

  const selectedPlace = selected === null ? -1 : store.events.findIndex((event) => event.sequence === selected);
  const row = selectedPlace < 0 ? -1 : nearest(places, selectedPlace);
  const selectedRow = row >= 0 && places[row] === selectedPlace ? row : null;
  const began = store.model.firstTime ?? 0;
  const chosen = selected === null ? null : store.eventAt(selected);
  const paths = ["", ...store.model.subagents.map((one) => one.namespace)];

  return (
    <div class="page">
      <div class="bar">
        <label class="field">
          <span>Type</span>
          <select value={filter.type} onChange={(event) => setQuery({ type: event.currentTarget.value })}>
            <option value="">any</option>
            {FAMILIES.map((family) => {
              const types = EVENT_TYPES.filter((type) => type === family || type.startsWith(`${family}.`));
              return types.length === 1 && types[0] === family ? (
                <option key={family} value={family}>
                  {family}
                </option>
              ) : (
                <optgroup key={family} label={family}>
                  <option value={family}>{family}.*</option>
                  {types.map((type) => (
                    <option key={type} value={type}>
                      {type}
                    </option>
                  ))}
                </optgroup>
              );
            })}
          </select>
        </label>
        <label class="field">
          <span>Namespace</span>
          <select
            class="events-namespace"
            value={filter.namespace === null ? "any" : keyToPath(filter.namespace)}
            onChange={(event) => setQuery({ ns: event.currentTarget.value === "any" ? null : event.currentTarget.value })}
          >
            <option value="any">any</option>
            {paths.map((path) => (
              <option key={path} value={keyToPath(path)}>
                {path === "" ? "root" : `${"\u2003".repeat(pathOf(path).length - 1)}${store.model.subagentByPath.get(path)?.agentName ?? path}`}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>Id</span>
          <input type="text" size={12} value={filter.id} onInput={(event) => setQuery({ id: event.currentTarget.value.trim() })} />
        </label>
        <input
          ref={search}
          type="search"
          class="events-search"
          aria-label="Search the events"
          placeholder="Search the events  /"
          value={filter.text}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        <span class="end quiet number" role="status">
          {places.length === store.events.length ? `${count(places.length)} events` : `${count(places.length)} of ${count(store.events.length)}`}
        </span>
        <button type="button" class="button small" disabled={places.length === 0} onClick={() => download(store, places)}>
          Download JSONL
        </button>
      </div>
      <div class={chosen ? "split" : "events-whole"}>
        {places.length === 0 ? (
          <Empty title={store.events.length === 0 ? "No events yet" : "No event fits these filters"}>
            {store.events.length > 0 && (
              <button type="button" class="button" onClick={() => setQuery({ type: null, ns: null, id: null, q: null })}>
                Clear filters
              </button>
            )}
          </Empty>
        ) : (
          <VirtualList
            id="events"
            label="Events"
            count={places.length}
            rowHeight={narrow.value ? 44 : 24}
            keyOf={(index) => store.events[places[index] as number]?.sequence ?? index}
            selected={selectedRow}
            onSelect={(index) => select(store, store.events[places[index] as number]?.sequence ?? null)}
            class="events-list"
            rowClass={() => "events-row"}
            render={(index) => <EventRow store={store} place={places[index] as number} began={began} />}
          />
        )}
        {chosen && (
          <aside class="side" aria-label="The selected event">
            <EventDetail store={store} event={chosen} here="events" />
          </aside>
        )}
      </div>
    </div>
  );
}

function EventRow({ store, place, began }: { readonly store: RunStore; readonly place: number; readonly began: number }): JSX.Element | null {
  const event = store.events[place];
  const read = event && readEvent(event.raw);
  if (!event || !read) return null;
  const path = pathOf(event.namespace);
  const name = event.namespace === "" ? "" : (store.model.subagentByPath.get(event.namespace)?.agentName ?? path.at(-1) ?? "");
  const tone = toneOf(read.envelope);
  return (
    <>
      <span class="e-seq number quiet">{event.sequence}</span>
      <span class="e-time number quiet">+{duration(event.time - began)}</span>
      <span class={`e-type tone-${tone}`}>
        <Shape tone={tone} /> {event.type}
      </span>
      <span class="e-ns quiet">
        {path.length > 1 && <span aria-hidden="true">{"› ".repeat(path.length - 1)}</span>}
        <Line text={name} max={60} title={false} />
      </span>
      <span class="e-text">
        <Line text={summary(read.envelope)} title={false} />
      </span>
      <span class="e-bytes quiet right">
        <Bytes count={event.raw.length} />
      </span>
    </>
  );
}

function download(store: RunStore, places: readonly number[]): void {
  const text = places.map((place) => `${store.events[place]?.raw ?? ""}\n`);
  const url = URL.createObjectURL(new Blob(text, { type: "application/x-ndjson" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${store.runId.replace(/[^A-Za-z0-9._-]+/g, "_").slice(0, 100)}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export const view: RunView = { scope: "run", name: "events", title: "Events", order: 30, component: Events };
