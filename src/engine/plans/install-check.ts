/**
 * The check that a deployment installs a system. Without a step that reaches PROVISIONED, a node would become ACTIVE
 * with nothing installed. The site's policy may not take such steps away from a driver, for the same reason.
 */
import type { Refusal } from "../../errors.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Plan, SitePolicy } from "../../store/records.ts";
import { OFF_REASONS, catalogueOf } from "./catalogue.ts";
import type { CatalogueBasis, CatalogueEntry } from "./catalogue.ts";
import type { ChosenList } from "./plan.ts";

/**
 * The refusal of a plan that deploys a node without installing a system; null if it installs one or the node has one.
 */
export function installFlaw(
  node: Pick<NodeRow, "id" | "name" | "stage">,
  { plan, chosen, ...basis }: CatalogueBasis & { readonly plan: Plan; readonly chosen: ChosenList | undefined },
): Refusal | null {
  const deploy = plan.legs.findIndex(({ phase }) => phase === "deploy");
  if (deploy < 0 || plan.steps.some((step) => step.leg === deploy && step.reaches === "PROVISIONED")) return null;
  // Earlier phases of the plan, such as a cleaning, remove the system.
  if (deploy === 0 && node.stage !== "NONE") return null;
  const offered = catalogueOf(basis, "deploy").filter(installs);
  const names = offered.map(labelOf).join(", ");
  const refuse = (code: Refusal["code"], why: string, path?: readonly string[]): Refusal => ({
    code,
    message: `Node ${node.name} cannot be deployed, because no step would install a system (reach PROVISIONED): ${why}`,
    nodeId: node.id,
    ...(path && { path }),
  });
  if (offered.length === 0) {
    const driver = basis.composition.giver("deploy")?.name ?? "none";
    return refuse(
      "UNSUPPORTED_BY_DRIVER",
      `driver ${driver} has no such step. Take this interface from another driver.`,
    );
  }
  if (chosen?.phase === "deploy") return refuse("INVALID_INPUT", `add ${names} to the steps.`, chosen.path);
  const reasons = offered.map((entry) => `${labelOf(entry)}: ${OFF_REASONS[entry.off ?? "PRIORITY"]}`).join(" ");
  return refuse(
    "UNSUPPORTED_BY_DRIVER",
    `${reasons} Change its priority with updateSite, or name the steps in deployNodes.`,
  );
}

/** Labels of the steps of a driver that install a system, if the policy leaves none of them; otherwise empty. */
export function installStepsLost(policy: SitePolicy, driver: AnyDriver): readonly string[] {
  const before = offersOf({}, driver);
  const after = offersOf(policy, driver);
  const isLost = before.some(({ off }) => off === null)
    ? after.every(({ off }) => off !== null)
    : after.length > 0 && after.every(({ off }) => off === "FORBIDDEN");
  return isLost ? after.map(labelOf) : [];
}

function offersOf(policy: SitePolicy, driver: AnyDriver): readonly CatalogueEntry[] {
  const composition = { giver: () => driver, givers: () => [driver], inspectors: [], drivers: [driver] };
  return catalogueOf({ composition, policy, automaticCleaning: true }, "deploy").filter(installs);
}

function installs({ step }: CatalogueEntry): boolean {
  return step.reaches === "PROVISIONED";
}

function labelOf({ interface: name, step }: CatalogueEntry): string {
  return `${name}.${step.name}`;
}
