/** `ostler image`: adds, lists and deletes images of a running service, through its API. */
import { ConfigError } from "../config/values.ts";
import { readConfig } from "../config/config.ts";
import { graphqlRequest, trusting } from "./graphql-request.ts";
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
  const { host, port, tls, token, imageFolder } = readConfig(environment, []);
  const local = `${tls === null ? "http" : "https"}://${hostInUrl(host)}:${port}`;
  const endpoint = {
    url: values.url === undefined ? local : checkedUrl(values.url),
    token,
    ...(values.url === undefined && tls !== null && { dispatcher: trusting(tls.cert) }),
  };
  switch (what) {
    case "add":
      return addImage({ endpoint, imageFolder, flags: values, source: onlyOne(positionals) });
    case "list":
      return listImages(endpoint);
    default:
      return deleteImages(endpoint, positionals, values.force === true);
  }
}

function checkedUrl(given: string): string {
  if (URL.canParse(given) && /^https?:/.test(given)) return given;
  throw new ConfigError(`--url is ${JSON.stringify(given)}. Use an address such as http://127.0.0.1:4000.`);
}

/** A service that listens on all addresses is reached on loopback. */
function hostInUrl(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") ? `[${host}]` : host;
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

const DELETE =
  "mutation Delete($input: DeleteImagesInput!) { deleteImages(input: $input) { count errors { message } } }";

async function deleteImages(endpoint: Endpoint, names: readonly string[], force: boolean): Promise<string> {
  if (names.length === 0) throw new ConfigError("`ostler image delete` takes the names of images.");
  const input = { images: names.map((name) => ({ name })), force };
  const { deleteImages: answer } = await graphqlRequest<{
    deleteImages: { count: number; errors: readonly { readonly message: string }[] };
  }>(endpoint, DELETE, { input });
  if (answer.errors.length > 0) throw new ConfigError(answer.errors.map(({ message }) => message).join("\n"));
  return `Deleted ${answer.count === 1 ? "1 image" : `${answer.count} images`}.\n`;
}
