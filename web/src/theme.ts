// Light, dark, or what the system says; kept on this machine only.
import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const KEY = "causeway-theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto"; // storage may be forbidden
  }
}

export const theme = signal<Theme>(stored());

export function applyTheme(): void {
  if (theme.value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
}

export function isDark(): boolean {
  return theme.value === "dark" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function toggleTheme(): void {
  theme.value = isDark() ? "light" : "dark";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // it holds until the page is closed, then
  }
  applyTheme();
}
