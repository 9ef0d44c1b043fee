/**
 * Driver `ansible`: machines whose system runs already, reached by SSH, and configured by the plays of one project. It
 * has no power of its own; with another driver that installs the system, its steps come after that.
 */
import type { Driver, DriverFactory, PluginHost } from "../../src/drivers/driver.ts";
import { controllerOf } from "../bmc-settings.ts";
import { programOnPath } from "../program-on-path.ts";
import { ansibleDiscovery } from "./discover.ts";
import { noProject, openProject } from "./project.ts";
import { ansibleSettings, ansibleVariables } from "./settings.ts";
import type { AnsibleSettings } from "./settings.ts";
import { firstUseFile, logIn } from "./ssh.ts";
import { checkSystem, gatherFacts, playStep } from "./steps.ts";

/** Programs, and the packages of Debian that have them. */
const PROGRAMS = { "ansible-playbook": "ansible-core", ssh: "openssh-client", setpriv: "util-linux" } as const;

const factory: DriverFactory<AnsibleSettings> = ({ describing }: PluginHost): Driver<AnsibleSettings> => {
  if (!describing) requirePrograms();
  const project = describing ? noProject : openProject(process.env["ANSIBLE_DRIVER_PROJECT"]);
  const { configure, unconfigure, reset } = project.plays;
  return {
    contract: 2,
    name: "ansible",
    version: "0.1.0",
    description: "Machines whose system runs already, configured over SSH by the plays of an Ansible project.",
    permissions: ["PROGRAMS"],
    settings: ansibleSettings,
    variables: ansibleVariables,
    revision: () => project.revision(),
    power: {
      async read(call) {
        await logIn(call, firstUseFile(call.node.id));
        return "UNKNOWN";
      },
    },
    inspect: { withoutReboot: true, supportsAbort: true, steps: [gatherFacts] },
    deploy: {
      supportsAbort: true,
      steps: [
        checkSystem,
        ...(configure ? [playStep(project, configure, CONFIGURE)] : []),
        ...(unconfigure ? [playStep(project, unconfigure, UNCONFIGURE)] : []),
      ],
    },
    ...(reset && { clean: { supportsAbort: true, steps: [playStep(project, reset, RESET)] } }),
    discover: ansibleDiscovery,
    controllerOf,
  };
};

export default factory;

/** After the steps of the driver `agent`, the last of which has the priority 20. */
const CONFIGURE = {
  name: "configure",
  title: "Run the play that configures the system",
  phase: "deploy",
  priority: 5,
} as const;
/** Before the agent is booted, while the system still runs. */
const UNCONFIGURE = {
  name: "unconfigure",
  title: "Run the play that removes the configuration",
  phase: "undeploy",
  priority: 120,
} as const;
const RESET = { name: "reset", title: "Run the play that resets the system", phase: "clean", priority: 20 } as const;

function requirePrograms(): void {
  for (const [program, name] of Object.entries(PROGRAMS))
    if (programOnPath(program) === undefined)
      throw new Error(
        `The ansible driver needs the program ${program}, which is not on the PATH; install it (Debian and Ubuntu: apt-get install ${name}).`,
      );
}
