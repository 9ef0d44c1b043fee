/**
 * Driver `agent`: inspects, cleans and installs machines through a program that it boots on them. It has no power of
 * its own: power, boot device and virtual media come from the driver of the machine's BMC.
 */
import type { Driver, DriverFactory } from "../../src/drivers/driver.ts";
import { bootFromDisk } from "./boot-from-disk.ts";
import { bootStep } from "./boot-step.ts";
import { burnInCpu, burnInDisk, burnInMemory } from "./burn-in.ts";
import { awaitCallHome } from "./call-home.ts";
import { configureSystem } from "./configure.ts";
import { eraseDisks, eraseMetadata } from "./erase.ts";
import { agentInspect } from "./inspect.ts";
import { noPower } from "./power.ts";
import { agentSettings } from "./settings.ts";
import type { AgentSettings } from "./settings.ts";
import { agentVariables } from "./variables.ts";
import { writeImage } from "./write-image.ts";

const factory: DriverFactory<AgentSettings> = (): Driver<AgentSettings> => ({
  contract: 2,
  name: "agent",
  version: "0.1.0",
  description: "Inspects, cleans and installs machines through an agent that it boots on them; power from their BMC.",
  settings: agentSettings,
  variables: agentVariables,
  usesAgent: true,
  power: noPower,
  inspect: agentInspect,
  clean: {
    supportsAbort: true,
    steps: [bootStep("clean"), eraseMetadata, eraseDisks("clean"), burnInCpu, burnInMemory, burnInDisk],
  },
  deploy: {
    supportsAbort: true,
    steps: [
      bootStep("deploy"),
      writeImage,
      configureSystem,
      bootFromDisk,
      awaitCallHome,
      bootStep("undeploy"),
      eraseDisks("undeploy"),
    ],
  },
});

export default factory;
