/** The flags of `ostler image`. */
import { parseArgs } from "node:util";
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";

export const IMAGE_HELP = `Usage:
  ostler image add FILE|URL --name NAME [flags]  register an image; computes its sizes and its checksum
  ostler image list                              list the images
  ostler image delete NAME… [--force]            delete images, also (--force) those that nodes are installed with
  ostler image help                              print this

The commands speak to a running service, with the token of OSTLER_TOKEN or OSTLER_TOKEN_FILE.

Flags:
  --url URL                  address of the service; default: OSTLER_URL, else that of OSTLER_HOST and OSTLER_PORT
Flags of add:
  --store                    copy the file into the image folder of the service (OSTLER_IMAGE_DIR), which must run on
                             this host; converts qcow2
  --address URL              with a FILE and without --store: the address from which machines download it
  --description TEXT         purpose of the image
  --format FORMAT            raw, raw_gz, raw_xz or raw_zst; refuse a file of another format
  --checksum sha256:DIGITS   refuse a file with another checksum; also sha512:
  --arch ARCHITECTURE        x64 (default) or arm64
  --boot-mode MODE           uefi or bios; by default it starts from both
  --label KEY=VALUE          a label; can be repeated
  --user-data FILE           default user data for cloud-init
  --no-call-home             the installed system does not report that it runs
`;

const OPTIONS = {
  url: { type: "string" },
  help: { type: "boolean", short: "h" },
  force: { type: "boolean" },
  name: { type: "string" },
  store: { type: "boolean" },
  address: { type: "string" },
  description: { type: "string" },
  format: { type: "string" },
  checksum: { type: "string" },
  arch: { type: "string" },
  "boot-mode": { type: "string" },
  label: { type: "string", multiple: true },
  "user-data": { type: "string" },
  "no-call-home": { type: "boolean" },
} as const;

export type ImageFlags = ReturnType<typeof readArgs>["values"];

const SHARED: readonly string[] = ["url", "help"];
/** By command. */
const FLAGS_OF: Readonly<Record<string, readonly string[]>> = {
  add: Object.keys(OPTIONS).filter((name) => name !== "force"),
  list: SHARED,
  delete: [...SHARED, "force"],
};

function readArgs(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new ConfigError(`${messageOf(error).replace(/\.?$/, ".")} See \`ostler image help\`.`);
  }
}

/** The flags and the operands of a command. */
export function imageArgs(what: string, args: readonly string[]): ReturnType<typeof readArgs> {
  const allowed = FLAGS_OF[what];
  if (!allowed) throw new ConfigError(`\`ostler image ${what}\` does not exist. Use add, list, delete or help.`);
  const read = readArgs(args);
  const stray = Object.keys(read.values).find((name) => !allowed.includes(name));
  if (stray === undefined) return read;
  throw new ConfigError(`\`ostler image ${what}\` has no flag --${stray}.`);
}
