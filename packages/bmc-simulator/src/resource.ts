/**
 * Building blocks of resources and answers. Paths are without the prefix /redfish/v1, and as the specification spells
 * them.
 */
import type { Bmc } from "./bmc.ts";
import type { Traits } from "./traits.ts";

export type Body = Readonly<Record<string, unknown>>;

export const ROOT = "/redfish/v1";

export const ENABLED = { State: "Enabled", Health: "OK" } as const;

export interface Call {
  readonly bmc: Bmc;
  /** Path of the resource. */
  readonly path: string;
  /** Parts of the path that the route leaves open. */
  readonly params: readonly string[];
  /** Parsed body; empty for a GET, and for a body that is not JSON. */
  readonly body: Body;
  readonly raw: Buffer;
  readonly contentType: string;
  /** ID of the session, null with basic authentication. */
  readonly sessionId: string | null;
}

export interface Answer {
  readonly status: number;
  readonly body?: Body | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly refusal?: Refusal;
}

export interface Refusal {
  /** Without the registry. */
  readonly messageId: string;
  readonly message: string;
  readonly args?: readonly string[];
}

export type Handler = (call: Call) => Answer | Promise<Answer>;

/**
 * `path` may contain `{system}`, `{manager}` and `{chassis}`, which stand for the IDs of the BMC, and `*` for one part.
 * `get` returns null if there is no such member.
 */
export interface Route {
  readonly path: string;
  readonly offered?: (traits: Traits) => boolean;
  readonly get?: (call: Call) => Body | null;
  readonly post?: Handler;
  readonly patch?: Handler;
  readonly delete?: Handler;
}

export const link = (path: string) => ({ "@odata.id": ROOT + path });

export const links = (paths: readonly string[]) => paths.map(link);

export const linkIf = (offered: boolean, name: string, path: string): Body => (offered ? { [name]: link(path) } : {});

/** `type` with its version, as `Chassis.v1_10_0`. */
export function resource(type: string, path: string, members: Body): Body {
  return { "@odata.type": `#${type}.${type.split(".")[0]}`, "@odata.id": ROOT + path, ...members };
}

export function collection(type: string, path: string, ids: readonly string[]): Body {
  return {
    "@odata.type": `#${type}Collection.${type}Collection`,
    "@odata.id": ROOT + path,
    Name: `${type} Collection`,
    "Members@odata.count": ids.length,
    Members: links(ids.map((id) => `${path}/${id}`)),
  };
}

export const action = (path: string, name: string) => ({ target: `${ROOT}${path}/Actions/${name}` });

export function refuse(status: number, messageId: string, message: string, ...args: readonly string[]): Answer {
  return { status, refusal: { messageId, message, args } };
}

export const notFound = (path: string) => refuse(404, "ResourceMissingAtURI", `There is no resource at ${path}.`, path);

/** Success of an action, as this BMC answers it. */
export function done({ traits }: Bmc): Answer {
  if (traits.power.answer === 204) return { status: 204 };
  return {
    status: 200,
    body: messageBody(traits, { messageId: "Success", message: "Successfully Completed Request" }),
  };
}

export function messageBody({ messageRegistry, login }: Traits, { messageId, message, args = [] }: Refusal): Body {
  const generic = login.refusal === "extended-info" ? "ExtendedInfo" : "GeneralError";
  return {
    error: {
      code: `${messageRegistry}.${generic}`,
      message: "A general error has occurred. See ExtendedInfo for more information.",
      "@Message.ExtendedInfo": [
        {
          "@odata.type": "#Message.v1_1_2.Message",
          MessageId: `${messageRegistry}.${messageId}`,
          Message: message,
          MessageArgs: args,
          Severity: messageId === "Success" ? "OK" : "Warning",
          Resolution: "None.",
        },
      ],
    },
  };
}

export interface Places {
  readonly system: string;
  readonly manager: string;
  readonly chassis: string;
}

export function placesOf({ ids }: Traits): Places {
  return {
    system: `/Systems/${ids.system}`,
    manager: `/Managers/${ids.manager}`,
    chassis: `/Chassis/${ids.chassis}`,
  };
}

export const isBody = (value: unknown): value is Body =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A member of a body that is an object, or an empty one. */
export function objectAt(body: Body, name: string): Body {
  const value = body[name];
  return isBody(value) ? value : {};
}

/** A member of a body that is a text, or null. */
export function textAt(body: Body, name: string): string | null {
  const value = body[name];
  return typeof value === "string" ? value : null;
}
