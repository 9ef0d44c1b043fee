/** `ostler token`: makes tokens of accounts of a running service, through its API. */
import { parseArgs } from "node:util";
import { CLIENT_VARIABLE, readConfig } from "../config/config.ts";
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";
import { includesScope } from "../lifecycle/scopes.ts";
import type { Scope } from "../lifecycle/scopes.ts";
import { endpointOf, graphqlRequest, mutate } from "./graphql-request.ts";
import type { Endpoint } from "./graphql-request.ts";

const HELP = `Usage:
  ostler token create --account NAME --role ROLE [flags]   print a new token; it is shown once
  ostler token help                                        print this

The account is created if there is none of the name, and gets the role if its roles allow less. The command speaks to a
running service, with the token of OSTLER_TOKEN or OSTLER_TOKEN_FILE.

Flags:
  --days NUMBER        days until the token expires, 1 to 366; default 90
  --description TEXT   purpose of the token
  --url URL            address of the service; default: OSTLER_URL, else that of OSTLER_HOST and OSTLER_PORT
`;

const OPTIONS = {
  account: { type: "string" },
  role: { type: "string" },
  days: { type: "string" },
  description: { type: "string" },
  url: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;

/** The text that the command prints: the token alone, so that a script can keep it. */
export async function tokenCommand(
  environment: NodeJS.ProcessEnv,
  [what = "help", ...args]: readonly string[],
): Promise<string> {
  if (what === "help" || what === "--help" || what === "-h") return HELP;
  if (what !== "create") throw new ConfigError(`\`ostler token ${what}\` does not exist. Use create or help.`);
  const { account, role, days, description, url, help } = readFlags(args);
  if (help === true) return HELP;
  if (account === undefined || role === undefined)
    throw new ConfigError("`ostler token create` needs --account and --role. See `ostler token help`.");
  if (days !== undefined && !/^\d{1,3}$/.test(days))
    throw new ConfigError(`--days is ${JSON.stringify(days)}. Use a whole number of days, 1 to 366.`);
  const endpoint = endpointOf(readConfig(environment, []), url ?? environment[CLIENT_VARIABLE]);
  await grantRole(endpoint, account, role);
  const input = { account, role, description, ...(days !== undefined && { expiresInDays: Number(days) }) };
  const { secret } = await mutate<{ readonly secret: string }>(endpoint, "createToken", { input, fields: "secret" });
  return `${secret}\n`;
}

function readFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: false }).values;
  } catch (error) {
    throw new ConfigError(`${messageOf(error).replace(/\.?$/, ".")} See \`ostler token help\`.`);
  }
}

interface Known {
  readonly accounts: readonly {
    readonly name: string;
    readonly grants: readonly { readonly role: string; readonly expiresAt: string | null }[];
  }[];
  readonly roles: readonly { readonly name: string; readonly scope: Scope }[];
}

const KNOWN = "{ accounts { name grants { role expiresAt } } roles { name scope } }";

/** Creates the account if it does not exist, and adds the role if its grants allow less. */
async function grantRole(endpoint: Endpoint, name: string, role: string): Promise<void> {
  const { accounts, roles } = await graphqlRequest<Known>(endpoint, KNOWN, {});
  const scopeOf = new Map(roles.map((one) => [one.name, one.scope]));
  const scope = scopeOf.get(role);
  if (!scope) throw new ConfigError(`There is no role ${role}. Use one of ${roles.map((one) => one.name).join(", ")}.`);
  const account = accounts.find((one) => one.name.toLowerCase() === name.toLowerCase());
  if (!account) await mutate(endpoint, "createAccount", { input: { name } });
  const grants = account?.grants ?? [];
  const isGranted = grants.some((one) => one.expiresAt === null && includesScope(scopeOf.get(one.role) ?? null, scope));
  if (isGranted) return;
  const kept = grants.filter((one) => one.role !== role && !isOver(one.expiresAt));
  await mutate(endpoint, "setRoles", { input: { principal: `account:${name}`, roles: [...kept, { role }] } });
}

function isOver(expiresAt: string | null): boolean {
  return expiresAt !== null && new Date(expiresAt) <= new Date();
}
