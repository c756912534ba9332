// The keyboard: views register what their keys do while they are shown; `?` lists what holds now.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface KeyBinding {
  /** `KeyboardEvent.key`: "j", "ArrowDown", "/", "Escape". */
  readonly key: string;
  readonly does: string;
  readonly run: (event: KeyboardEvent) => void;
}

const layers = signal<readonly (readonly KeyBinding[])[]>([]);

/** What holds now: later layers win. */
export function bindings(): readonly KeyBinding[] {
  const seen = new Set<string>();
  const all: KeyBinding[] = [];
  for (const layer of [...layers.value].reverse()) {
    for (const binding of layer) {
      if (seen.has(binding.key)) continue;
      seen.add(binding.key);
      all.push(binding);
    }
  }
  return all;
}

/** The keys of the calling component, for as long as it is shown. */
export function useKeys(keys: readonly KeyBinding[]): void {
  const current = useRef(keys);
  current.current = keys;
  const names = keys.map((binding) => `${binding.key} ${binding.does}`).join("\n");
  // Before the view is seen: what is seen can be driven.
  useLayoutEffect(() => {
    const layer = current.current.map((binding, index) => ({
      key: binding.key,
      does: binding.does,
      run: (event: KeyboardEvent) => current.current[index]?.run(event),
    }));
    layers.value = [...layers.peek(), layer];
    return () => {
      layers.value = layers.peek().filter((one) => one !== layer);
    };
  }, [names]);
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target)) {
    if (event.key === "Escape" && event.target instanceof HTMLElement) event.target.blur();
    return;
  }
  // A pressed button or link does what it does.
  if ((event.key === "Enter" || event.key === " ") && event.target instanceof Element && event.target.closest("button,a,summary")) return;
  if (document.querySelector("dialog[open]") && event.key !== "Escape") return;
  const binding = bindings().find((one) => one.key === event.key);
  if (!binding) return;
  event.preventDefault();
  binding.run(event);
});
