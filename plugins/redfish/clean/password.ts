/**
 * Changes the password of the driver's own user on the BMC from `password` to `nextPassword` of the node's settings.
 * At every instant one of the two logs in, and the driver tries both, so a crash in the middle is harmless. Afterwards
 * the operator sets `password` to the new one and removes `nextPassword`.
 */
import type { DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { RedfishError } from "../error.ts";
import { link, text } from "../resource.ts";
import { withService } from "../service.ts";
import type { RedfishService } from "../service.ts";
import { failed, onService } from "./clean-step.ts";
import type { CleanCall, CleanStep } from "./clean-step.ts";

export function rotatePassword(memory: DriverMemory | undefined): CleanStep {
  return {
    name: "rotate_password",
    title: "Change the BMC password to the `nextPassword` of the node's settings",
    phase: "clean",
    priority: 0,
    group: "management",
    interruptible: "AT_BOUNDARY",
    timeoutSeconds: 600,
    idempotent: true,
    touches: [],
    retries: { times: 3, backoffSeconds: 10 },
    run: onService(memory, rotate),
  };
}

async function rotate(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const { nextPassword, username } = call.settings;
  if (nextPassword === undefined)
    return failed('The node\'s settings have no "nextPassword"; set it to the new password first.');
  if (await logsInWith(call, nextPassword)) return { kind: "done", output: { passwordChanged: false } };
  const accounts = link(await service.get(await accountService(service), "account service"), "Accounts");
  const account = (await service.members(accounts, "accounts")).find((one) => text(one, "UserName") === username);
  const path = account && text(account, "@odata.id");
  if (path === undefined) return failed(`The BMC lists no account of user ${JSON.stringify(username)}.`);
  await service.get(path, "account");
  await service.patch(path, { Password: nextPassword }, "change the password of the account");
  if (!(await logsInWith(call, nextPassword)))
    return failed("The BMC accepted the new password, but refuses a login with it; the settings keep both passwords.");
  call.log("The BMC has the new password: set `password` to it, and remove `nextPassword`, with updateNodes.");
  return { kind: "done", output: { passwordChanged: true } };
}

async function accountService(service: RedfishService): Promise<string> {
  return link(await service.root(), "AccountService") ?? "/redfish/v1/AccountService";
}

/** Whether a login of its own, without a stored session, succeeds with a password. */
async function logsInWith(call: CleanCall, password: string): Promise<boolean> {
  const { nextPassword: _, ...settings } = call.settings;
  try {
    await withService({ ...call, settings: { ...settings, password } }, undefined, (service) => service.checkLogin());
    return true;
  } catch (error) {
    if (error instanceof RedfishError && error.kind === "AUTHENTICATION") return false;
    throw error;
  }
}
