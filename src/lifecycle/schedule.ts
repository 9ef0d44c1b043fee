/**
 * The time that planned runs take side by side: each passes through its legs, and waits for the slots of `maxParallel`,
 * of its phase and of its management controller, as slot-scheduler.ts grants them. Pure. Equal runs are simulated
 * together, so the cost depends on how many different runs there are, and on how often they wait.
 */

/** Time that a run spends in a phase. */
export interface LegTime {
  readonly phase: string;
  readonly seconds: number;
}

/** Runs with equal times, on one controller if its limit matters. */
export interface Lot {
  readonly legs: readonly LegTime[];
  readonly controller: string | null;
  readonly count: number;
}

export interface SlotLimits {
  readonly maxParallel: number | null;
  /** Maximum number of runs in each limited phase. */
  readonly phases: Readonly<Partial<Record<string, number>>>;
  readonly perController: number | null;
}

/** `seconds`: null if a run can never start. `limitedBy`: the limits that made runs wait. */
interface Makespan {
  readonly seconds: number | null;
  readonly limitedBy: ReadonlySet<PlannedLimit>;
}

/** `maxParallel`, a phase as in `phase:clean`, or the limit of controllers. */
export type PlannedLimit = "maxParallel" | "controller" | `phase:${string}`;

/** The time from the start of the first run to the end of the last one. The lots start in their order. */
export function makespan(lots: readonly Lot[], limits: SlotLimits): Makespan {
  const floor = new Floor(limits);
  const ready = lots
    .filter(({ legs, count }) => legs.length > 0 && count > 0)
    .map((lot) => ({ lot, count: lot.count }));
  for (;;) {
    floor.start(ready);
    floor.enter();
    if (!floor.advance())
      return { seconds: floor.isStuck() || ready.length > 0 ? null : floor.now, limitedBy: floor.limitedBy };
  }
}

/** Runs of a lot that are equally far. */
interface Group {
  readonly lot: Lot;
  readonly leg: number;
  count: number;
}

class Floor {
  now = 0;
  readonly limitedBy = new Set<PlannedLimit>();
  readonly #limits: SlotLimits;
  #parallel: number;
  readonly #phases = new Map<string, number>();
  readonly #controllers = new Map<string, number>();
  /** Runs that wait for the slots of their leg, longest wait first. */
  #waiting: Group[] = [];
  /** Runs in a leg by the time at which it ends, latest first. */
  readonly #running: { readonly at: number; readonly groups: Group[] }[] = [];

  constructor(limits: SlotLimits) {
    this.#limits = limits;
    this.#parallel = limits.maxParallel ?? Number.POSITIVE_INFINITY;
  }

  isStuck(): boolean {
    return this.#waiting.length > 0;
  }

  /** Starts ready runs as far as `maxParallel` allows. Started runs are removed from the list. */
  start(ready: { readonly lot: Lot; count: number }[]): void {
    let begun = 0;
    for (const one of ready) {
      const count = Math.min(one.count, this.#parallel);
      if (count > 0) this.#waiting.push({ lot: one.lot, leg: 0, count });
      this.#parallel -= count;
      one.count -= count;
      if (one.count > 0) {
        this.limitedBy.add("maxParallel");
        break;
      }
      begun += 1;
    }
    ready.splice(0, begun);
  }

  /** Lets waiting runs enter their legs as far as there are slots. */
  enter(): void {
    const left: Group[] = [];
    for (const group of this.#waiting) {
      const count = this.#take(group);
      const seconds = group.lot.legs[group.leg]?.seconds ?? 0;
      if (count > 0) this.#end(this.now + seconds, { ...group, count });
      if (count < group.count) left.push({ ...group, count: group.count - count });
    }
    this.#waiting = left;
  }

  /** Goes on to the next time at which legs end. Returns false if no run is in a leg. */
  advance(): boolean {
    const next = this.#running.pop();
    if (!next) return false;
    this.now = next.at;
    for (const { lot, leg, count } of next.groups) {
      const phase = lot.legs[leg]?.phase ?? "";
      this.#phases.set(phase, (this.#phases.get(phase) ?? 0) - count);
      if (leg + 1 < lot.legs.length) this.#waiting.push({ lot, leg: leg + 1, count });
      else {
        this.#parallel += count;
        if (lot.controller !== null)
          this.#controllers.set(lot.controller, (this.#controllers.get(lot.controller) ?? 0) - count);
      }
    }
    return true;
  }

  /** Takes the slots of a leg, and returns for how many runs. A run keeps its controller's slot until its end. */
  #take({ lot, leg, count }: Group): number {
    const phase = lot.legs[leg]?.phase ?? "";
    const inPhase = this.#phases.get(phase) ?? 0;
    const ofPhase = Math.min(count, (this.#limits.phases[phase] ?? Number.POSITIVE_INFINITY) - inPhase);
    if (ofPhase < count) this.limitedBy.add(`phase:${phase}`);
    const controller = leg === 0 ? lot.controller : null;
    const onController = this.#controllers.get(controller ?? "") ?? 0;
    const perController = controller === null ? null : this.#limits.perController;
    const taken = Math.min(ofPhase, (perController ?? Number.POSITIVE_INFINITY) - onController);
    if (taken < ofPhase) this.limitedBy.add("controller");
    if (taken <= 0) return 0;
    this.#phases.set(phase, inPhase + taken);
    if (controller !== null) this.#controllers.set(controller, onController + taken);
    return taken;
  }

  #end(at: number, group: Group): void {
    let low = 0;
    let high = this.#running.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#running[middle]?.at ?? 0) > at) low = middle + 1;
      else high = middle;
    }
    const found = this.#running[low];
    if (found?.at === at) found.groups.push(group);
    else this.#running.splice(low, 0, { at, groups: [group] });
  }
}
