/** Faults that a BMC shows on request: of the network, of the session, of the answer, of its tasks. */

export type FaultKind =
  /** Answers late, by `ms`. */
  | { readonly kind: "slow"; readonly ms: number }
  /** Reads the request and never answers. */
  | { readonly kind: "silent" }
  /** Accepts the connection and reads nothing, so that not even TLS begins. Affects new connections; has no path. */
  | { readonly kind: "deaf" }
  /** Sends the head and half of the body, and then nothing; or closes the connection. */
  | { readonly kind: "half" | "cut" }
  /** Sends control characters within texts, which JSON does not allow. */
  | { readonly kind: "control-characters" }
  /** Sends every body in gzip, and answers 406 to a client that does not accept it. */
  | { readonly kind: "compressed" }
  /** Answers 429 with the time as a date. */
  | { readonly kind: "too-many"; readonly retryAfterSeconds: number }
  /** Answers 403 with the message that the session has ended. */
  | { readonly kind: "session-forbidden" }
  /** Resets the connection. */
  | { readonly kind: "reset" }
  /** Does what the request asks for, and resets the connection in place of an answer. */
  | { readonly kind: "lost-answer" }
  | { readonly kind: "unavailable"; readonly retryAfterSeconds: number }
  /** Ends the session that the request uses, and answers 401. Requests without a session get 401 too. */
  | { readonly kind: "lost-session" }
  /** Sends the answer without its last third. */
  | { readonly kind: "malformed" }
  /** Sends valid JSON of `bytes` bytes. */
  | { readonly kind: "huge"; readonly bytes: number }
  /** Answers in place of the BMC, as a gateway or a login does. */
  | { readonly kind: "answer"; readonly status: number; readonly body: OtherBody }
  /** Redirects to a page at the BMC's own address. */
  | { readonly kind: "login-page" }
  /** Redirects to the same path at another origin, such as `http://127.0.0.9:80`. */
  | { readonly kind: "redirect"; readonly to: string }
  /** Affects new TLS connections; has no path. */
  | { readonly kind: "certificate"; readonly problem: CertificateProblem }
  /** Tasks that start from now on never end. */
  | { readonly kind: "stuck-task" };

/** A page, nothing, an object that is not of Redfish, a list, an error of Redfish without a reason, or no members. */
export type OtherBody = "page" | "none" | "object" | "list" | "error" | "empty-list";

export type CertificateProblem = "expired" | "wrong-name";

export type Fault = FaultKind & {
  /** Only requests whose path and query contain this text, such as `/Systems`. */
  readonly path?: string;
  readonly method?: string;
  /** The fault ends after this number of requests. */
  readonly times?: number;
};

export interface Faults {
  /** Adds a fault; the returned function removes it. */
  add(fault: Fault): () => void;
  /** Replaces all faults. */
  set(faults: readonly Fault[]): void;
  clear(): void;
  list(): readonly Fault[];
}

/** Faults as the service of requests uses them. */
export interface FaultSwitch extends Faults {
  /** Faults for one request; counts it. */
  take(method: string, path: string): readonly Fault[];
  /** The first fault of a kind that belongs to no request; does not count. */
  find<K extends "deaf" | "certificate" | "stuck-task">(kind: K): Extract<Fault, { kind: K }> | undefined;
}

const WITHOUT_REQUEST: readonly string[] = ["deaf", "certificate", "stuck-task"];

export function createFaults(): FaultSwitch {
  let active: { readonly fault: Fault; left: number }[] = [];
  const add = (fault: Fault) => {
    const one = { fault: checkedFault(fault), left: fault.times ?? Infinity };
    active.push(one);
    return () => {
      active = active.filter((other) => other !== one);
    };
  };
  return {
    add,
    set(faults) {
      const checked = faults.map(checkedFault);
      active = checked.map((fault) => ({ fault, left: fault.times ?? Infinity }));
    },
    clear() {
      active = [];
    },
    list: () => active.map(({ fault }) => fault),
    take(method, path) {
      if (active.length === 0) return [];
      const hit = active.filter(({ fault }) => affects(fault, method, path));
      for (const one of hit) one.left -= 1;
      active = active.filter(({ left }) => left > 0);
      return hit.map(({ fault }) => fault);
    },
    find: (kind) =>
      active
        .map(({ fault }) => fault)
        .find((fault): fault is Extract<Fault, { kind: typeof kind }> => fault.kind === kind),
  };
}

function affects(fault: Fault, method: string, path: string): boolean {
  if (WITHOUT_REQUEST.includes(fault.kind)) return false;
  return (fault.method ?? method) === method && path.includes(fault.path ?? "");
}

/** Name and type of the members that a kind needs. */
const NEEDS: Record<FaultKind["kind"], Readonly<Record<string, "number" | "string">>> = {
  slow: { ms: "number" },
  silent: {},
  deaf: {},
  half: {},
  cut: {},
  compressed: {},
  "too-many": { retryAfterSeconds: "number" },
  "session-forbidden": {},
  reset: {},
  "lost-answer": {},
  unavailable: { retryAfterSeconds: "number" },
  "lost-session": {},
  malformed: {},
  "control-characters": {},
  huge: { bytes: "number" },
  answer: { status: "number", body: "string" },
  "login-page": {},
  redirect: { to: "string" },
  certificate: { problem: "string" },
  "stuck-task": {},
};

/** The fault, checked: faults also arrive as JSON at the control address. */
export function checkedFault(fault: Fault): Fault {
  const needs: Readonly<Record<string, string>> | undefined = NEEDS[fault.kind];
  if (needs === undefined)
    throw new Error(`Unknown fault "${fault.kind}": use one of ${Object.keys(NEEDS).join(", ")}.`);
  const types = { path: "string", method: "string", times: "number", kind: "string", ...needs };
  const wrong = Object.entries(types).filter(([name, type]) => {
    const value: unknown = Object.entries(fault).find(([key]) => key === name)?.[1];
    return value === undefined ? name in needs : typeof value !== type;
  });
  const unknown = Object.keys(fault).filter((name) => !(name in types));
  const [first] = wrong;
  if (first) throw new Error(`Fault "${fault.kind}" needs ${first[0]} as a ${first[1]}.`);
  if (unknown.length > 0) throw new Error(`Fault "${fault.kind}" has no member ${unknown.join(", ")}.`);
  if (fault.kind === "certificate" && !["expired", "wrong-name"].includes(fault.problem))
    throw new Error(`Fault "certificate" needs problem as "expired" or "wrong-name".`);
  return fault;
}
