// What differs between two lists, and between two texts. Pure, and bounded: beyond a size the middle is told as a whole.

/** A stretch of a text: on both sides, on the left only, or on the right only. */
export interface Stretch {
  readonly side: "both" | "left" | "right";
  readonly text: string;
}

/** A pair of an alignment; one side is null where nothing stands opposite. */
export type Pair<T> = readonly [T | null, T | null];

/** Cells of the table; 4 bytes each. */
const MAX_CELLS = 4_000_000;

/**
 * Aligns two lists in their order so that the sum of scores is highest. `score` is 0 for what must not stand opposite;
 * `same` is what needs no thought at the ends.
 */
export function align<T>(left: readonly T[], right: readonly T[], score: (a: T, b: T) => number, same: (a: T, b: T) => boolean): Pair<T>[] {
  let head = 0;
  const shorter = Math.min(left.length, right.length);
  while (head < shorter && same(left[head] as T, right[head] as T)) head += 1;
  let tail = 0;
  while (tail < shorter - head && same(left[left.length - 1 - tail] as T, right[right.length - 1 - tail] as T)) tail += 1;
  const a = left.slice(head, left.length - tail);
  const b = right.slice(head, right.length - tail);
  const middle = (a.length + 1) * (b.length + 1) <= MAX_CELLS ? aligned(a, b, score) : inStep(a, b, score);
  const ends = (from: number, to: number, shift: number): Pair<T>[] =>
    left.slice(from, to).map((one, index): Pair<T> => [one, right[from + shift + index] as T]);
  return [...ends(0, head, 0), ...middle, ...ends(left.length - tail, left.length, right.length - left.length)];
}

function aligned<T>(a: readonly T[], b: readonly T[], score: (a: T, b: T) => number): Pair<T>[] {
  const width = b.length + 1;
  const best = new Float32Array((a.length + 1) * width);
  const at = (i: number, j: number) => best[i * width + j] as number;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const match = score(a[i] as T, b[j] as T);
      const both = match > 0 ? match + at(i + 1, j + 1) : 0;
      best[i * width + j] = Math.max(both, at(i + 1, j), at(i, j + 1));
    }
  }
  const pairs: Pair<T>[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const match = score(a[i] as T, b[j] as T);
    // The table rounds as it was filled: the same sum again, not one of another precision.
    if (match > 0 && at(i, j) === Math.fround(match + at(i + 1, j + 1))) pairs.push([a[i++] as T, b[j++] as T]);
    else if (at(i, j) === at(i + 1, j)) pairs.push([a[i++] as T, null]);
    else pairs.push([null, b[j++] as T]);
  }
  while (i < a.length) pairs.push([a[i++] as T, null]);
  while (j < b.length) pairs.push([null, b[j++] as T]);
  return pairs;
}

/** Without a table: the next one on the right that may stand opposite, within reach. */
function inStep<T>(a: readonly T[], b: readonly T[], score: (a: T, b: T) => number): Pair<T>[] {
  const pairs: Pair<T>[] = [];
  let j = 0;
  for (const one of a) {
    let found = -1;
    for (let k = j; k < b.length && k < j + REACH && found === -1; k += 1) if (score(one, b[k] as T) > 0) found = k;
    if (found === -1) {
      pairs.push([one, null]);
      continue;
    }
    while (j < found) pairs.push([null, b[j++] as T]);
    pairs.push([one, b[j++] as T]);
  }
  while (j < b.length) pairs.push([null, b[j++] as T]);
  return pairs;
}

const REACH = 64;
const MAX_TOKENS = 1500;

/** What differs between two texts, word by word where they are short enough, else line by line, else as a whole. */
export function diffText(left: string, right: string): Stretch[] {
  if (left === right) return left === "" ? [] : [{ side: "both", text: left }];
  for (const pattern of [/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu, /[^\n]*\n|[^\n]+/g]) {
    const stretches = byTokens(left, right, pattern);
    if (stretches !== null) return stretches;
  }
  return joined([
    { side: "left", text: left },
    { side: "right", text: right },
  ]);
}

function byTokens(left: string, right: string, pattern: RegExp): Stretch[] | null {
  if (left.length + right.length > MAX_CHARACTERS) return null;
  const a = left.match(pattern) ?? [];
  const b = right.match(pattern) ?? [];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  if (a.length - head - tail > MAX_TOKENS || b.length - head - tail > MAX_TOKENS) return null;
  // A blank alone holds no sentence together.
  const score = (x: string, y: string) => (x === y ? (x.trim() === "" ? 0.1 : 1) : 0);
  const pairs = align(a as readonly string[], b as readonly string[], score, (x, y) => x === y);
  return joined(
    pairs.flatMap(([x, y]): Stretch[] => {
      if (x !== null && y !== null) return [{ side: "both", text: x }];
      return x !== null ? [{ side: "left", text: x }] : [{ side: "right", text: y ?? "" }];
    }),
  );
}

const MAX_CHARACTERS = 400_000;

/**
 * Neighbours of one side become one; between two common stretches the left side stands first. A common stretch that is
 * blank, or short between long changes, holds nothing together: it counts as changed.
 */
function joined(stretches: readonly Stretch[]): Stretch[] {
  const groups: { left: string; right: string; both: string }[] = [];
  for (const { side, text } of stretches) {
    let last = groups.at(-1);
    if (last === undefined || (side !== "both" && last.both !== "")) {
      last = { left: "", right: "", both: "" };
      groups.push(last);
    }
    last[side] += text;
  }
  const out: Stretch[] = [];
  let left = "";
  let right = "";
  groups.forEach((group, index) => {
    left += group.left;
    right += group.right;
    const next = groups[index + 1];
    const around = next === undefined ? 0 : Math.min(Math.max(left.length, right.length), Math.max(next.left.length, next.right.length));
    if (next !== undefined && left + right !== "" && (group.both.trim() === "" || group.both.trim().length * 2 < around)) {
      left += group.both;
      right += group.both;
      return;
    }
    if (left !== "") out.push({ side: "left", text: left });
    if (right !== "") out.push({ side: "right", text: right });
    if (group.both !== "") out.push({ side: "both", text: group.both });
    left = "";
    right = "";
  });
  return out;
}
