// How long each event waits for the next when a run is played: as it was, but for pauses nobody wants to sit through. Pure.

/** Events of the same instant are still seen one by one. */
export const SHORTEST = 15;
/** A longer pause is shortened to this. */
export const LONGEST = 1000;

export class Schedule {
  /** When each event is due, in milliseconds from the first at 1×. */
  private readonly due: number[] = [];
  private lastTime = 0;

  constructor(private readonly timeOf: (index: number) => number) {}

  /** Takes in events up to `count`. */
  extend(count: number): void {
    for (let index = this.due.length; index < count; index += 1) {
      const time = this.timeOf(index);
      const before = this.due[index - 1];
      this.due.push(before === undefined ? 0 : before + Math.min(LONGEST, Math.max(SHORTEST, time - this.lastTime)));
      this.lastTime = time;
    }
  }

  dueAt(index: number): number {
    return this.due[Math.max(0, Math.min(this.due.length - 1, index))] ?? 0;
  }

  /** The last event that is due by `clock`, from `from` on. */
  reached(clock: number, from: number): number {
    let index = from;
    while (index + 1 < this.due.length && (this.due[index + 1] as number) <= clock) index += 1;
    return index;
  }

  get length(): number {
    return this.due.length;
  }
}
