/** The automatic steps of the driver `fake`, as tests expect them in plans and logs: a new one is added here. */

/** By phase, in the order in which they run. Verification is a step of the driver's power. */
export const FAKE_STEPS = {
  verify: ["power.verify"],
  inspect: ["inspect.collect_inventory"],
  clean: ["clean.erase_metadata", "clean.erase_disks"],
  deploy: ["deploy.prepare", "deploy.write_image", "deploy.boot_system", "deploy.configure"],
  undeploy: ["deploy.remove_system"],
} as const;
export type FakePhase = keyof typeof FAKE_STEPS;

/** The steps of phases that follow each other, with their interface. */
export function fakeSteps(...phases: readonly FakePhase[]): readonly string[] {
  return phases.flatMap((phase) => FAKE_STEPS[phase]);
}

/** The phases in upper case, once for each of their steps, as the API shows them. */
export function fakeStepPhases(...phases: readonly FakePhase[]): readonly string[] {
  return phases.flatMap((phase) => FAKE_STEPS[phase].map(() => phase.toUpperCase()));
}
