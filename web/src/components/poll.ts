// Asks again every so often while the page is seen; one question at a time, slower after failures.
import { useEffect, useState } from "preact/hooks";

export interface Polled<T> {
  readonly value: T | null;
  readonly error: unknown;
  readonly again: () => void;
}

export function usePoll<T>(ask: (signal: AbortSignal, before: T | null) => Promise<T>, every: number, keys: readonly unknown[]): Polled<T> {
  const [state, setState] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let value: T | null = null;
    let failures = 0;
    const turn = async () => {
      try {
        value = await ask(stop.signal, value);
        failures = 0;
        if (!stop.signal.aborted) setState({ value, error: null });
      } catch (error) {
        failures += 1;
        if (!stop.signal.aborted) setState({ value, error });
      }
      plan();
    };
    const plan = () => {
      if (stop.signal.aborted || document.hidden) return;
      timer = setTimeout(() => void turn(), every * Math.min(8, 2 ** failures));
    };
    const seen = () => {
      clearTimeout(timer);
      if (!document.hidden) void turn();
    };
    document.addEventListener("visibilitychange", seen);
    void turn();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [...keys, every, round]);
  return { ...state, again: () => setRound(round + 1) };
}
