/** A client of the service: plain GraphQL requests, and a subscription that follows every transition. */
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { ask } from "../../support/ask.ts";
import { eventually } from "../../support/eventually.ts";
import type { Service } from "./service.ts";
import { inputTypeOf } from "../../support/input-type.ts";

interface Refusal {
  readonly code: string;
  readonly message: string;
}

interface Failure extends Refusal {
  readonly step: string | null;
  readonly retryable: boolean;
}

/** State of a machine after an abort. */
interface MachineCondition {
  readonly power: string;
  readonly disksChanged: boolean;
  readonly cleanUpError: string | null;
}

export interface Run {
  readonly nodeName: string;
  readonly state: string;
  readonly currentStep: { readonly name: string; readonly progressPercent: number | null } | null;
  readonly failure: Failure | null;
  readonly machineCondition: MachineCondition | null;
}

export interface Operation {
  readonly uuid: string;
  readonly state: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly runs: readonly Run[];
}

export interface Node {
  readonly name: string;
  readonly state: string;
  readonly powerState: string;
  readonly lastError: Refusal | null;
  readonly inventory: { readonly takenAt: string; readonly data: Readonly<Record<string, unknown>> } | null;
}

export interface Transition {
  readonly cursor: string;
  readonly nodeName: string;
  readonly from: string | null;
  readonly to: string | null;
  readonly at: string;
}

interface Connection<Item> {
  readonly edges: readonly { readonly node: Item }[];
}

const FAILURE = "failure { code message retryable step }";
const RUN = `nodeName state currentStep { name progressPercent } ${FAILURE} machineCondition { power disksChanged cleanUpError }`;
const OPERATION = `uuid state startedAt finishedAt runs(first: 100) { edges { node { ${RUN} } } }`;
const NODE = "name state powerState lastError { code message } inventory { takenAt data }";
const TRANSITION = "cursor nodeName from to at";

export interface Api {
  query<Data>(text: string, variables?: Readonly<Record<string, unknown>>): Promise<Data>;
  /** Sends a mutation with one input; throws what it was refused with. */
  mutate<Payload>(name: string, input: unknown, fields: string): Promise<Payload>;
  /** Requests work, and returns the UUID of its operation. */
  work(verb: string, input: unknown): Promise<string>;
  operation(uuid: string): Promise<Operation>;
  /** The steps of its first run, in order. */
  stepsOf(uuid: string): Promise<readonly string[]>;
  /** Waits until an operation has ended. */
  end(uuid: string, withinMs: number): Promise<Operation>;
  node(name: string): Promise<Node>;
  /** Waits until a step of the node's run has reached a share of its work. */
  working(uuid: string, name: string, step: string, percent: number, withinMs: number): Promise<void>;
}

export function createApi(service: Service): Api {
  const query: Api["query"] = (text, variables = {}) => ask(service.url, text, { variables });
  const mutate = async <Payload>(name: string, input: unknown, fields: string) => {
    const data = await query<Record<string, Payload & { readonly errors: readonly Refusal[] }>>(
      `mutation ($input: ${inputTypeOf(name)}!) { ${name}(input: $input) { ${fields} errors { code message } } }`,
      { input },
    );
    const payload = data[name];
    if (payload === undefined) throw new Error(`${name} has no answer.`);
    const [refusal] = payload.errors;
    if (refusal) throw new Error(`${name} was refused: ${refusal.code} ${refusal.message}`);
    return payload;
  };
  const operation = async (uuid: string): Promise<Operation> => {
    const data = await query<{ operation: Omit<Operation, "runs"> & { readonly runs: Connection<Run> } }>(
      `query ($id: ID!) { operation(id: $id) { ${OPERATION} } }`,
      { id: uuid },
    );
    return { ...data.operation, runs: data.operation.runs.edges.map(({ node }) => node) };
  };
  return {
    query,
    mutate,
    async work(verb, input) {
      const payload = await mutate<{ readonly operation: { readonly uuid: string } | null }>(
        verb,
        input,
        "operation { uuid }",
      );
      if (payload.operation === null) throw new Error(`${verb} has started no operation.`);
      return payload.operation.uuid;
    },
    operation,
    async stepsOf(uuid) {
      const text = "query ($id: ID!) { operation(id: $id) { runs(first: 1) { edges { node { steps { name } } } } } }";
      const { operation: found } = await query<{ operation: { runs: Connection<{ steps: { name: string }[] }> } }>(
        text,
        {
          id: uuid,
        },
      );
      return found.runs.edges.flatMap(({ node }) => node.steps.map((step) => step.name));
    },
    end: (uuid, withinMs) =>
      eventually(
        `operation ${uuid} ends`,
        // The service may be restarting.
        async () => {
          const found = await operation(uuid).catch(() => null);
          return found !== null && found.finishedAt !== null && found;
        },
        withinMs,
      ),
    async working(uuid, name, step, percent, withinMs) {
      await eventually(
        `${name} has done ${percent} % of ${step}`,
        async () => {
          const found = await operation(uuid);
          const run = found.runs.find(({ nodeName }) => nodeName === name);
          if (found.finishedAt !== null || run?.failure) throw new Error(`It ended before: ${describeEnd(found)}`);
          return run?.currentStep?.name === step && (run.currentStep.progressPercent ?? 0) >= percent;
        },
        withinMs,
      );
    },
    async node(name) {
      const { node } = await query<{ node: Node | null }>(
        `query ($name: String!) { node(by: { name: $name }) { ${NODE} } }`,
        {
          name,
        },
      );
      if (node === null) throw new Error(`There is no node ${name}.`);
      return node;
    },
  };
}

/** State of an operation, and the failures of its runs. */
export function describeEnd({ state, runs }: Operation): string {
  const failures = runs.flatMap(({ nodeName, failure }) =>
    failure ? [`${nodeName} in ${failure.step ?? "no step"}: ${failure.code} ${failure.message}`] : [],
  );
  return [state, ...failures].join("; ");
}

export interface Follower extends AsyncDisposable {
  /** Transitions since the start, in order. */
  readonly seen: readonly Transition[];
  /** States that a node has entered, in order. */
  statesOf(name: string): readonly string[];
  /** Waits for a state of a node that was entered after a number of its transitions. */
  reaches(name: string, state: string, after: number, withinMs: number): Promise<void>;
}

const RECONNECT_MS = 250;

/** Follows all transitions over WebSocket; after a disconnect it resumes from the last cursor. */
export function followTransitions(service: Service): Follower {
  const seen: Transition[] = [];
  let isOver = false;
  let disconnect = async () => {};
  const loop = (async () => {
    while (!isOver) {
      const client = createClient({
        url: service.url.replace("http", "ws"),
        webSocketImpl: WebSocket,
        retryAttempts: 0,
      });
      // Rejects while the client is connecting; nothing needs to be closed then.
      disconnect = () => Promise.resolve(client.dispose()).catch(() => undefined);
      try {
        const items = client.iterate<{ nodeTransitions: Transition & { readonly kind: string } }>({
          query: `subscription ($after: String) { nodeTransitions(after: $after) { kind: __typename ... on Transition { ${TRANSITION} } } }`,
          variables: { after: seen.at(-1)?.cursor ?? "0" },
        });
        for await (const { data } of items)
          if (data?.nodeTransitions.kind === "Transition") seen.push(data.nodeTransitions);
      } catch {
        // The service is restarting.
      }
      await disconnect();
      if (!isOver) await delay(RECONNECT_MS);
    }
  })();
  const statesOf = (name: string) => seen.flatMap(({ nodeName, to }) => (nodeName === name && to !== null ? [to] : []));
  return {
    seen,
    statesOf,
    async reaches(name, state, after, withinMs) {
      await eventually(`${name} reaches ${state}`, () => statesOf(name).slice(after).includes(state), withinMs);
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      await disconnect();
      await loop;
    },
  };
}
