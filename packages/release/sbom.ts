/** The parts of an artefact in the format CycloneDX: those from npm, as `npm sbom` prints them, and those of Debian. */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Spec, Validation } from "@cyclonedx/cyclonedx-library";
import { BuildError, run } from "../agent/build/programs.ts";
import type { DebianPackage } from "./names.ts";

interface Component {
  readonly "bom-ref": string;
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly properties?: unknown;
}

/** Beside what Vite has bundled. */
export const LICENSES = "licenses.json";

/** A line of it. */
interface Bundled {
  readonly name: string;
  readonly version: string;
  /** An expression of SPDX. */
  readonly identifier?: string;
}

interface Dependency {
  readonly ref: string;
  readonly dependsOn?: readonly string[];
}

export interface Bom {
  readonly specVersion: string;
  readonly metadata: { readonly component?: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly Dependency[];
}

export interface Artefact {
  readonly file: string;
  readonly version: string;
  /** Null for a folder. */
  readonly sha256: string | null;
  readonly epoch: string;
}

/** Of the packages that are installed in a folder; its package.json keeps no others, which npm would miss. */
export async function npmBom(folder: string): Promise<Bom> {
  const manifest = join(folder, "package.json");
  const { devDependencies: _, ...rest } = JSON.parse(readFileSync(manifest, "utf8")) as { devDependencies?: unknown };
  writeFileSync(manifest, `${JSON.stringify(rest, null, 2)}\n`);
  const options = ["--sbom-format=cyclonedx", "--sbom-type=application", "--omit=dev"];
  return JSON.parse(await run("npm", ["sbom", ...options], { cwd: folder })) as Bom;
}

/** The named packages of a list, with all that they depend on. */
export function partOf(bom: Bom, names: readonly string[]): Bom {
  const kept = new Set<string>();
  const keep = (ref: string): void => {
    if (kept.has(ref)) return;
    kept.add(ref);
    bom.dependencies.find((one) => one.ref === ref)?.dependsOn?.forEach(keep);
  };
  for (const { name, "bom-ref": ref } of bom.components) if (names.includes(name)) keep(ref);
  return {
    ...bom,
    components: bom.components.filter((one) => kept.has(one["bom-ref"])),
    dependencies: bom.dependencies.filter((one) => kept.has(one.ref)),
  };
}

/**
 * Adds the packages that are part of one file: those that its bundler has listed beside it, with their licences. A
 * package that the list has already stays once.
 */
export function withBundled(bom: Bom, licenses: string): Bom {
  const bundled = JSON.parse(readFileSync(licenses, "utf8")) as readonly Bundled[];
  const known = new Set(bom.components.map((one) => one["bom-ref"]));
  const others = bundled.map(bundledComponent).filter((one) => !known.has(one["bom-ref"]));
  return { ...bom, components: [...bom.components, ...others] };
}

function bundledComponent({ name, version, identifier }: Bundled): Component {
  const ref = `${name}@${version}`;
  const purl = `pkg:npm/${ref.replace(/^@/, "%40")}`;
  const licenses = identifier === undefined ? {} : { licenses: [{ expression: identifier }] };
  return { "bom-ref": ref, type: "library", name, version, purl, ...licenses };
}

function debianComponent({ name, version, architecture }: DebianPackage): Component {
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
  return { "bom-ref": purl, type: "library", name, version, purl };
}

/** The list of one artefact, valid by the schema of the format, as text. Equal input gives equal bytes. */
export async function sbomOf(artefact: Artefact, npm: Bom | null, debian: readonly DebianPackage[]): Promise<string> {
  const { file, version, sha256, epoch } = artefact;
  const root: Component = {
    "bom-ref": `${file}@${version}`,
    type: "application",
    name: file,
    version,
    ...(sha256 !== null && { hashes: [{ alg: "SHA-256", content: sha256 }] }),
  };
  const before = npm?.metadata.component?.["bom-ref"];
  // npm records the folder of the build as a property.
  const fromNpm = (npm?.components ?? []).map((component) => ({ ...component, properties: undefined }));
  const components = [...fromNpm, ...debian.map(debianComponent)].toSorted(byRef);
  const others = (npm?.dependencies ?? []).filter(({ ref }) => ref !== before).toSorted((a, b) => order(a.ref, b.ref));
  const depended = new Set(others.flatMap(({ dependsOn = [] }) => dependsOn));
  const direct = components.map((one) => one["bom-ref"]).filter((ref) => !depended.has(ref));
  const content = {
    metadata: { timestamp: new Date(Number(epoch) * 1000).toISOString(), component: root },
    components,
    dependencies: [{ ref: root["bom-ref"], dependsOn: direct }, ...others],
  };
  const text = JSON.stringify(
    { bomFormat: "CycloneDX", specVersion: "1.5", serialNumber: serialOf(content), version: 1, ...content },
    null,
    2,
  );
  const problem = await new Validation.JsonStrictValidator(Spec.Version.v1dot5).validate(text);
  if (problem !== null) throw new BuildError(`The list of parts of ${file} is not valid: ${JSON.stringify(problem)}`);
  return `${text}\n`;
}

const order = (a: string, b: string) => (a < b ? -1 : 1);
const byRef = (a: Component, b: Component) => order(a["bom-ref"], b["bom-ref"]);

/** A UUID of version 8, made of the content. */
function serialOf(content: unknown): string {
  const hex = createHash("sha256").update(JSON.stringify(content)).digest("hex");
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return `urn:uuid:${parts.join("-")}`;
}
