// Numbers, times and sizes as people read them. Pure.

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(count < 10 * 1024 ? 1 : 0)} KiB`;
  return `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1) return ms === 0 ? "0 ms" : `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.floor(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${String(seconds % 60).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function count(value: number): string {
  return value.toLocaleString("en-GB").replaceAll(",", "\u202f");
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Local date and time to the second; the title of a time holds the stored one. */
export function moment(iso: string): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function clock(iso: string): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  return `${moment(iso).slice(11)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

export function ago(iso: string, now: number): string {
  const ms = now - new Date(iso).getTime();
  if (!Number.isFinite(ms)) return "";
  if (ms < 0) return `in ${rough(-ms)}`;
  return ms < 5000 ? "just now" : `${rough(ms)} ago`;
}

function rough(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** An opaque id short enough for a table: both ends tell. */
export function shortId(id: string, length = 14): string {
  return id.length <= length ? id : `${id.slice(0, length - 7)}…${id.slice(-6)}`;
}

/** The most of `text` that a label can take, on one line. */
export function snippet(text: string, length = 120): string {
  const line = text.slice(0, length + 1).replace(/\s+/g, " ");
  return text.length > length ? `${line.slice(0, length)}…` : line;
}
