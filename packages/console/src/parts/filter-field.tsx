/** The filter of a list of nodes, with the words that can follow. A text that is not valid changes nothing yet. */
import { Autocomplete } from "@base-ui/react/autocomplete";
import { useEffect, useMemo, useState } from "react";
import { useRequest } from "../data/queries.ts";
import { fleet } from "../data/streams.ts";
import { completionsOf } from "../words/filters.ts";
import type { Completion } from "../words/filters.ts";
import { focusRows } from "./keys.ts";
import { Text } from "./text.tsx";

interface FilterFieldProps {
  /** As in the address. */
  readonly text: string;
  readonly flaw: { readonly message: string; readonly nearest: string | null } | null;
  readonly onChange: (text: string) => void;
}

/** While a person types, no list is read. */
const TYPING_MS = 120;

export function FilterField({ text, flaw, onChange }: FilterFieldProps) {
  const [typed, setTyped] = useState(text);
  const [isUsed, setUsed] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const known = useKnownWords(isUsed);
  const completions = useMemo(() => completionsOf(typed, known), [typed, known]);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return;
    const timer = setTimeout(() => onChange(typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <div className="filter">
      <Autocomplete.Root
        mode="none"
        open={isOpen && typed !== "" && completions.length > 0}
        onOpenChange={setOpen}
        items={completions}
        value={typed}
        onValueChange={setTyped}
        itemToStringValue={({ text: whole }: Completion) => whole}
      >
        <Autocomplete.Input
          id="filter"
          aria-label="Filter"
          placeholder="Filter, as in state:failed -cluster:berlin"
          spellCheck={false}
          aria-invalid={flaw !== null}
          aria-describedby={flaw === null ? undefined : "filter-flaw"}
          onFocus={() => setUsed(true)}
          onKeyDown={(event) => {
            const isChoosing = event.currentTarget.getAttribute("aria-activedescendant") !== null;
            if (event.key !== "Escape" && (event.key !== "Enter" || isChoosing)) return;
            // The library would empty the field.
            event.preventBaseUIHandler();
            setOpen(false);
            focusRows();
          }}
        />
        <Autocomplete.Portal>
          <Autocomplete.Positioner sideOffset={4} align="start">
            <Autocomplete.Popup className="menu">
              <Autocomplete.List className="options">
                {(one: Completion) => (
                  <Autocomplete.Item key={one.option} value={one} className="option">
                    <Text>{one.option}</Text>
                  </Autocomplete.Item>
                )}
              </Autocomplete.List>
            </Autocomplete.Popup>
          </Autocomplete.Positioner>
        </Autocomplete.Portal>
      </Autocomplete.Root>
      {typed !== "" && (
        <button type="button" onClick={() => setTyped("")}>
          Clear
        </button>
      )}
      {flaw && (
        <p id="filter-flaw" role="alert" className="problem">
          <Text>{flaw.message}</Text>
        </p>
      )}
    </div>
  );
}

/** Values that the language does not list: those of the nodes that are here, and of the service. */
function useKnownWords(isUsed: boolean): Readonly<Record<string, readonly string[]>> {
  const { data } = useRequest("filterWords", {}, isUsed ? 0 : null);
  return useMemo(() => {
    if (!isUsed) return {};
    const nodes = [...fleet.getSnapshot().items.values()];
    const distinct = (values: readonly (string | null | undefined)[]) =>
      [...new Set(values)].filter((value) => typeof value === "string").toSorted();
    return {
      cluster: distinct(nodes.map(({ cluster }) => cluster?.name)),
      model: distinct(nodes.map(({ model }) => model)),
      group: distinct(nodes.map(({ hostGroup }) => hostGroup)),
      driver: data?.drivers.map(({ name }) => name) ?? [],
      label: data?.labelKeys.keys.map(({ key }) => key) ?? [],
    };
  }, [isUsed, data]);
}
