// Official clients warn on the console about what they had to mend: here that is a failure.

import assert from "node:assert/strict";

const LEVELS = ["warn", "error"];

/** Runs `work`, and fails if anything was printed as a warning or an error meanwhile. */
export async function quietly(work) {
  const said = [];
  const former = LEVELS.map((level) => console[level]);
  for (const level of LEVELS) console[level] = (...words) => said.push(`${level}: ${words.map(String).join(" ")}`);
  try {
    return await work();
  } finally {
    LEVELS.forEach((level, at) => (console[level] = former[at]));
    assert.deepEqual(said, []);
  }
}
