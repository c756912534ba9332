// Server-sent events out of a stream of bytes (WHATWG's rules, but that an event without data still counts: it has bytes).

export interface Frame {
  readonly event: string;
  readonly data: string;
  readonly id: string | null;
}

export class SseParser {
  private rest = "";
  private event = "";
  private data: string[] = [];
  private id: string | null = null;

  /** The frames that `text` completes. */
  push(text: string): Frame[] {
    const frames: Frame[] = [];
    const all = this.rest + text;
    let from = 0;
    for (;;) {
      const at = all.indexOf("\n", from);
      if (at < 0) break;
      const line = all.slice(from, all.charCodeAt(at - 1) === 13 && at > from ? at - 1 : at);
      from = at + 1;
      if (line === "") {
        if (this.data.length > 0) frames.push({ event: this.event, data: this.data.join("\n"), id: this.id });
        this.event = "";
        this.data = [];
        this.id = null;
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment keeps the connection alive
      const field = colon < 0 ? line : line.slice(0, colon);
      let value = colon < 0 ? "" : line.slice(colon + 1);
      if (value.startsWith(" ")) value = value.slice(1);
      if (field === "data") this.data.push(value);
      else if (field === "event") this.event = value;
      else if (field === "id") this.id = value;
    }
    this.rest = all.slice(from);
    return frames;
  }
}
