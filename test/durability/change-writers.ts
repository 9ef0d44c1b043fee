/** Clients that change nodes, clusters and operations over the API in all visible ways, at random. */
import { setTimeout as delay } from "node:timers/promises";
import { ask } from "../support/ask.ts";
import type { Chance } from "./lab.ts";
import { inputTypeOf } from "../support/input-type.ts";

/** These nodes keep their labels, their cluster and their flags, and are never deleted. */
export const STEADY = "steady-";
export const CLUSTER = "moving";

export interface ChangeWriters {
  /** Number of requests of each kind that were accepted. */
  readonly accepted: ReadonlyMap<string, number>;
  /** Number of requests that were answered. */
  readonly answered: number;
  /** Stops writing, and ends what pauses work: maintenance, and the absence of nodes. */
  stop(): Promise<void>;
}

interface Payload {
  readonly errors: readonly { readonly message: string }[];
}

type Request = readonly [mutation: string, input: object];

const REGISTERED_AT_ONCE = 200;
const WRITERS = 3;
/** Pause after a request that was not answered, because the service was killed. */
const UNANSWERED_MS = 50;
const MOVED_MAX = 12;

async function send(url: string, [mutation, input]: Request): Promise<Payload> {
  const { payload } = await ask<{ payload: Payload }>(
    url,
    `mutation ($input: ${inputTypeOf(mutation)}!) { payload: ${mutation}(input: $input) { errors { message } } }`,
    { variables: { input } },
  );
  return payload;
}

function registration(name: string, group: string) {
  return {
    name,
    driver: { fake: { delayMs: 2, steps: { "clean.erase_devices": { progress: true, delayMs: 20 } } } },
    labels: [{ key: "group", value: group }],
  };
}

export async function registerFleet(url: string, { nodes, steady }: { nodes: number; steady: number }): Promise<void> {
  const all = [
    ...Array.from({ length: steady }, (_, index) => registration(`${STEADY}${index}`, "a")),
    ...Array.from({ length: nodes }, (_, index) => registration(`node-${index}`, index % 2 === 0 ? "a" : "b")),
  ];
  for (let from = 0; from < all.length; from += REGISTERED_AT_ONCE)
    await must(url, ["registerNodes", { nodes: all.slice(from, from + REGISTERED_AT_ONCE) }]);
  await must(url, ["createCluster", { name: CLUSTER }]);
}

async function must(url: string, request: Request): Promise<void> {
  const { errors } = await send(url, request);
  if (errors[0]) throw new Error(errors[0].message);
}

/** Makes random requests to a fleet. */
class Requests {
  readonly #random: Chance;
  readonly #names: string[];
  readonly #steady: readonly string[];
  #made = 0;

  constructor(random: Chance, { nodes, steady }: { nodes: number; steady: number }) {
    this.#random = random;
    this.#names = Array.from({ length: nodes }, (_, index) => `node-${index}`);
    this.#steady = Array.from({ length: steady }, (_, index) => `${STEADY}${index}`);
  }

  next(): Request {
    const random = this.#random;
    const nodes = { names: random.some(random.whole(1, MOVED_MAX), this.#names) };
    const work = { nodes, acceptance: "BEST_EFFORT" };
    const number = String((this.#made += 1));
    return random.weighed<() => Request>([
      [3, () => this.#relabel(nodes)],
      [2, () => ["updateNodes", { nodes: { names: this.#any() }, description: `round ${number}` }]],
      [2, () => ["updateNodes", { nodes: { names: [random.one(this.#names)] }, hostGroup: number }]],
      [2, () => ["setMaintenance", { nodes, reason: `round ${number}` }]],
      [2, () => ["clearMaintenance", { nodes }]],
      [1, () => ["setRetired", { nodes, reason: "old" }]],
      [1, () => ["clearRetired", { nodes }]],
      [2, () => ["updateCluster", { cluster: { name: CLUSTER }, add: nodes }]],
      [2, () => ["updateCluster", { cluster: { name: CLUSTER }, remove: nodes }]],
      [3, () => ["setPower", { ...work, action: random.one(["ON", "OFF", "REBOOT"]) }]],
      [1, () => ["readPower", { nodes }]],
      [2, () => ["manageNodes", work]],
      [2, () => ["inspectNodes", { ...work, nodes: { names: this.#any() } }]],
      [2, () => ["provideNodes", work]],
      [1, () => ["abort", { work: nodes }]],
      [2, () => ["reportPresence", this.#presence(nodes.names)]],
      [1, () => this.#register(number)],
      [1, () => this.#delete()],
    ])();
  }

  /** Some of all nodes. */
  #any(): readonly string[] {
    return this.#random.some(this.#random.whole(1, MOVED_MAX), [...this.#names, ...this.#steady]);
  }

  #relabel(nodes: object): Request {
    const value = this.#random.one(["a", "b", null]);
    const change = value === null ? { removeLabels: ["group"] } : { setLabels: [{ key: "group", value }] };
    return ["updateNodes", { nodes, ...change }];
  }

  #presence(names: readonly string[]): object {
    const event = this.#random.one(["DISCOVERED", "DISAPPEARED"]);
    return { event, nodes: names.map((name) => ({ name })) };
  }

  #register(number: string): Request {
    const names = Array.from({ length: this.#random.whole(1, 3) }, (_, index) => `late-${number}-${index}`);
    this.#names.push(...names);
    const nodes = names.map((name) => registration(name, this.#random.one(["a", "b"])));
    return ["registerNodes", { nodes }];
  }

  /** Names stay known: requests for a deleted node are refused. */
  #delete(): Request {
    const name = this.#random.one(this.#names);
    return ["deleteNodes", { nodes: { names: [name] } }];
  }
}

async function resumeWork(url: string): Promise<void> {
  await send(url, ["clearMaintenance", { nodes: { filter: { maintenance: true } } }]);
  const { nodes } = await ask<{ nodes: { nodes: readonly { name: string }[] } }>(
    url,
    "{ nodes(filter: { presences: [DISAPPEARED] }, first: 500) { nodes { name } } }",
  );
  const event = "DISCOVERED";
  if (nodes.nodes.length > 0) await must(url, ["reportPresence", { event, nodes: nodes.nodes }]);
}

export function startWriters(
  url: string,
  { random, nodes, steady }: { readonly random: Chance; readonly nodes: number; readonly steady: number },
): ChangeWriters {
  const accepted = new Map<string, number>();
  const requests = new Requests(random, { nodes, steady });
  let [over, answered] = [false, 0];
  const write = async () => {
    while (!over) {
      const request = requests.next();
      const answer = await send(url, request).catch(() => null);
      if (answer) answered += 1;
      else await delay(UNANSWERED_MS);
      if (answer?.errors.length === 0) accepted.set(request[0], (accepted.get(request[0]) ?? 0) + 1);
    }
  };
  const writing = Promise.all(Array.from({ length: WRITERS }, write));
  return {
    accepted,
    get answered() {
      return answered;
    },
    async stop() {
      over = true;
      await writing;
      await resumeWork(url);
    },
  };
}
