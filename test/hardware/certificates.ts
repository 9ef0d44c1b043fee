/**
 * `npm run tool -- certificates`: runs the conformance suite on every bundled driver, on simulated machines, and writes
 * docs/certificates.md. Needs the programs of Debian's packages `openipmi` and `ipmitool`.
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startBmc } from "../../packages/bmc-simulator/src/index.ts";
import { printCertificate } from "../../packages/driver/src/certificate.ts";
import type { Certificate } from "../../packages/driver/src/certificate.ts";
import { certifyDriver } from "../../packages/driver/src/certify.ts";
import createAgent from "../../plugins/agent/index.ts";
import createAnsible from "../../plugins/ansible/index.ts";
import createFake from "../../plugins/fake/index.ts";
import createIpmi from "../../plugins/ipmi/index.ts";
import createRedfish from "../../plugins/redfish/index.ts";
import { ansibleLab, ansibleMachine } from "../support/ansible-lab.ts";
import { demandIpmiPrograms, startIpmiLab } from "../support/ipmi-lab.ts";

const PAGE = fileURLToPath(new URL("../../docs/certificates.md", import.meta.url));
const PRESETS = ["reference", "idrac-like", "ilo-like", "supermicro-like", "xcc-like"] as const;

/** It has no power of its own, with which the checks on a machine begin. */
function certifyAgent(): Promise<Certificate> {
  return certifyDriver({ factory: createAgent, settings: {} });
}

async function certifyAnsible(): Promise<Certificate> {
  await using lab = await ansibleLab();
  // Awaited here: the lab ends with this function.
  return await certifyDriver({ ...ansibleMachine(lab.port), factory: createAnsible });
}

function certifyFake(): Promise<Certificate> {
  return certifyDriver({
    factory: createFake,
    settings: { password: "correct-horse" },
    live: true,
    refused: { refusesLogin: true, password: "wrong-horse" },
    liveSeconds: 10,
    steps: [
      { interface: "clean", step: "erase_disks" },
      { interface: "deploy", step: "prepare" },
    ],
  });
}

async function certifyIpmi(): Promise<Certificate> {
  await using lab = await startIpmiLab({ count: 1 });
  const [bmc] = lab.bmcs;
  if (!bmc) throw new Error("No simulated BMC was started.");
  const { address, port, username, password, cipherSuite } = bmc;
  const login = { username, password, port, cipherSuite };
  const refused = { ...login, password: "not-the-password" };
  // Awaited here: the lab ends with this function.
  return await certifyDriver({
    factory: createIpmi,
    settings: { ...login, address },
    live: true,
    refused: { ...refused, address },
    endpoint: ({ host, port: other }) => ({ ...login, address: host, port: other }),
    discovery: { address, settings: login, refused, dead: "127.9.9.9" },
  });
}

async function certifyRedfish(traits: (typeof PRESETS)[number]): Promise<Certificate> {
  const bmc = await startBmc({ traits });
  try {
    const { hostname: address, port } = new URL(bmc.url);
    const { userName: username, password } = bmc.credentials;
    const login = { port: Number(port), scheme: "HTTP", username, password };
    const refused = { ...login, password: "not-the-password" };
    return await certifyDriver({
      factory: createRedfish,
      settings: { ...login, address, nextPassword: "another-password" },
      live: true,
      refused: { ...refused, address },
      endpoint: (other) => ({ ...login, address: other.host, port: other.port, nextPassword: "another-password" }),
      steps: [
        { interface: "clean", step: "clear_logs" },
        { interface: "clean", step: "reset_raid" },
      ],
      discovery: { address, settings: login, refused, dead: "127.0.0.9" },
    });
  } finally {
    await bmc.close();
  }
}

demandIpmiPrograms();
const machines: readonly (readonly [string, () => Promise<Certificate>])[] = [
  ["none", certifyAgent],
  ["stand-ins of Ansible and SSH", certifyAnsible],
  ["simulated in the driver", certifyFake],
  ["ipmi_sim of Debian's openipmi", certifyIpmi],
  ...PRESETS.map((preset) => [`simulated BMC of the kind ${preset}`, () => certifyRedfish(preset)] as const),
];
const rows: string[] = [];
let failed = 0;
for (const [machine, certify] of machines) {
  const certificate = await certify();
  failed += certificate.failed;
  console.log(`${machine}\n${printCertificate(certificate)}`);
  const cells = [
    `\`${certificate.driver}\``,
    certificate.version,
    machine,
    certificate.passed,
    certificate.unsupported,
    certificate.failed,
  ];
  rows.push(`| ${cells.join(" | ")} |\n`);
}
const page = `# Certificates of the bundled drivers

\`npm run tool -- certificates\` prints this page: it runs the [conformance suite](drivers.md#the-conformance-suite) with simulated machines, and needs Debian's packages \`openipmi\` and \`ipmitool\`.

Node ${process.versions.node}:

| driver | version | machine | passed | unsupported | failed |
| --- | --- | --- | ---: | ---: | ---: |
`;
writeFileSync(PAGE, page + rows.join(""));
process.exit(failed === 0 ? 0 : 1);
