/** The image, run by its own configuration: nothing is known of it but the archive. */
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../packages/agent/build/programs.ts";
import { ROOT } from "../../packages/release/checkout.ts";
import { HERE, imageName } from "../../packages/release/names.ts";
import { check } from "../support/proof.ts";
import { CONSOLE_REQUESTS } from "./project.ts";
import { ready, startSystem } from "./system.ts";

const TOKEN = "a-token-of-the-check";
const MEBIBYTE = 2 ** 20;
/** Of the archive, and of what it unpacks to. */
const SIZES = { archive: 200, unpacked: 450 };

interface Descriptor {
  readonly digest: string;
}

interface Configuration {
  readonly architecture: string;
  readonly config: {
    readonly User: string;
    readonly WorkingDir: string;
    readonly Env: readonly string[];
    readonly Entrypoint: readonly string[];
    readonly StopSignal: string;
  };
}

export async function checkImage(release: string, version: string, project: string, work: string): Promise<void> {
  const file = join(release, imageName(version, HERE));
  const archive = join(work, "layout");
  const root = join(work, "root-image");
  for (const folder of [archive, root]) {
    await run("rm", ["-rf", folder]);
    mkdirSync(folder, { recursive: true });
  }
  await run("tar", ["--extract", "--file", file, "--directory", archive]);
  const blob = ({ digest }: Descriptor) => join(archive, "blobs", digest.replace(":", "/"));
  const read = (path: string): unknown => JSON.parse(readFileSync(path, "utf8"));
  const index = read(join(archive, "index.json")) as { manifests: [Descriptor] };
  const manifest = read(blob(index.manifests[0])) as { config: Descriptor; layers: readonly Descriptor[] };
  const { config } = read(blob(manifest.config)) as Configuration;
  for (const layer of manifest.layers) await run("tar", ["--extract", "--file", blob(layer), "--directory", root]);
  const archived = statSync(file).size / MEBIBYTE;
  const unpacked = Number((await run("du", ["--summarize", "--block-size=M", root])).split("M")[0]);
  check(`the archive has at most ${SIZES.archive} MiB`, archived <= SIZES.archive, `${archived.toFixed(0)} MiB`);
  check(`it unpacks to at most ${SIZES.unpacked} MiB`, unpacked <= SIZES.unpacked, `${unpacked} MiB`);
  cpSync(project, join(root, "project"), { recursive: true });
  const user = readFileSync(join(root, "etc/passwd"), "utf8")
    .split("\n")
    .find((line) => line.startsWith(`${config.User}:`));
  const env = config.Env.map((text): [string, string] => {
    const at = text.indexOf("=");
    return [text.slice(0, at), text.slice(at + 1)];
  });
  const first = {
    program: [...config.Entrypoint, "--demo", "--plugins", "fake"],
    env: { ...Object.fromEntries(env), OSTLER_TOKEN: TOKEN },
    folder: config.WorkingDir,
    id: Number(user?.split(":")[2]),
  };
  check("it runs as a user other than root", first.id > 0, "", user);
  writeFileSync(join(root, "token.env"), `OSTLER_TOKEN=${TOKEN}\n`);
  await using system = await startSystem(root, first, join(work, "image.log"));
  check("no file of the checkout is visible", !system.mounts().includes(ROOT) && !existsSync(join(root, ROOT)));
  await ready(system, "node");
  const follower = system.start(
    "node",
    "/project/fleet.mjs",
    "http://127.0.0.1:4000/graphql",
    TOKEN,
    "commissionNodes",
  );
  let report = "";
  follower.stdout?.on("data", (text: Buffer) => (report += text.toString()));
  const [code] = (await once(follower, "close")) as [number];
  check("the client commissions and follows the demonstration fleet", code === 0, "", report);
  const nodes = await system.run("node", "--env-file=/token.env", "src/main.ts", "nodes", "get", "--json");
  check("the command line of the image lists the fleet", nodes.includes('"ACTIVE"'), "", nodes);
  check("the console is served", Number(await system.run("node", ...CONSOLE_REQUESTS)) > 1);
  for (const [program, option] of [
    ["ipmitool", "-V"],
    ["qemu-img", "--version"],
    ["setpriv", "--version"],
  ] as const)
    check(`it has ${program}`, await system.succeeds(program, option));
}
