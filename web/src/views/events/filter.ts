// Which events of the log a table shows. Only events that came since the last time are looked at.
import { type EventType, type LogEvent, EVENT_TYPES } from "../../model/envelope";

export interface EventFilter {
  /** A type, or a family: `tool` is every `tool.…`. */
  readonly type: string;
  /** A path key; `null` is any. */
  readonly namespace: string | null;
  readonly id: string;
  readonly text: string;
}

export const FAMILIES: readonly string[] = [...new Set(EVENT_TYPES.map((type) => type.split(".")[0] as string))];

function hasType(type: EventType, wanted: string): boolean {
  return wanted === "" || type === wanted || type.startsWith(`${wanted}.`);
}

/** Whether JSON text holds the string as a whole value; ids have no characters that JSON escapes but quotes and backslashes. */
function holdsId(raw: string, id: string): boolean {
  return raw.includes(JSON.stringify(id));
}

export function fits(event: LogEvent, filter: EventFilter): boolean {
  return (
    hasType(event.type, filter.type) &&
    (filter.namespace === null || event.namespace === filter.namespace) &&
    (filter.id === "" || holdsId(event.raw, filter.id)) &&
    (filter.text === "" || event.raw.toLowerCase().includes(filter.text.toLowerCase()))
  );
}

/** Places in `events` that fit, brought up to date by {@link update}. */
export interface Filtered {
  readonly key: string;
  readonly places: number[];
  seen: number;
}

export function update(before: Filtered | null, events: readonly LogEvent[], filter: EventFilter): Filtered {
  const key = JSON.stringify(filter);
  const filtered = before?.key === key ? before : { key, places: [], seen: 0 };
  for (; filtered.seen < events.length; filtered.seen += 1) {
    const event = events[filtered.seen];
    if (event && fits(event, filter)) filtered.places.push(filtered.seen);
  }
  return filtered;
}

/** The place in `filtered` of the event at or behind `place`. */
export function nearest(places: readonly number[], place: number): number {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((places[middle] as number) < place) low = middle + 1;
    else high = middle;
  }
  return low;
}
