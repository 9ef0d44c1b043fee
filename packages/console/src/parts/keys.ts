/** Keys that work on every screen. None of them starts or ends work. */
import { useEffect } from "react";
import { useLocation } from "wouter";
import { createSignal } from "../data/signal.ts";
import { NODES } from "../routes.ts";
import { clearSelection } from "../work/selection.ts";

const KEPT = "ostler-letter-keys";

/** Whether single letters are keys; speech input types letters by mistake. */
export const letterKeys = createSignal(localStorage.getItem(KEPT) !== "off");
export const overlay = createSignal<"palette" | "keys" | null>(null);

export function setLetterKeys(isOn: boolean): void {
  localStorage.setItem(KEPT, isOn ? "on" : "off");
  letterKeys.set(isOn);
}

export const KEYS: readonly (readonly [string, string])[] = [
  ["Ctrl K", "Go to a node, an operation, a cluster or a screen; verbs on the selection"],
  ["/", "Filter the nodes; Enter or Esc leads to the rows"],
  ["j k, arrows, Home, End, Page Up, Page Down", "Rows"],
  ["x, Shift x, Ctrl a", "Select a row, a range, all that match"],
  ["Enter", "Open the row"],
  ["Esc", "Close; then clear the selection"],
  ["?", "This table"],
];

const FILTER = "#filter";
const isField = (target: EventTarget | null) =>
  target instanceof HTMLElement && target.closest("input:not([type=checkbox]), textarea, select") !== null;
/** The first list of the screen. */
export const focusRows = () => document.querySelector<HTMLElement>('main [role="grid"]')?.focus();
const hasOpen = () => document.querySelector('[role="dialog"], :popover-open, [role="listbox"]') !== null;

export function useKeys(): void {
  const [path, navigate] = useLocation();
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      const { key, ctrlKey, metaKey, altKey, target } = event;
      if (key.toLowerCase() === "k" && (ctrlKey || metaKey) && !altKey) {
        event.preventDefault();
        if (!hasOpen()) overlay.set("palette");
      } else if (ctrlKey || metaKey || altKey || isField(target) || hasOpen()) return;
      else if (key === "Escape") clearSelection();
      else if (/^[jkx]$/.test(key) && letterKeys.get() && target === document.body) focusRows();
      else if (key === "?" && letterKeys.get()) overlay.set("keys");
      else if (key === "/" && letterKeys.get()) {
        event.preventDefault();
        const focus = () => document.querySelector<HTMLElement>(FILTER)?.focus();
        if (path === NODES) return focus();
        navigate(NODES);
        requestAnimationFrame(focus);
      }
    }
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [path, navigate]);
}
