/** Entries of a forecast that no facts about a run are needed for. */
import type { WorkEffect } from "../../lifecycle/forecast.ts";
import type { ForecastEntry } from "./answers.ts";

export const NOTHING: ForecastEntry = {
  effect: "NONE",
  endsAs: null,
  nodeState: null,
  cutsStep: false,
  powersOff: false,
  changed: [],
  isConditionKnown: true,
  answer: null,
  count: 1,
  step: null,
};

/** The effect of a request on as many addresses of a discovery. */
export function addressesEntry(count: number, effect: WorkEffect): ForecastEntry[] {
  return count === 0 ? [] : [{ ...NOTHING, effect, endsAs: "STOPPED", count }];
}
