// Short words about what was just done or has just failed.
import { signal } from "@preact/signals";

export type Tone = "ok" | "warn" | "error" | "info";
export interface Toast {
  readonly id: number;
  readonly tone: Tone;
  readonly text: string;
}

export const toasts = signal<readonly Toast[]>([]);
let next = 1;

export function toast(text: string, tone: Tone = "info"): void {
  const id = next++;
  toasts.value = [...toasts.value.slice(-3), { id, tone, text }];
  if (tone !== "error") setTimeout(() => dismiss(id), 5000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${what}`, "ok");
  } catch {
    toast(`The browser did not let ${what} be copied`, "error");
  }
}
