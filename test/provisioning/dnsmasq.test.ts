/** `ostler boot`: the configuration of dnsmasq, its script for leases, and what is refused. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { bootText } from "../../src/commands/boot.ts";
import { ConfigError } from "../../src/config/values.ts";
import { leaseScriptText } from "../../src/provisioning/dnsmasq.ts";
import { eventually } from "../support/eventually.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "dnsmasq-"));
afterAll(() => rmSync(folder, { recursive: true }));

const URL_OF_SERVICE = "http://10.77.0.1:4010";
const ENVIRONMENT = { OSTLER_PROVISION_HOST: "10.77.0.1" };

/** The settings of a configuration, without comments. */
function settings(...flags: readonly string[]): readonly string[] {
  const text = bootText(ENVIRONMENT, ["dnsmasq", ...flags]);
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

function refusalOf(args: readonly string[], environment: Readonly<Record<string, string>> = ENVIRONMENT): string {
  try {
    bootText(environment, args);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error("It was accepted.");
}

describe("configuration of dnsmasq", () => {
  test("a DHCP server leases addresses and serves each kind of firmware", () => {
    const lines = settings("--interface", "br0", "--range", "10.77.0.100,10.77.0.200", "--router", "10.77.0.1");
    expect(lines).toEqual(
      expect.arrayContaining([
        "port=0",
        "interface=br0",
        "dhcp-range=10.77.0.100,10.77.0.200,1h",
        "dhcp-option=option:router,10.77.0.1",
        `dhcp-boot=tag:ipxe,${URL_OF_SERVICE}/boot/ipxe`,
        "dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe",
        "dhcp-boot=tag:!ipxe,tag:x64,snponly.efi",
        "dhcp-boot=tag:!ipxe,tag:arm64,snponly-arm64.efi",
        `dhcp-boot=tag:!ipxe,tag:x64http,${URL_OF_SERVICE}/boot/agent/x64/ipxe.efi`,
        "dhcp-option-force=tag:!ipxe,tag:x64http,60,HTTPClient",
      ]),
    );
  });

  test("a proxy beside another DHCP server leases nothing and names its own address", () => {
    const lines = settings("--interface", "br0", "--proxy", "10.77.0.0");
    expect(lines).toEqual(
      expect.arrayContaining([
        "dhcp-range=10.77.0.0,proxy",
        'pxe-service=tag:!ipxe,X86-64_EFI,"Ostler",snponly.efi',
        `dhcp-boot=tag:ipxe,${URL_OF_SERVICE}/boot/ipxe,,10.77.0.1`,
        "dhcp-pxe-vendor=PXEClient,HTTPClient",
      ]),
    );
    expect(lines.join("\n")).not.toMatch(/dhcp-authoritative|option:router|10\.77\.0\.100/);
    expect(settings("--proxy", "10.77.0.0", "--server", "10.77.0.9").join("\n")).toContain(",,10.77.0.9");
  });

  test("what is not given is not invented: it stands in a comment", () => {
    expect(settings().filter((line) => /^(interface|dhcp-range|dhcp-script|enable-ra)/.test(line))).toEqual([]);
    expect(settings("--ipv6-prefix", "fd77::", "--report-leases", "/usr/local/bin/leases")).toEqual(
      expect.arrayContaining([
        "enable-ra",
        "dhcp-range=fd77::,ra-only,64,5m",
        "dhcp-script=/usr/local/bin/leases",
        "script-on-renewal",
      ]),
    );
  });

  test.each([
    [["dnsmasq", "--range", "10.0.0.1"], "--range"],
    [["dnsmasq", "--range", "10.0.0.1,x"], "--range"],
    [["dnsmasq", "--range", "10.0.0.1,10.0.0.2", "--proxy", "10.0.0.0"], "exclude each other"],
    [["dnsmasq", "--interface", "br0\ndhcp-script=/x"], "--interface"],
    [["dnsmasq", "--tftp-root", "srv"], "--tftp-root"],
    [["dnsmasq", "--report-leases", "/x y"], "--report-leases"],
    [["dnsmasq", "--dns", "10.0.0.1,dns"], "--dns"],
    [["dnsmasq", "--lease-time", "soon"], "--lease-time"],
    [["dnsmasq", "--ipv6-prefix", "fd77::1"], "--ipv6-prefix"],
    [["dnsmasq", "--rang", "x"], "ostler boot help"],
    [["dhcpd"], "does not exist"],
  ])("the command %j is refused", (args, why) => {
    expect(refusalOf(args)).toContain(why);
  });

  test("without the address of the listener the command says which setting is missing", () => {
    expect(refusalOf(["dnsmasq"], {})).toContain("OSTLER_PROVISION_URL");
    expect(refusalOf(["dnsmasq", "--proxy", "10.0.0.0", "--provision-url", "http://boot.example"])).toContain(
      "--server",
    );
    expect(bootText({}, ["dnsmasq", "--provision-url", "http://10.1.0.1:80"])).toContain("http://10.1.0.1/boot/ipxe");
  });

  test("`ostler boot` prints its help, and `ostler boot dnsmasq` exits with 1 for a mistake", () => {
    const run = (...args: readonly string[]) => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, "boot", ...args], { encoding: "utf8" });
      return { status, stdout, stderr };
    };
    expect(run()).toMatchObject({ status: 0, stderr: "" });
    expect(run().stdout).toContain("--lease-script");
    const printed = run("dnsmasq", "--provision-host", "10.77.0.1", "--range", "10.77.0.100,10.77.0.200");
    expect(printed).toMatchObject({ status: 0, stderr: "" });
    expect(printed.stdout).toContain("dhcp-range=10.77.0.100,10.77.0.200,1h");
    expect(run("dnsmasq", "--provision-host", "nowhere")).toMatchObject({ status: 1, stdout: "" });
  });
});

describe("script that reports leases", () => {
  test("a new and a renewed lease are reported; other events and addresses that are not of Ethernet are not", async () => {
    const requests: string[] = [];
    const server = createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      response.writeHead(204).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const path = join(folder, "leases");
    writeFileSync(path, leaseScriptText(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
    chmodSync(path, 0o755);
    const mac = "52:54:00:77:00:0";
    const run = (...args: readonly string[]) => expect(spawnSync(path, args).status).toBe(0);
    run("del", `${mac}9`, "10.0.0.9");
    run("add", "06-52:54:00:77:00:09", "10.0.0.9");
    run("add", "x&y", "10.0.0.9");
    run("init");
    run("add", `${mac}1`, "10.0.0.1");
    run("old", `${mac}2`, "10.0.0.2", "name");
    await eventually("both are reported", () => requests.length >= 2);
    server.close();
    expect(requests.toSorted()).toEqual([1, 2].map((last) => `POST /boot/dhcp?mac=${mac}${last}`));
  });
});
