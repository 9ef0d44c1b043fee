/** `ostler image add`: reads the file of an image, stores it if asked to, and registers the image. */
import { createReadStream } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";
import { imageFileName } from "../engine/images/image-files.ts";
import { CHECKSUM_ALGORITHMS, CHECKSUM_DIGITS, ARCHITECTURES } from "../lifecycle/images.ts";
import { BOOT_MODES } from "../lifecycle/verbs.ts";
import { IMAGE_FORMATS } from "../lifecycle/images.ts";
import { graphqlRequest } from "./graphql-request.ts";
import type { Endpoint } from "./graphql-request.ts";
import { formatOf } from "./image-format.ts";
import { allOf, openFile, readImage } from "./image-read.ts";
import type { OpenedFile, ReadImage } from "./image-read.ts";
import { convertQcow2, keepFile, temporaryFile } from "./image-store.ts";
import type { TemporaryFile } from "./image-store.ts";
import type { ImageFlags } from "./image-flags.ts";
import { bytesText } from "../runtime/text.ts";

interface AddRequest {
  readonly endpoint: Endpoint;
  /** Of the service. */
  readonly imageFolder: string;
  readonly flags: ImageFlags;
  /** File or URL. */
  readonly source: string;
}

export async function addImage(request: AddRequest): Promise<string> {
  try {
    return await add(request);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`${request.source} cannot be added: ${messageOf(error)}.`, { cause: error });
  }
}

async function add({ endpoint, imageFolder, flags, source }: AddRequest): Promise<string> {
  const given = await inputOf(flags, source);
  await checkName(endpoint, given.input.name);
  const progress = progressOn(process.stderr);
  const checks = { format: given.format, checksum: given.checksum };
  if (flags.store !== true) {
    const { file } = await open(source);
    const read = await readImage(file, { onBytes: progress.note }).finally(progress.end);
    check(read, checks);
    return register(endpoint, { ...given.input, url: given.url, ...propertiesOf(read) });
  }
  await using target = await temporaryFile(imageFolder, "part");
  const read = await storeIn(target, { source, folder: imageFolder, onBytes: progress.note }).finally(progress.end);
  check(read, checks);
  const isNew = await keepFile(imageFolder, target, read.checksums.sha256);
  try {
    return await register(endpoint, { ...given.input, ...propertiesOf(read) });
  } catch (error) {
    const checksum = { checksumAlgorithm: "SHA256", checksum: read.checksums.sha256 } as const;
    if (isNew) await rm(join(imageFolder, imageFileName(checksum)), { force: true });
    throw error instanceof ConfigError && error.message.includes("image folder")
      ? new ConfigError(`${error.message} The image folder here is ${imageFolder}; the service must use the same one.`)
      : error;
  }
}

// ---- the file

async function open(source: string): Promise<{ readonly file: OpenedFile; readonly isUrl: boolean }> {
  const isUrl = isHttp(source);
  try {
    return { isUrl, file: await openFile(isUrl ? await download(source) : createReadStream(source)) };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const why = messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error);
    throw new ConfigError(`${source} cannot be read: ${why}.`, { cause: error });
  }
}

function isHttp(source: string): boolean {
  return /^https?:\/\//i.test(source);
}

async function download(url: string): Promise<AsyncIterable<Uint8Array>> {
  const response = await fetch(url);
  if (!response.ok || response.body === null)
    throw new ConfigError(`${url} cannot be read: the server answered with status ${response.status}.`);
  return response.body;
}

interface Storing {
  readonly source: string;
  readonly folder: string;
  readonly onBytes: (bytes: number) => void;
}

/** Writes the file to `target`, converted if it has to be. */
async function storeIn(target: TemporaryFile, { source, folder, onBytes }: Storing): Promise<ReadImage> {
  const { file, isUrl } = await open(source);
  const format = formatOf(file.head);
  if (format === null || typeof format !== "object" || !format.isConverted)
    return readImage(file, { target: target.handle, onBytes });
  if (isUrl) {
    await using whole = await temporaryFile(folder, "qcow2");
    await pipeline(allOf(file), whole.handle.createWriteStream({ autoClose: false }));
    await convertQcow2(whole.path, folder, target.path);
  } else await convertQcow2(source, folder, target.path);
  return readImage(await openFile(createReadStream(target.path)), { onBytes });
}

function propertiesOf({ format, sizeBytes, diskBytes, checksums }: ReadImage) {
  return { format, sizeBytes, diskBytes, checksum: { algorithm: "SHA256", value: checksums.sha256 } };
}

interface Expected {
  readonly format: string | undefined;
  readonly checksum: { readonly algorithm: "sha256" | "sha512"; readonly value: string } | undefined;
}

function check({ format, checksums }: ReadImage, expected: Expected): void {
  if (expected.format !== undefined && expected.format !== format)
    throw new ConfigError(`The file has the format ${format}, not ${expected.format}.`);
  const { checksum } = expected;
  if (checksum && checksums[checksum.algorithm] !== checksum.value)
    throw new ConfigError(
      `The file has the ${checksum.algorithm} checksum ${checksums[checksum.algorithm]}, not ${checksum.value}.`,
    );
}

// ---- the input

async function inputOf(flags: ImageFlags, source: string) {
  const { name, description, address } = flags;
  if (name === undefined) throw new ConfigError("Give the image a name with --name.");
  if (address !== undefined && (flags.store === true || isHttp(source)))
    throw new ConfigError("--address is for a FILE without --store.");
  const url = flags.store === true ? undefined : isHttp(source) ? source : address;
  if (url === undefined && flags.store !== true)
    throw new ConfigError(
      "Machines cannot reach a file of this host. Use --store if the service runs on this host, or give the address from which they download the file with --address.",
    );
  const input = {
    name,
    description,
    architecture: choice("arch", flags.arch ?? "X64", ARCHITECTURES),
    bootMode: flags["boot-mode"] === undefined ? undefined : choice("boot-mode", flags["boot-mode"], BOOT_MODES),
    labels: (flags.label ?? []).map(labelOf),
    userData: flags["user-data"] === undefined ? undefined : await textOf(flags["user-data"]),
    callsHome: flags["no-call-home"] !== true,
  };
  const format = flags.format === undefined ? undefined : choice("format", flags.format, IMAGE_FORMATS);
  return { input, url, format, checksum: checksumOf(flags.checksum) };
}

function choice<Name extends string>(flag: string, given: string, names: Readonly<Record<Name, unknown>>): Name {
  const known = Object.keys(names) as Name[];
  const found = known.find((name) => name === given.toUpperCase());
  if (found) return found;
  throw new ConfigError(`--${flag} is ${JSON.stringify(given)}. Use ${known.join(", ").toLowerCase()}.`);
}

function labelOf(text: string): { readonly key: string; readonly value: string } {
  const at = text.indexOf("=");
  if (at < 1) throw new ConfigError(`--label is ${JSON.stringify(text)}. Use a key and a value, as os=debian.`);
  return { key: text.slice(0, at), value: text.slice(at + 1) };
}

function checksumOf(text: string | undefined): Expected["checksum"] {
  if (text === undefined) return undefined;
  const [algorithm = "", value = ""] = text.toLowerCase().split(":");
  const digits = Object.keys(CHECKSUM_ALGORITHMS).includes(algorithm.toUpperCase())
    ? CHECKSUM_DIGITS[algorithm.toUpperCase() as keyof typeof CHECKSUM_DIGITS]
    : 0;
  if (digits > 0 && value.length === digits && /^[0-9a-f]+$/.test(value))
    return { algorithm: algorithm as "sha256" | "sha512", value };
  throw new ConfigError(`--checksum is ${JSON.stringify(text)}. Use sha256: or sha512: and the hexadecimal digits.`);
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new ConfigError(`The user data cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}

// ---- the request

/** Reading a file takes minutes, so the service is asked before. */
async function checkName(endpoint: Endpoint, name: string): Promise<void> {
  const query = "query Taken($name: String!) { image(by: { name: $name }) { id } }";
  const { image } = await graphqlRequest<{ image: { id: string } | null }>(endpoint, query, { name });
  if (image) throw new ConfigError(`An image ${name} exists already.`);
}

const REGISTER =
  "mutation Register($input: RegisterImagesInput!) { registerImages(input: $input) { images { id name } errors { message } } }";

async function register(endpoint: Endpoint, image: Readonly<Record<string, unknown>>): Promise<string> {
  const { registerImages } = await graphqlRequest<{
    registerImages: {
      readonly images: readonly { readonly id: string; readonly name: string }[];
      readonly errors: readonly { readonly message: string }[];
    };
  }>(endpoint, REGISTER, { input: { images: [image] } });
  const { images, errors } = registerImages;
  if (errors.length > 0) throw new ConfigError(errors.map(({ message }) => message).join(" "));
  const { format, sizeBytes, diskBytes } = image as Pick<ReadImage, "format" | "sizeBytes" | "diskBytes">;
  const disk = diskBytes === null ? "an unknown size on the disk (xz is not installed here)" : bytesText(diskBytes);
  return `Image ${images[0]?.name} is registered: ${format}, ${bytesText(sizeBytes)}, ${disk} on the disk, id ${images[0]?.id}.\n`;
}

// ---- progress

const REPORT_MS = 500;

/** Reports the bytes read, on a terminal only. */
function progressOn(stream: NodeJS.WriteStream): { note(bytes: number): void; end(): void } {
  let reportedAt = 0;
  return {
    note(bytes) {
      if (!stream.isTTY || Date.now() - reportedAt < REPORT_MS) return;
      reportedAt = Date.now();
      stream.write(`\r${bytesText(bytes)} read `);
    },
    end() {
      if (reportedAt > 0) stream.write("\r\u001b[K");
    },
  };
}
