/** Everything that scenarios use: network, machines behind BMCs, service, image server. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../prepare.ts";
import type { Artifacts } from "../prepare.ts";
import { createApi, followTransitions } from "./api.ts";
import type { Api, Follower } from "./api.ts";
import { run } from "./commands.ts";
import { startDhcp } from "./dhcp.ts";
import { imageFiles, registerImages } from "./images.ts";
import { startImageServer } from "./image-server.ts";
import type { ImageServer } from "./image-server.ts";
import { startMachines } from "./machines.ts";
import type { LabMachine, MachineSpec } from "./machines.ts";
import { createNetwork } from "./network.ts";
import type { Report } from "./report.ts";
import { createService } from "./service.ts";
import type { Service } from "./service.ts";
import { createKey } from "./ssh.ts";
import type { KeyPair } from "./ssh.ts";
import { watchProcesses } from "./traces.ts";

export interface Lab {
  readonly folder: string;
  readonly artifacts: Artifacts;
  readonly report: Report;
  readonly machines: readonly LabMachine[];
  readonly images: ImageServer;
  readonly key: KeyPair;
  readonly service: Service;
  readonly api: Api;
  readonly transitions: Follower;
  /** Command lines of all processes since before the service was started, each once. */
  readonly commands: ReadonlySet<string>;
  machine(name: string): LabMachine;
  /** Handles machines two at a time: more of them are slower than one after the other. */
  atMostTwo(machines: readonly LabMachine[], handle: (machine: LabMachine) => Promise<void>): Promise<void>;
}

const MACHINES: readonly MachineSpec[] = [
  { name: "e2e-redfish-1", bmc: "REDFISH", firmware: "UEFI", preset: "reference" },
  { name: "e2e-redfish-2", bmc: "REDFISH", firmware: "UEFI", preset: "ilo-like" },
  { name: "e2e-ipmi-1", bmc: "IPMI", firmware: "UEFI" },
  { name: "e2e-ipmi-2", bmc: "IPMI", firmware: "BIOS" },
];

export interface LabSettings {
  readonly folder: string;
  readonly artifacts: Artifacts;
  readonly report: Report;
  /** 0 is any free port. */
  readonly port?: number;
  readonly withService: boolean;
  readonly withPlays?: boolean;
}

/** Parts that it starts are added to `parts`, in whose reverse order they end. */
export async function startLab(settings: LabSettings, parts: AsyncDisposableStack): Promise<Lab> {
  const { folder, artifacts, report } = settings;
  await createNetwork(MACHINES.length);
  const processes = parts.use(watchProcesses());
  const disks = join(folder, "machines");
  mkdirSync(disks, { recursive: true });
  const key = await createKey(folder);
  const files = await imageFiles(artifacts, folder);
  const images = await startImageServer(files, parts);
  const machines = await startMachines(MACHINES, disks, parts);
  await startDhcp(machines, folder, parts);
  report.note(`${machines.length} machines behind simulated BMCs are ready`);
  const { agentFolder } = artifacts;
  const program = artifacts.package === null ? ROOT : await unpack(artifacts.package, join(folder, "package"));
  const service = createService({
    folder,
    program,
    agentFolder,
    port: settings.port ?? 0,
    withPlays: settings.withPlays ?? false,
  });
  if (settings.withService) {
    parts.use(service);
    await service.start();
    report.note(`the service is ready at ${service.url}`);
  }
  const api = createApi(service);
  if (settings.withService) await registerImages(api, images, files, artifacts.raw);
  const transitions = settings.withService ? parts.use(followTransitions(service)) : NOTHING_FOLLOWED;
  return {
    folder,
    artifacts,
    report,
    machines,
    images,
    key,
    service,
    api,
    transitions,
    commands: processes.seen,
    machine(name) {
      const found = machines.find((machine) => machine.name === name);
      if (found === undefined) throw new Error(`There is no machine ${name}.`);
      return found;
    },
    async atMostTwo(chosen, handle) {
      const queue = [...chosen];
      const worker = async () => {
        for (let machine = queue.shift(); machine !== undefined; machine = queue.shift()) await handle(machine);
      };
      await Promise.all([worker(), worker()]);
    },
  };
}

/** Returns the program of the package. */
async function unpack(file: string, folder: string): Promise<string> {
  await run("dpkg-deb", ["--extract", file, folder]);
  return join(folder, "usr/lib/ostler");
}

const NOTHING_FOLLOWED: Follower = {
  seen: [],
  statesOf: () => [],
  reaches: () => Promise.reject(new Error("The service is not running.")),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};
