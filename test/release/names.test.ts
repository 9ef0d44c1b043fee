/** Names and texts of a release that follow from its version and from other files. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { deb } from "../../packages/release/deb.ts";
import {
  debName,
  debianVersion,
  imageName,
  imageSettings,
  indexLines,
  packageOf,
  refusalOf,
} from "../../packages/release/names.ts";
import { partOf, sbomOf, withBundled } from "../../packages/release/sbom.ts";

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
const MIRROR = "http://deb.debian.org/debian";

describe("names of a release", () => {
  test("a preview sorts before its release in Debian, and has the same name elsewhere [R-860]", () => {
    expect(debianVersion("0.1.0")).toBe("0.1.0");
    expect(debName("0.2.0-preview.1", "arm64")).toBe("ostler_0.2.0~preview.1_arm64.deb");
    expect(imageName("0.2.0-preview.1", "x64")).toBe("ostler-0.2.0-preview.1-amd64.oci.tar");
  });

  test.each(["1.0", "v1.0.0", "1.0.0-", "1.0.0_1", "1.0.0+build"])("the version %s is refused [R-860]", (version) => {
    expect(() => debianVersion(version)).toThrow(`The version ${version} in package.json is not valid`);
  });

  test("the archive of a Debian package names package, version with epoch, and architecture", () => {
    expect(packageOf("/cache/libcrypt1_1%3a4.4.33-2_arm64.deb")).toEqual({
      name: "libcrypt1",
      version: "1:4.4.33-2",
      architecture: "arm64",
    });
    expect(() => packageOf("lock")).toThrow("lock is not named like a Debian package.");
  });

  test("a package index is named without the archive that it was read from", () => {
    const lines = ["b  deb.debian.org_debian_dists_bookworm_InRelease", "a  mirror.example_x_dists_sid_InRelease"];
    expect(indexLines(lines)).toBe("a  sid_InRelease\nb  bookworm_InRelease");
  });
});

describe.skipIf(spawnSync("dpkg-deb", ["--version"]).status !== 0)("the package of Debian", () => {
  const work = mkdtempSync(join(tmpdir(), "ostler-deb-"));
  afterAll(() => rmSync(work, { recursive: true, force: true }));
  const build = async (name: string) => {
    const folder = join(work, name);
    mkdirSync(join(folder, "tree/src"), { recursive: true });
    writeFileSync(join(folder, "tree/src/main.ts"), "");
    const request = { version: "0.2.0-preview.1", architecture: "x64", epoch: "1700000000" } as const;
    return join(folder, await deb({ ...request, tree: join(folder, "tree"), work: folder, out: folder }));
  };

  test("it has the files of docs/systemd at the paths that they name [R-861]", async () => {
    const root = join(work, "unpacked");
    spawnSync("dpkg-deb", ["--raw-extract", await build("one"), root]);
    const unit = readFileSync(join(root, "usr/lib/systemd/system/ostler.service"), "utf8");
    expect(unit).toBe(read("docs/systemd/ostler.service"));
    expect(unit).toContain("WorkingDirectory=/usr/lib/ostler\n");
    expect(unit).toContain("EnvironmentFile=/etc/ostler/ostler.env\n");
    expect(unit).toContain("LoadCredential=token:/etc/ostler/token\n");
    expect(statSync(join(root, "usr/lib/ostler/src/main.ts")).isFile()).toBe(true);
    expect(statSync(join(root, "etc/ostler/ostler.env")).mode & 0o777).toBe(0o600);
    expect(read("packages/release/debian/postinst")).toContain(" /etc/ostler/token\n");
    expect(readFileSync(join(root, "usr/bin/ostler"), "utf8")).toBe(read("docs/systemd/ostler-command"));
    expect(readFileSync(join(root, "DEBIAN/conffiles"), "utf8")).toBe("/etc/ostler/ostler.env\n");
  });

  test("two builds of it have the same bytes [R-863]", async () => {
    const [one, two] = [await build("first"), await build("second")];
    expect(readFileSync(one).equals(readFileSync(two))).toBe(true);
  });
});

describe("the image", () => {
  test("it has the settings of the last stage of Dockerfile [R-862]", () => {
    expect(imageSettings(read("Dockerfile"))).toEqual({
      packages: expect.arrayContaining(["ipmitool"]),
      folders: expect.arrayContaining(["/var/lib/ostler"]),
      workdir: "/opt/ostler",
      user: "node",
      env: expect.arrayContaining(["OSTLER_HOST=0.0.0.0", "OSTLER_DATA=/var/lib/ostler"]),
      ports: expect.arrayContaining(["4000"]),
      stopSignal: "SIGTERM",
      entrypoint: '["node", "--max-semi-space-size=16", "src/main.ts"]',
    });
  });

  test("a Dockerfile without one of them is refused by name", () => {
    expect(() => imageSettings(read("Dockerfile").replace("USER node", ""))).toThrow("nothing like ^USER (.+)$");
  });
});

describe("lists of parts", () => {
  const component = (name: string) => ({ "bom-ref": `${name}@1.0.0`, type: "library", name, version: "1.0.0" });
  const npm = {
    specVersion: "1.5",
    metadata: { component: component("ostler") },
    components: [component("b"), component("a"), component("c")],
    dependencies: [
      { ref: "ostler@1.0.0", dependsOn: ["a@1.0.0", "c@1.0.0"] },
      { ref: "a@1.0.0", dependsOn: ["b@1.0.0"] },
      { ref: "b@1.0.0", dependsOn: [] },
      { ref: "c@1.0.0", dependsOn: [] },
    ],
  };
  const artefact = { file: "ostler.deb", version: "0.1.0", sha256: "0".repeat(64), epoch: "1700000000" };

  test("a list is valid CycloneDX, names the packages of npm and of Debian, and is the same twice [R-863]", async () => {
    const debian = [{ name: "libcrypt1", version: "1:4.4.33-2", architecture: "arm64" }];
    const text = await sbomOf(artefact, npm, debian);
    const list = JSON.parse(text) as { components: { purl?: string }[]; dependencies: unknown[] };
    expect(list.components.map((one) => one.purl ?? "")).toEqual([
      "",
      "",
      "",
      "pkg:deb/debian/libcrypt1@1%3A4.4.33-2?arch=arm64",
    ]);
    expect(list.dependencies[0]).toEqual({
      ref: "ostler.deb@0.1.0",
      dependsOn: ["a@1.0.0", "c@1.0.0", "pkg:deb/debian/libcrypt1@1%3A4.4.33-2?arch=arm64"],
    });
    expect(await sbomOf(artefact, npm, debian)).toBe(text);
  });

  test("a part of a list has the named packages and all that they need", () => {
    expect(partOf(npm, ["a"]).components.map(({ name }) => name)).toEqual(["b", "a"]);
  });

  test("packages that are part of one file are listed with their licence, each once [R-1270]", async () => {
    const licenses = join(mkdtempSync(join(tmpdir(), "ostler-licenses-")), "licenses.json");
    const bundled = [
      { name: "@base-ui/react", version: "1.0.0", identifier: "MIT", text: "Permission …" },
      { name: "a", version: "1.0.0", identifier: "(MIT OR Apache-2.0)" },
      { name: "unlicensed", version: "2.0.0" },
    ];
    writeFileSync(licenses, JSON.stringify(bundled));
    const whole = withBundled(npm, licenses);
    expect(whole.components.map((one) => one["bom-ref"])).toEqual([
      "b@1.0.0",
      "a@1.0.0",
      "c@1.0.0",
      "@base-ui/react@1.0.0",
      "unlicensed@2.0.0",
    ]);
    const list = JSON.parse(await sbomOf(artefact, whole, [])) as { components: unknown[]; dependencies: unknown[] };
    expect(list.components).toContainEqual({
      "bom-ref": "@base-ui/react@1.0.0",
      type: "library",
      name: "@base-ui/react",
      version: "1.0.0",
      purl: "pkg:npm/%40base-ui/react@1.0.0",
      licenses: [{ expression: "MIT" }],
    });
    expect(list.dependencies[0]).toEqual({
      ref: "ostler.deb@0.1.0",
      dependsOn: ["@base-ui/react@1.0.0", "a@1.0.0", "c@1.0.0", "unlicensed@2.0.0"],
    });
  });

  test("a list that is not valid is refused", async () => {
    const wrong = { ...npm, components: [{ ...component("a"), type: "fruit" }] };
    await expect(sbomOf(artefact, wrong, [])).rejects.toThrow("The list of parts of ostler.deb is not valid");
  });
});

describe("refusals of a build", () => {
  test.each([
    ["apt-get -qq update failed: E: Failed to fetch http://x", `There is no package index of Debian at ${MIRROR}`],
    ["E: The repository 'x' has no Release file", `There is no package index of Debian at ${MIRROR}`],
    ["dpkg-deb: error: …\nNo space left on device\nmore", "The disk is full: "],
    ["ENOSPC: no space left on device, write", "The disk is full: "],
    ["\nfirst line\nsecond line", "first line"],
  ])("%s is one sentence [R-864]", (message, sentence) => {
    const refusal = refusalOf(message, MIRROR, false);
    expect(refusal).toContain(sentence);
    expect(refusal).not.toContain("\n");
  });
});
