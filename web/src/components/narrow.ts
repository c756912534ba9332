import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 720px)");
/** Whether there is only room for one column. */
export const narrow = signal(query.matches);
query.addEventListener("change", () => {
  narrow.value = query.matches;
});
