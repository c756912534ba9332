import { expect, test } from "vitest";
import { LONGEST, SHORTEST, Schedule } from "./schedule";

test("pauses are as they were, none too short to see and none too long to wait for", () => {
  const times = [0, 0, 300, 300, 60_000, 59_000];
  const schedule = new Schedule((index) => times[index] ?? 0);
  schedule.extend(3);
  schedule.extend(times.length);
  const due = times.map((_, index) => schedule.dueAt(index));
  expect(due).toEqual([0, SHORTEST, SHORTEST + 300, 2 * SHORTEST + 300, 2 * SHORTEST + 300 + LONGEST, 3 * SHORTEST + 300 + LONGEST]);
});

test("a clock reaches the last event that is due, and never goes back", () => {
  const schedule = new Schedule((index) => index * 100);
  schedule.extend(10);
  expect(schedule.reached(0, 0)).toBe(0);
  expect(schedule.reached(299, 0)).toBe(2);
  expect(schedule.reached(299, 5)).toBe(5);
  expect(schedule.reached(1e9, 0)).toBe(9);
});
