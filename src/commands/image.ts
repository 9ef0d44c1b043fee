/** `ostler image`: adds, lists and deletes images of a running service, through its API. */
import { ConfigError } from "../config/values.ts";
import { CLIENT_VARIABLE, readConfig } from "../config/config.ts";
import { endpointOf, graphqlRequest, mutate } from "./graphql-request.ts";
import type { Endpoint } from "./graphql-request.ts";
import { addImage } from "./image-add.ts";
import { IMAGE_HELP, imageArgs } from "./image-flags.ts";
import { bytesText } from "../runtime/text.ts";

/** The text that the command prints. Throws a `ConfigError` for what cannot be done. */
export async function imageCommand(environment: NodeJS.ProcessEnv, args: readonly string[]): Promise<string> {
  const [what, ...rest] = args;
  if (what === undefined || what === "help" || what === "--help" || what === "-h") return IMAGE_HELP;
  const { values, positionals } = imageArgs(what, rest);
  if (values.help === true) return IMAGE_HELP;
  const config = readConfig(environment, []);
  const endpoint = endpointOf(config, values.url ?? environment[CLIENT_VARIABLE]);
  switch (what) {
    case "add":
      return addImage({ endpoint, imageFolder: config.imageFolder, flags: values, source: onlyOne(positionals) });
    case "list":
      return listImages(endpoint);
    default:
      return deleteImages(endpoint, positionals, values.force === true);
  }
}

function onlyOne(positionals: readonly string[]): string {
  const [source, ...others] = positionals;
  if (source !== undefined && others.length === 0) return source;
  throw new ConfigError("`ostler image add` takes one FILE or URL. See `ostler image help`.");
}

// ---- list and delete

interface ListedImage {
  readonly name: string;
  readonly format: string;
  readonly sizeBytes: number;
  readonly diskBytes: number | null;
  readonly architecture: string;
  readonly bootMode: string | null;
  readonly url: string | null;
}

interface ImagePage {
  readonly images: {
    readonly nodes: readonly ListedImage[];
    readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
  };
}

const LIST =
  "query Images($after: String) { images(first: 100, after: $after) { nodes { name format sizeBytes diskBytes architecture bootMode url } pageInfo { hasNextPage endCursor } } }";

async function listImages(endpoint: Endpoint): Promise<string> {
  const rows = [["NAME", "FORMAT", "FILE", "DISK", "ARCHITECTURE", "BOOT MODE", "ADDRESS"]];
  let after: string | null = null;
  do {
    const { images }: ImagePage = await graphqlRequest<ImagePage>(endpoint, LIST, { after });
    for (const { name, format, sizeBytes, diskBytes, architecture, bootMode, url } of images.nodes)
      rows.push([
        name,
        format,
        bytesText(sizeBytes),
        diskBytes === null ? "?" : bytesText(diskBytes),
        architecture,
        bootMode ?? "ANY",
        url ?? "(stored)",
      ]);
    after = images.pageInfo.hasNextPage ? images.pageInfo.endCursor : null;
  } while (after !== null);
  return rows.length === 1 ? "No images are registered.\n" : tableText(rows);
}

function tableText(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]) => row.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ");
  return rows.map((row) => `${line(row).trimEnd()}\n`).join("");
}

async function deleteImages(endpoint: Endpoint, names: readonly string[], force: boolean): Promise<string> {
  if (names.length === 0) throw new ConfigError("`ostler image delete` takes the names of images.");
  const input = { images: names.map((name) => ({ name })), force };
  const { count } = await mutate<{ readonly count: number }>(endpoint, "deleteImages", { input, fields: "count" });
  return `Deleted ${count === 1 ? "1 image" : `${count} images`}.\n`;
}
