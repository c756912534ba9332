// One event in whole, and the ways from it to the other views.
import type { JSX } from "preact";
import { type LogEvent, pathOf, readEvent } from "../model/envelope";
import { runHref, select } from "../model/select";
import type { RunStore } from "../model/store";
import { idsOf } from "../model/summary";
import { runViews } from "../views/registry";
import { Json } from "./json";
import { Id } from "./text";
import { Bytes } from "./time";

interface EventDetailProps {
  readonly store: RunStore;
  readonly event: LogEvent;
  readonly here: string;
  /** Where stepping is more than selecting; there is nothing to close then. */
  readonly onStep?: (sequence: number) => void;
}

export function EventDetail({ store, event, here, onStep }: EventDetailProps): JSX.Element {
  const read = readEvent(event.raw);
  const ids = read ? [...new Set(idsOf(read.envelope))] : [];
  const place = store.events.indexOf(event);
  const step = (by: number) => {
    const next = store.events[place + by];
    if (!next) return;
    if (onStep) onStep(next.sequence);
    else select(store, next.sequence);
  };
  return (
    <article class="detail">
      <header class="detail-head">
        <h2>
          <span class="number">{event.sequence}</span> <code>{event.type}</code>
        </h2>
        <span class="quiet number">{event.timestamp}</span>
        <Bytes count={event.raw.length} />
        <span class="detail-steps">
          <button type="button" class="button small" disabled={place <= 0} aria-label="Event before" onClick={() => step(-1)}>
            ↑
          </button>
          <button
            type="button"
            class="button small"
            disabled={place + 1 >= store.events.length}
            aria-label="Next event"
            onClick={() => step(1)}
          >
            ↓
          </button>
          {!onStep && (
            <button type="button" class="button small" onClick={() => select(store, null)}>
              Close
            </button>
          )}
        </span>
      </header>
      <p class="detail-links">
        {runViews
          .filter((view) => view.name !== here)
          .map((view) => (
            <a key={view.name} href={runHref(store, view.name, { seq: event.sequence })}>
              {view.title}
            </a>
          ))}
      </p>
      {(ids.length > 0 || event.namespace !== "") && (
        <p class="detail-ids">
          {ids.map((id) => (
            <a key={id} href={runHref(store, "events", { seq: event.sequence, id })} title="Only the events that name this id">
              <Id id={id} length={30} />
            </a>
          ))}
          {event.namespace !== "" && (
            <span class="quiet">
              in{" "}
              {pathOf(event.namespace).map((part) => (
                <span key={part}>
                  › <Id id={part} length={24} />{" "}
                </span>
              ))}
            </span>
          )}
        </p>
      )}
      <Json text={event.raw} label={`Event ${event.sequence} as JSON`} what={`event ${event.sequence}`} />
    </article>
  );
}
