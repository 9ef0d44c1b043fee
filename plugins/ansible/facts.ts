/** The inventory of a machine, by the facts that Ansible collects. */
import type { Json } from "../../src/drivers/driver.ts";

type Facts = Readonly<Record<string, Json>>;

/** Pure. `output`: the data of facts.yml. What the machine does not report is absent. */
export function inventoryOf(output: Json): { readonly [name: string]: Json } {
  const facts = objectIn(objectIn(output)["facts"] ?? null);
  const fact = (name: string) => facts[`ansible_${name}`] ?? null;
  const memory = fact("memtotal_mb");
  const cores = fact("processor_vcpus");
  return withoutNulls({
    manufacturer: textIn(fact("system_vendor")),
    model: textIn(fact("product_name")),
    serial: textIn(fact("product_serial")),
    uuid: textIn(fact("product_uuid"))?.toLowerCase() ?? null,
    hostName: textIn(fact("fqdn")) ?? textIn(fact("hostname")),
    biosVersion: textIn(fact("bios_version")),
    board: withoutNulls({
      manufacturer: textIn(fact("board_vendor")),
      model: textIn(fact("board_name")),
      serial: textIn(fact("board_serial")),
    }),
    processors: typeof cores === "number" ? [processorOf(cores, textIn(fact("architecture")))] : null,
    memoryBytes: typeof memory === "number" ? memory * 1024 * 1024 : null,
    disks: disksIn(objectIn(fact("devices"))),
    networkInterfaces: interfacesIn(facts),
  });
}

/** All processors as one: how many there are depends on the architecture. */
function processorOf(threads: number, architecture: string | null): Json {
  return withoutNulls({ id: "0", architecture, threads });
}

/** Disks of the machine: no loops, mappings, arrays of other disks, and media. */
function disksIn(devices: Facts): Json[] {
  return Object.entries(devices).flatMap(([name, one]) => {
    const device = objectIn(one);
    const sectors = Number(device["sectors"]);
    if (!/^(sd|nvme|vd|xvd|hd|mmcblk)/.test(name) || !(sectors > 0)) return [];
    return [
      withoutNulls({
        id: name,
        path: `/dev/${name}`,
        // The kernel counts sectors of 512 bytes, whatever those of the disk are.
        sizeBytes: sectors * 512,
        model: textIn(device["model"] ?? null),
        manufacturer: textIn(device["vendor"] ?? null),
        serial: textIn(device["serial"] ?? null),
        wwn: textIn(device["wwn"] ?? null),
        rotational: device["rotational"] === "1",
        removable: device["removable"] === "1",
      }),
    ];
  });
}

/** Interfaces with hardware of their own; a bridge has the address of one of its ports. */
function interfacesIn(facts: Facts): Json[] {
  const names = facts["ansible_interfaces"];
  return (Array.isArray(names) ? names : []).flatMap((name) => {
    const found = objectIn(facts[`ansible_${String(name).replaceAll(/[-:.]/g, "_")}`] ?? null);
    const mac = textIn(found["macaddress"] ?? null);
    if (found["type"] !== "ether" || mac === null) return [];
    const speed = found["speed"];
    return [
      withoutNulls({
        id: String(name),
        name: String(name),
        mac: mac.toLowerCase(),
        link: found["active"] === true ? "UP" : "DOWN",
        speedMbps: typeof speed === "number" && speed > 0 ? speed : null,
      }),
    ];
  });
}

/** Null for a text that Ansible gives in place of one that the machine lacks. */
function textIn(value: Json): string | null {
  if (typeof value !== "string") return null;
  const text = value.trim();
  return text === "" || /^(NA|None|Not Specified|Unknown|To be filled by O\.E\.M\.)$/i.test(text) ? null : text;
}

function objectIn(value: Json): Facts {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Facts) : {};
}

function withoutNulls(given: Readonly<Record<string, Json>>): { readonly [name: string]: Json } {
  return Object.fromEntries(
    Object.entries(given).filter(
      ([, value]) => value !== null && !(typeof value === "object" && Object.keys(value).length === 0),
    ),
  );
}
