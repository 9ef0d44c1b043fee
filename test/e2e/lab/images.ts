/** The images that scenarios install: one file, registered with addresses at which the server behaves differently. */
import { createHash } from "node:crypto";
import { createReadStream, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Artifacts } from "../prepare.ts";
import type { Api } from "./api.ts";
import { run } from "./commands.ts";
import { BEHAVIOURS } from "./image-server.ts";
import type { ImageServer } from "./image-server.ts";

const COMPRESSED = "debian.raw.zst";
/** Unpacked, it is larger than the disks. */
export const LARGE = "large.raw.zst";
const LARGE_BYTES = 3 * 2 ** 30;
const LARGE_MS = 120_000;

/** Writes the files that the image server offers. */
export async function imageFiles(artifacts: Artifacts, folder: string): Promise<Readonly<Record<string, string>>> {
  const sparse = join(folder, "large.raw");
  writeFileSync(sparse, "");
  truncateSync(sparse, LARGE_BYTES);
  // From standard input, so that the size is not in the header, and the machine meets the end of its disk.
  await run("sh", ["-c", 'zstd -q -1 -c < "$1" > "$1.zst"', "sh", sparse], LARGE_MS);
  return { [COMPRESSED]: artifacts.compressed, [LARGE]: `${sparse}.zst` };
}

async function checksum(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}

/** Registers images: one for each behaviour of the server, `wrong-sum`, and `large`. */
export async function registerImages(
  api: Api,
  server: ImageServer,
  files: Readonly<Record<string, string>>,
  raw: string,
) {
  const of = async (name: string) => {
    const file = files[name];
    if (file === undefined) throw new Error(`There is no image file ${name}.`);
    return { sizeBytes: statSync(file).size, checksum: { algorithm: "SHA256", value: await checksum(file) } };
  };
  const [good, large] = [await of(COMPRESSED), await of(LARGE)];
  const common = { format: "RAW_ZST", architecture: "X64" };
  const diskBytes = statSync(raw).size;
  const flipped = good.checksum.value.replaceAll(/^./g, (digit) => (digit === "0" ? "1" : "0"));
  const images = [
    ...BEHAVIOURS.map((behaviour) => ({
      ...common,
      ...good,
      name: behaviour,
      url: server.url(behaviour, COMPRESSED),
      diskBytes,
    })),
    {
      ...common,
      ...good,
      name: "wrong-sum",
      url: server.url("good", COMPRESSED),
      checksum: { algorithm: "SHA256", value: flipped },
      diskBytes,
    },
    { ...common, ...large, name: "large", url: server.url("good", LARGE) },
    { ...common, ...large, name: "known-large", url: server.url("good", LARGE), diskBytes: LARGE_BYTES },
  ];
  await api.mutate("registerImages", { images }, "images { id }");
}
