import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { Sha256 } from "./sha256";

test("the digest is that of another implementation, at every length and however the bytes are cut", () => {
  for (let length = 0; length < 200; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 31 + length) & 255);
    const hash = new Sha256();
    for (let from = 0; from < length; from += 1 + (length % 7)) hash.update(bytes.subarray(from, from + 1 + (length % 7)));
    expect(hash.hex()).toBe(createHash("sha256").update(bytes).digest("hex"));
    expect(hash.hex()).toBe(hash.hex());
  }
});
