/**
 * The administrator: a process without faults. It creates accounts, and during the storm it changes their roles,
 * revokes their tokens and creates new ones, at random replicas. Every request is recorded before it is sent, and so is
 * its answer. A request is repeated until it is answered.
 */
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { inputTypeOf } from "../support/input-type.ts";
import { chance } from "../durability/lab.ts";
import { START, obey } from "./control.ts";
import { ask } from "./graphql-request.ts";
import { clock, record } from "./records.ts";
import type { AccessChange } from "./records.ts";
import { CONFIGURED, writeTokens } from "./tokens.ts";
import type { Credential } from "./tokens.ts";

const COMMAND = z.discriminatedUnion("do", [
  START.extend({ accounts: z.number() }),
  // Creates the accounts with their roles and tokens.
  z.object({ do: z.literal("warm-up") }),
  z.object({ do: z.literal("storm") }),
  // Changes nothing more, once every account may work with nodes.
  z.object({ do: z.literal("quiet") }),
]);
export type AccountsCommand = z.infer<typeof COMMAND>;

const TIMEOUT_MS = 10_000;
/** Pause between two changes, and before a repetition, in milliseconds. */
const PAUSE_MS = [200, 1_500] as const;

interface Payload {
  readonly secret?: string | null;
  readonly token?: { readonly tokenId: string } | null;
  readonly errors: readonly { readonly message: string }[];
}

type Handler = (command: AccountsCommand) => Promise<unknown>;
let handle: Handler = (command) => {
  if (command.do !== "start") throw new Error("The administrator has not been started.");
  handle = createAdministrator(command);
  return Promise.resolve();
};
let end: () => Promise<void> = () => Promise.resolve();

function createAdministrator({ seed, folder, urls, accounts }: Extract<AccountsCommand, { do: "start" }>): Handler {
  const written = record(folder, "access");
  const random = chance(seed * 3_000);
  const names = Array.from({ length: accounts }, (_, index) => `account-${index + 1}`);
  const tokens = new Map<string, Credential>();
  const count = { changes: 0 };
  let requests = 0;
  let isStorm = false;
  let running: Promise<unknown> = Promise.resolve();
  end = () => written.close();

  async function untilAnswered(mutation: AccessChange["mutation"], account: string, input: object): Promise<Payload> {
    const own = mutation === "createToken" ? "secret token { tokenId }" : "";
    const query = `mutation ($input: ${inputTypeOf(mutation)}!) { ${mutation}(input: $input) { ${own} errors { message } } }`;
    for (;;) {
      const id = `access-${(requests += 1)}`;
      written.write({ t: clock(), k: "change", id, mutation, account });
      const options = { timeoutMs: TIMEOUT_MS, token: CONFIGURED.token, requestId: id };
      const url = urls[random.one(Object.keys(urls))] ?? "";
      const answer = await ask<Record<string, Payload>>(url, query, { input }, options).catch(() => null);
      const payload = answer?.errors.length === 0 ? answer.data?.[mutation] : null;
      if (payload) {
        written.write({ t: clock(), k: "changed", id });
        count.changes += 1;
        return payload;
      }
      await delay(random.whole(...PAUSE_MS));
    }
  }

  const setRole = (account: string, role: string | null) =>
    untilAnswered("setRoles", account, { principal: `account:${account}`, roles: role === null ? [] : [{ role }] });
  const someRole = () =>
    random.weighed<string | null>([
      [1, null],
      [2, "viewer"],
      [4, "operator"],
      [3, "manager"],
    ]);

  /** The old token is revoked first, and used until its owner finds the new one. */
  async function changeToken(account: string): Promise<void> {
    const old = tokens.get(account);
    if (old) await untilAnswered("revokeTokens", account, { tokens: { ids: [old.tokenId] } });
    const { secret, token } = await untilAnswered("createToken", account, { account });
    tokens.set(account, { account, tokenId: token?.tokenId ?? "", token: secret ?? "" });
    writeTokens(folder, [...tokens.values()]);
  }

  async function change(): Promise<void> {
    while (isStorm) {
      await delay(random.whole(...PAUSE_MS));
      const account = random.one(names);
      if (random.often(0.25)) await changeToken(account);
      else await setRole(account, someRole());
    }
  }

  return async (command) => {
    switch (command.do) {
      case "start":
        throw new Error("The administrator has already been started.");
      case "warm-up":
        for (const account of names) {
          await untilAnswered("createAccount", account, { name: account });
          await setRole(account, someRole());
          await changeToken(account);
        }
        return;
      case "storm":
        isStorm = true;
        running = change();
        return;
      case "quiet":
        isStorm = false;
        await running;
        for (const account of names) await setRole(account, "operator");
        return { ...count };
    }
  };
}

obey(
  (message) => COMMAND.parse(message),
  (command) => handle(command),
  () => end(),
);
