/**
 * Hosts of the lab: each is a network, mount and host name namespace of its own with an SSH server, at an address of
 * one bridge. To be run in a namespace (test/e2e/namespace.ts): it changes the network that it is started in.
 */
import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";

export const GATEWAY = "10.77.0.1";
/** A user who logs in by password. */
export const PASSWORD_USER = { name: "deploy", password: "lab-password-5d1c0e" } as const;

export interface LabHost {
  readonly name: string;
  readonly address: string;
  /** Public host key. */
  readonly hostKey: string;
  /** Runs a shell command on the host, beside SSH. Returns what it prints; empty if it fails. */
  shell(command: string): string;
  /** Connects or disconnects its cable. */
  setLink(state: "up" | "down"): void;
}

export interface Lab {
  readonly hosts: readonly LabHost[];
  readonly privateKey: string;
}

/** Starts `h1`, `h2` and so on at 10.77.0.11 and the following addresses. */
export async function startHosts(folder: string, count: number): Promise<Lab> {
  ip("link set lo up");
  ip("link add br0 type bridge forward_delay 0");
  ip(`addr add ${GATEWAY}/24 dev br0`);
  ip("link set br0 up");
  const key = newKey(join(folder, "key"));
  writeFileSync(join(folder, "authorized_keys"), key.publicKey);
  writeFileSync(
    join(folder, "passwd"),
    `${readFileSync("/etc/passwd", "utf8")}${PASSWORD_USER.name}:x:4242:4242::/tmp:/bin/sh\n`,
  );
  const hash = execFileSync("openssl", ["passwd", "-6", PASSWORD_USER.password], { encoding: "utf8" }).trim();
  writeFileSync(join(folder, "shadow"), `root:*:19000::::::\n${PASSWORD_USER.name}:${hash}:19000::::::\n`, {
    mode: 0o600,
  });
  mkdirSync("/run/sshd", { recursive: true });
  const hosts = await Promise.all(
    Array.from({ length: count }, (_, index) => startHost(folder, `h${index + 1}`, `10.77.0.${11 + index}`)),
  );
  return { hosts, privateKey: key.privateKey };
}

async function startHost(folder: string, name: string, address: string): Promise<LabHost> {
  const { publicKey: hostKey } = newKey(join(folder, `host-${name}`));
  const config = join(folder, `sshd-${name}`);
  writeFileSync(
    config,
    [
      `HostKey ${join(folder, `host-${name}`)}`,
      `AuthorizedKeysFile ${join(folder, "authorized_keys")}`,
      `PidFile ${join(folder, `pid-${name}`)}`,
      "StrictModes no\nUsePAM no\nPasswordAuthentication yes\nPermitRootLogin prohibit-password\nMaxStartups 100\n",
    ].join("\n"),
  );
  const script = [
    `hostname ${name}`,
    "mount -t tmpfs tmpfs /srv && chmod 1777 /srv",
    `mount --bind ${join(folder, "passwd")} /etc/passwd`,
    `mount --bind ${join(folder, "shadow")} /etc/shadow`,
    "echo ready; read _",
    `exec /usr/sbin/sshd -D -f ${config}`,
  ].join("\n");
  const child = spawn("unshare", ["--net", "--mount", "--uts", "sh", "-c", script], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  const pid = pidOf(child);
  ip(`link add v-${name} type veth peer name eth0 netns ${pid}`);
  ip(`link set v-${name} master br0 up`);
  const shell = (command: string) => {
    try {
      return execFileSync("nsenter", ["-t", String(pid), "-n", "-m", "-u", "sh", "-c", command], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      });
    } catch {
      return "";
    }
  };
  shell(
    `ip link set lo up; ip addr add ${address}/24 dev eth0; ip link set eth0 up; ip route add default via ${GATEWAY}`,
  );
  child.stdin.write("\n");
  await eventually(`the SSH server of ${name} answers`, () => isOpen(address), 20_000);
  return {
    name,
    address,
    hostKey: hostKey.split(" ").slice(0, 2).join(" "),
    shell,
    setLink: (state) => ip(`link set v-${name} ${state}`),
  };
}

function pidOf({ pid }: ChildProcess): number {
  if (pid === undefined) throw new Error("A host of the lab could not be started.");
  return pid;
}

function newKey(file: string): { readonly privateKey: string; readonly publicKey: string } {
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", file]);
  return { privateKey: readFileSync(file, "utf8"), publicKey: readFileSync(`${file}.pub`, "utf8") };
}

function ip(words: string): void {
  execFileSync("ip", words.split(" "));
}

async function isOpen(host: string): Promise<boolean> {
  const socket = connect({ host, port: 22 });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
