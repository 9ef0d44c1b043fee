/**
 * Replays a recording of a BMC: its resources, which power, boot sources and media change, by the rules that it states
 * itself: allowable values, parameters of its actions with those that are required, and no property that it does not
 * have.
 */
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { Server } from "node:http";
import { isRecord } from "../../src/runtime/json-values.ts";

type Resource = Readonly<Record<string, unknown>>;

export interface Replay extends AsyncDisposable {
  readonly port: number;
  /** Paths that were read and that the recording lacks. */
  lacking(): string[];
  /** Changes that were refused: the rule, and what broke it. */
  refused(): string[];
  resource(path: string): Resource | undefined;
}

export const LOGIN = { username: "reader", password: "recorded-password" } as const;

class Refusal extends Error {}

const at = (resource: Resource | undefined, name: string): Resource => {
  const found = resource?.[name];
  return isRecord(found) ? found : {};
};

export async function replay(folder: string): Promise<Replay> {
  const changed = new Map<string, Resource>();
  const lacking = new Set<string>();
  const refused: string[] = [];
  const tokens = new Set<string>();

  const resource = (path: string): Resource | undefined => {
    const plain = path.replace(/\/+$/, "");
    const known = changed.get(plain.toLowerCase());
    if (known) return known;
    const file = [plain, plain.replace(/^\/redfish\/v1/, "")]
      .map((one) => `${folder}${one}/index.json`)
      .find((one) => existsSync(one));
    return file === undefined ? undefined : (JSON.parse(readFileSync(file, "utf8")) as Resource);
  };
  const change = (path: string, now: Resource) => changed.set(path.replace(/\/+$/, "").toLowerCase(), now);
  const refuse = (rule: string, name: string): never => {
    refused.push(`${rule} ${name}`);
    throw new Refusal(`Base.1.8.${rule}|${name}`);
  };

  /** The resource with the changes, if it has all of their members and lists their values. */
  const merged = (resourceNow: Resource, changes: Resource): Resource => {
    const entries = Object.entries(changes).map(([name, value]) => {
      if (!(name in resourceNow)) refuse("PropertyUnknown", name);
      const allowed = resourceNow[`${name}@Redfish.AllowableValues`];
      if (Array.isArray(allowed) && !allowed.includes(value))
        refuse("PropertyValueNotInList", `${name} ${String(value)}`);
      return [name, isRecord(value) ? merged(at(resourceNow, name), value) : value] as const;
    });
    return { ...resourceNow, ...Object.fromEntries(entries) };
  };

  /** Checks the parameters of an action by its own values and by its ActionInfo. */
  const checkAction = (action: Resource, body: Resource) => {
    const info = action["@Redfish.ActionInfo"];
    const listed = typeof info === "string" ? resource(info)?.["Parameters"] : undefined;
    const parameters = Array.isArray(listed) ? listed.filter(isRecord) : [];
    for (const { Name, Required } of parameters)
      if (Required === true && !(String(Name) in body)) refuse("ActionParameterMissing", String(Name));
    for (const [name, value] of Object.entries(body)) {
      const parameter = parameters.find(({ Name }) => Name === name);
      if (parameters.length > 0 && !parameter) refuse("ActionParameterUnknown", name);
      const allowed = action[`${name}@Redfish.AllowableValues`] ?? parameter?.["AllowableValues"];
      if (Array.isArray(allowed) && allowed.length > 0 && !allowed.includes(value))
        refuse("ActionParameterValueNotInList", `${name} ${String(value)}`);
    }
  };

  const act = (target: string, body: Resource): number => {
    const owner = target.replace(/\/Actions\/[^/]*\/?$/i, "");
    const now = resource(owner);
    const found = Object.entries(at(now, "Actions")).find(
      ([, action]) => isRecord(action) && String(action["target"]).toLowerCase() === target.toLowerCase(),
    );
    if (!now || !found) return 404;
    const [name, action] = found;
    checkAction(action as Resource, body);
    switch (name) {
      case "#ComputerSystem.Reset":
        change(owner, { ...now, PowerState: /Off|Shutdown/.test(String(body["ResetType"])) ? "Off" : "On" });
        break;
      case "#VirtualMedia.InsertMedia": {
        // Some list the action only while a medium is inserted.
        const eject = { target: `${owner}/Actions/VirtualMedia.EjectMedia` };
        const actions = { "#VirtualMedia.EjectMedia": eject, ...at(now, "Actions") };
        change(owner, { ...now, Image: body["Image"], Inserted: true, Actions: actions });
        break;
      }
      case "#VirtualMedia.EjectMedia":
        change(owner, { ...now, Image: null, Inserted: false });
        break;
      default:
    }
    return 204;
  };

  const answer = (
    method: string,
    path: string,
    body: Resource,
  ): { status: number; body?: Resource; token?: string } => {
    if (method === "POST" && /\/Sessions\/?$/.test(path)) {
      if (body["UserName"] !== LOGIN.username || body["Password"] !== LOGIN.password) return { status: 401 };
      const token = `token-${tokens.size}`;
      tokens.add(token);
      return { status: 201, token };
    }
    if (method === "GET") {
      const found = resource(path);
      if (!found) lacking.add(path);
      return found ? { status: 200, body: found } : { status: 404 };
    }
    try {
      if (method === "POST") return { status: act(path, body) };
      const now = resource(path);
      if (method !== "PATCH" || !now) return { status: 405 };
      change(path, merged(now, body));
      return { status: 204 };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const [MessageId, name = ""] = error.message.split("|");
      const info = [{ MessageId, Message: `The member ${name} is refused.`, MessageArgs: [name] }];
      return { status: 400, body: { error: { code: MessageId, "@Message.ExtendedInfo": info } } };
    }
  };

  const server: Server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://bmc").pathname);
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const isOpen = /^\/redfish\/v1\/?$/.test(path) || path.replace(/\/$/, "").endsWith("/Sessions");
      const isKnown = tokens.has(String(request.headers["x-auth-token"]));
      const body: unknown = text === "" ? {} : JSON.parse(text);
      const given = isRecord(body) ? body : {};
      const found = isOpen || isKnown ? answer(request.method ?? "GET", path, given) : { status: 401 };
      const headers = found.token === undefined ? {} : { "x-auth-token": found.token, location: `${path}/1` };
      response.writeHead(found.status, { "content-type": "application/json", ...headers });
      response.end(found.status === 204 ? undefined : JSON.stringify(found.body ?? {}));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    lacking: () => [...lacking],
    refused: () => refused,
    resource,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
