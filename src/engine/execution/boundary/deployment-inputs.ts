/** The inputs of a deployment, as they are stored with its node: with digests in place of secrets. */
import type { Configuration, InstalledSystem } from "../../../store/records.ts";
import { HOST_GROUP } from "../../input/variables.ts";
import { deployedSteps, variableDigest } from "../../plans/deployed-steps.ts";
import type { RunContext } from "../claim/claimed-run.ts";

/** At the end of the step that has reached PROVISIONED. */
export function installedSystem({ environment, claimed }: RunContext): InstalledSystem {
  const { run, plan, installed } = claimed;
  const { image, userData } = installed;
  return {
    image: image && { id: image.id, name: image.name, checksum: image.checksum },
    userData: userData === null ? null : environment.digest(userData),
    ...(run.hasOwnUserData && { hasOwnUserData: true }),
    steps: deployedSteps(plan).system,
  };
}

/** At the end of the deployment. */
export function configurationOf({ environment, claimed }: RunContext): Configuration {
  const { plan, variables, secretNames } = claimed;
  const { [HOST_GROUP]: hostGroup, ...others } = variables;
  const stored = Object.entries(others).map(([name, value]) => {
    const input = secretNames.has(name) ? { digest: variableDigest(environment, name, value) } : { value };
    return [name, input] as const;
  });
  return {
    hostGroup: typeof hostGroup === "string" ? hostGroup : null,
    variables: Object.fromEntries(stored),
    steps: deployedSteps(plan).configuration,
    ...(plan.chosen && { chosen: plan.chosen }),
  };
}
