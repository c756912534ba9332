// A replayed stream as bytes, cut into the frames of each event. What a replay adds for itself is told apart: the `id:` line
// on the last frame of an event, and the comments of a quiet stream. Without them the bytes are those a client was sent live.
import { Sha256 } from "../../sha256";

export interface WireEvent {
  readonly sequence: number;
  /** The frames without what the replay added. */
  readonly text: string;
  readonly bytes: number;
  readonly frames: number;
}

const NEWLINE = 10;
const COLON = 58;
const ID = [105, 100, 58]; // "id:"

const startsWith = (bytes: Uint8Array, from: number, what: readonly number[]): boolean => what.every((byte, index) => bytes[from + index] === byte);

export class WireReader {
  readonly events: WireEvent[] = [];
  readonly hash = new Sha256();
  /** Of the stream as a client got it. */
  bytes = 0;
  frames = 0;
  /** What the replay added. */
  added = 0;
  private rest = new Uint8Array(0);
  /** Lines of the event that is not whole yet. */
  private lines: Uint8Array[] = [];
  private id: number | null = null;
  private blank = 0;
  private inComment = false;
  private readonly decoder = new TextDecoder("utf-8");

  /** The number of the last whole event: where to go on. */
  get last(): number | null {
    return this.events.at(-1)?.sequence ?? null;
  }

  push(chunk: Uint8Array): void {
    let bytes = chunk;
    if (this.rest.length > 0) {
      bytes = new Uint8Array(this.rest.length + chunk.length);
      bytes.set(this.rest);
      bytes.set(chunk, this.rest.length);
    }
    let from = 0;
    for (;;) {
      const at = bytes.indexOf(NEWLINE, from);
      if (at < 0) break;
      this.line(bytes.subarray(from, at + 1));
      from = at + 1;
    }
    this.rest = bytes.slice(from);
  }

  /** The stream broke off: what is not whole comes again. */
  broken(): void {
    this.rest = new Uint8Array(0);
    this.lines = [];
    this.id = null;
    this.blank = 0;
    this.inComment = false;
  }

  /** The stream ended: frames behind the last number (a format's own end mark) belong to the last event. */
  end(): void {
    if (this.lines.length === 0) return;
    const sequence = this.last ?? 0;
    const before = this.events.pop();
    const more = this.take(sequence);
    this.events.push(before ? { sequence, text: before.text + more.text, bytes: before.bytes + more.bytes, frames: before.frames + more.frames } : more);
  }

  private line(line: Uint8Array): void {
    if (line[0] === COLON) {
      this.added += line.length;
      this.inComment = true;
      return;
    }
    if (line.length === 1) {
      if (this.inComment) {
        this.inComment = false;
        this.added += 1;
        return;
      }
      this.lines.push(line);
      this.blank += 1;
      if (this.id !== null) {
        const sequence = this.id;
        this.id = null;
        this.events.push(this.take(sequence));
      }
      return;
    }
    if (startsWith(line, 0, ID)) {
      this.id = Number(this.decoder.decode(line.subarray(3)).trim());
      this.added += line.length;
      return;
    }
    this.lines.push(line);
  }

  private take(sequence: number): WireEvent {
    let text = "";
    let bytes = 0;
    for (const line of this.lines) {
      this.hash.update(line);
      bytes += line.length;
      text += this.decoder.decode(line);
    }
    const frames = this.blank;
    this.bytes += bytes;
    this.frames += frames;
    this.lines = [];
    this.blank = 0;
    return { sequence, text, bytes, frames };
  }
}
