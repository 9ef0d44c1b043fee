/** Driver `redfish`: logins, TLS, and BMCs that answer wrongly, late or not at all. */
import { createServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { TlsOptions } from "node:tls";
import { describe, expect, test } from "vitest";
import { PRESETS } from "../../packages/bmc-simulator/src/index.ts";
import type { Fault } from "../../packages/bmc-simulator/src/index.ts";
import createRedfish from "../../plugins/redfish/index.ts";
import { driverMemory, redfishLab } from "../support/redfish.ts";
import { aCertificate } from "../support/tls-files.ts";

const login = (change: Partial<(typeof PRESETS)["reference"]["login"]>) => ({
  login: { ...PRESETS.reference.login, ...change },
});

describe("Redfish logins", () => {
  test("Redfish continues one session over many calls, and over drivers with the same memory [R-394]", async () => {
    await using lab = await redfishLab();
    await Promise.all([1, 2, 3, 4].map(() => lab.step("read_inventory")));
    for (let calls = 0; calls < 5; calls += 1) await lab.driver.power.read(lab.call());
    expect(lab.bmc.sessions()).toBe(1);
  });

  test("Redfish opens one new session when the BMC has ended the old one [R-394]", async () => {
    await using lab = await redfishLab();
    await lab.driver.power.read(lab.call());
    lab.bmc.faults.add({ kind: "lost-session", times: 1 });
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
    expect(lab.bmc.sessions()).toBe(1);
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
  });

  test("Redfish opens one session for the requests of a call that lose theirs at the same time", async () => {
    await using lab = await redfishLab({ traits: "openbmc-like" });
    await lab.driver.power.read(lab.call());
    // Four members of the list are read at the same time.
    lab.bmc.faults.add({ kind: "lost-session", path: "/Memory/", times: 4 });
    expect((await lab.step("read_inventory")).kind).toBe("done");
    expect(lab.bmc.sessions()).toBe(1);
  });

  test.each<[string, readonly Fault[]]>([
    [
      "401 and a body that breaks off",
      [
        { kind: "lost-session", times: 1 },
        { kind: "cut", times: 1 },
      ],
    ],
    ["403 and the message that there is none", [{ kind: "session-forbidden", times: 1 }]],
  ])("Redfish opens a new session after %s [R-1305]", async (_what, faults) => {
    await using lab = await redfishLab({ traits: login({ refusal: "general-error" }) });
    await lab.driver.power.read(lab.call());
    lab.bmc.faults.set(faults);
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
    expect(lab.bmc.faults.list()).toEqual([]);
  });

  test("Redfish sends the password with each request to a BMC without free sessions [R-395]", async () => {
    await using lab = await redfishLab({ traits: login({ sessionsMax: 0 }) });
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
    await lab.driver.power.set?.(lab.call(), "ON");
    expect(lab.bmc.state.power).toBe("On");
  });

  test("Redfish sends the password with each request to a BMC that names its limit in words of its own [R-395]", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "answer", status: 503, body: "error", method: "POST", path: "/Sessions" });
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
  });

  test("Redfish reports a BMC without free sessions and without basic authentication as retryable [R-395]", async () => {
    await using lab = await redfishLab({ traits: login({ sessionsMax: 0, basic: false }) });
    for (let times = 0; times < 2; times += 1)
      await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({
        kind: "REFUSED",
        retryable: true,
        message: expect.stringContaining("opens no further session"),
      });
  });

  test.each(["reference", "ilo-like", "openbmc-like", "minimal"] as const)(
    "Redfish reports a wrong password as AUTHENTICATION, without it, at a BMC of the kind %s",
    async (traits) => {
      await using lab = await redfishLab({ traits });
      const settings = { password: "wr0ng-canary" };
      const failure = await lab.driver.power.read(lab.call({ settings })).catch((error: unknown) => error);
      expect(failure).toMatchObject({ kind: "AUTHENTICATION", retryable: false });
      expect(String(failure) + lab.logged.join("")).not.toContain("canary");
    },
  );

  test("Redfish closes the sessions that it cannot continue", async () => {
    await using lab = await redfishLab();
    // The step logs in on its own, to see whether the new password is in force.
    const settings = { nextPassword: lab.bmc.credentials.password };
    expect(await lab.step("rotate_password", {}, { settings })).toMatchObject({ kind: "done" });
    expect(lab.bmc.sessions()).toBe(0);
  });
});

/** A TLS server with an encryption of the past. */
async function weakServer(options: Pick<TlsOptions, "minVersion" | "maxVersion" | "ciphers">) {
  const { certificate: cert, key } = aCertificate();
  const server = createTlsServer({ ciphers: "ALL:@SECLEVEL=0", ...options, cert, key }, (socket) => socket.end());
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { port, [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())) };
}

describe("Redfish over TLS", () => {
  test("Redfish accepts a certificate of the authority in the settings [R-396]", async () => {
    await using lab = await redfishLab({ tls: true });
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
  });

  test("Redfish accepts a certificate by its fingerprint, in any notation [R-396]", async () => {
    await using lab = await redfishLab({ tls: true });
    const fingerprint = lab.bmc.tls?.fingerprint256 ?? "";
    for (const written of [fingerprint, fingerprint.replaceAll(":", "").toLowerCase()]) {
      const settings = { certificateAuthority: undefined, fingerprint: written };
      expect(await lab.driver.power.read(lab.call({ settings }))).toBe("OFF");
    }
  });

  test.each([
    ["that no known authority has signed", { certificateAuthority: undefined }, undefined],
    ["with another fingerprint", { certificateAuthority: undefined, fingerprint: "AB".repeat(32) }, undefined],
    ["that has expired", {}, "expired"],
    ["of another host", {}, "wrong-name"],
  ] as const)("Redfish sends nothing to a BMC with a certificate %s [R-396]", async (_what, settings, problem) => {
    await using lab = await redfishLab({ tls: true });
    if (problem) lab.bmc.faults.add({ kind: "certificate", problem });
    await expect(lab.driver.power.read(lab.call({ settings }))).rejects.toMatchObject({
      kind: "OTHER",
      message: expect.stringContaining("certificate"),
    });
    expect(lab.bmc.sessions()).toBe(0);
  });

  test("Redfish accepts any certificate if the settings say so", async () => {
    await using lab = await redfishLab({ tls: true });
    const settings = { certificateAuthority: undefined, verifyCertificate: false };
    expect(await lab.driver.power.read(lab.call({ settings }))).toBe("OFF");
  });

  test.each([
    ["offers TLS 1.1 at most", { minVersion: "TLSv1", maxVersion: "TLSv1.1" }, /firmware.*\(.*PROTO/],
    ["does not encrypt", { maxVersion: "TLSv1.2", ciphers: "NULL:@SECLEVEL=0" }, /encryption that is not accepted/],
  ] as const)("Redfish says what is wrong with a BMC that %s [R-1307]", async (_what, options, says) => {
    await using lab = await redfishLab({ tls: true });
    await using bmc = await weakServer(options);
    const settings = { port: bmc.port, certificateAuthority: undefined, verifyCertificate: false };
    await expect(lab.driver.power.read(lab.call({ settings }))).rejects.toMatchObject({
      message: expect.stringMatching(says),
    });
  });

  test.each([
    ["expired", /not valid now/],
    ["wrong-name", /another name/],
  ] as const)("Redfish says what is wrong with a certificate: %s [R-1307]", async (problem, says) => {
    await using lab = await redfishLab({ tls: true });
    lab.bmc.faults.add({ kind: "certificate", problem });
    await expect(lab.driver.power.read(lab.call())).rejects.toThrow(says);
  });

  test("Redfish reports a BMC without TLS where TLS is expected", async () => {
    await using lab = await redfishLab();
    await expect(lab.driver.power.read(lab.call({ settings: { scheme: "HTTPS" } }))).rejects.toMatchObject({
      kind: "OTHER",
      message: expect.stringContaining("encryption"),
    });
  });
});

describe("Redfish BMCs that fail", () => {
  test.each<[string, Fault, { readonly kind: string; readonly says: RegExp }]>([
    ["malformed JSON", { kind: "malformed" }, { kind: "OTHER", says: /not a JSON object/ }],
    ["an answer of 100 MB", { kind: "huge", bytes: 100 * 2 ** 20 }, { kind: "OTHER", says: /more than 16 MiB/ }],
    ["a reset of the connection", { kind: "reset" }, { kind: "UNREACHABLE", says: /connection broke/ }],
    [
      "a redirect to another host",
      { kind: "redirect", to: "http://127.0.0.9:1" },
      { kind: "REFUSED", says: /points to another address \(http:\/\/127\.0\.0\.9:1\)/ },
    ],
    ["a lost session each time", { kind: "lost-session" }, { kind: "AUTHENTICATION", says: /no valid session/ }],
  ])("Redfish ends a call with one clear error after %s [R-397]", async (_what, fault, { kind, says }) => {
    await using lab = await redfishLab();
    await lab.driver.power.read(lab.call());
    lab.bmc.faults.add(fault);
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({
      kind,
      message: expect.stringMatching(says),
    });
    lab.bmc.faults.clear();
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
  });

  test.each<[string, Fault]>([
    ["never answers", { kind: "silent" }],
    ["stops in the middle of an answer", { kind: "half" }],
    ["answers after the deadline", { kind: "slow", ms: 3000 }],
  ])("Redfish reports TIMEOUT, without effect, for a BMC that %s [R-398]", async (_what, fault) => {
    await using lab = await redfishLab();
    lab.bmc.faults.add(fault);
    const expected = { kind: "TIMEOUT", retryable: true, withoutEffect: true };
    await expect(lab.driver.power.read(lab.call({ seconds: 1 }))).rejects.toMatchObject(expected);
    await expect(lab.driver.power.set?.(lab.call({ seconds: 1 }), "ON")).rejects.toMatchObject(expected);
    expect(lab.bmc.state.power).toBe("Off");
  });

  test("Redfish reports a timeout after a request to change as one that may have had an effect [R-398]", async () => {
    await using lab = await redfishLab();
    await lab.driver.power.read(lab.call());
    lab.bmc.faults.add({ kind: "silent", method: "POST" });
    await expect(lab.driver.power.set?.(lab.call({ seconds: 2 }), "ON")).rejects.toMatchObject({
      kind: "TIMEOUT",
      withoutEffect: false,
    });
  });

  test("Redfish reports UNREACHABLE for a BMC that accepts connections and does not begin TLS [R-398]", async () => {
    await using lab = await redfishLab({ tls: true });
    lab.bmc.faults.add({ kind: "deaf" });
    await expect(lab.driver.power.set?.(lab.call(), "ON")).rejects.toMatchObject({ kind: "UNREACHABLE" });
  });

  test("Redfish reports UNREACHABLE where nothing listens", async () => {
    await using lab = await redfishLab();
    await lab.bmc.close();
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({ kind: "UNREACHABLE", retryable: true });
  });

  test("Redfish asks a busy BMC again after the time that it names", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "unavailable", retryAfterSeconds: 1, times: 2 });
    const before = Date.now();
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
    expect(Date.now() - before).toBeGreaterThanOrEqual(2000);
  });

  test.each<[string, Fault]>([
    ["compresses its answers unasked", { kind: "compressed" }],
    ["closes a connection that was kept", { kind: "reset", method: "GET", times: 1 }],
    ["limits requests, and names the time as a date", { kind: "too-many", retryAfterSeconds: 1, times: 2 }],
    ["does not answer $expand", { kind: "silent", path: "$expand" }],
  ])("Redfish reads a BMC that %s [R-1306]", async (_what, fault) => {
    await using lab = await redfishLab();
    lab.bmc.faults.add(fault);
    expect(await lab.driver.power.read(lab.call())).toBe("OFF");
    expect(await lab.driver.firmware?.read(lab.call({ seconds: 4 }))).toHaveLength(5);
  });

  test("Redfish does not wait for a busy BMC beyond its deadline", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "unavailable", retryAfterSeconds: 20 });
    const before = Date.now();
    await expect(lab.driver.power.read(lab.call({ seconds: 5 }))).rejects.toMatchObject({ retryable: true });
    expect(Date.now() - before).toBeLessThan(4000);
  });

  const asAway: readonly Fault[] = [
    { kind: "reset" },
    ...[502, 503, 504].map((status) => ({ kind: "answer", status, body: "page" }) as const),
    { kind: "unavailable", retryAfterSeconds: 60 },
  ];
  test.each(asAway)("Redfish reports a BMC as away that restarts: $kind $status [R-801]", async (fault) => {
    await using lab = await redfishLab({ traits: "strict" });
    const { driver, call, bmc } = lab;
    bmc.faults.set([fault]);
    const isAway = expect.objectContaining({ retryable: true, away: true });
    await expect(driver.power.read(call())).rejects.toEqual(isAway);
    const setBootDevice = () => driver.power.setBootDevice?.(call({ seconds: 1 }), "PXE", { persistent: false });
    await expect(setBootDevice()).rejects.toEqual(isAway);
    expect(await lab.step("read_inventory")).toMatchObject({ kind: "failed", away: true });
    bmc.faults.clear();
    expect(await lab.step("read_inventory")).toMatchObject({ kind: "done" });
    // The boot device can be set twice; a medium may have been inserted, so that nothing begins again.
    bmc.faults.set([{ ...fault, method: "PATCH" }]);
    await expect(setBootDevice()).rejects.toEqual(isAway);
    bmc.faults.set([{ kind: "lost-answer", method: "POST", path: "InsertMedia" }]);
    const insert = driver.media?.insert(call(), "http://10.0.0.1/a.iso", { writeProtected: true });
    await expect(insert).rejects.toMatchObject({ away: false });
  });

  test.each<[string, Pick<Fault, "method" | "path" | "times">]>([
    ["to everything", { times: 3 }],
    ["to the change", { method: "PATCH", times: 2 }],
    ["when it was asked for the session", { method: "POST", path: "/Sessions", times: 1 }],
  ])(
    "a boot device was not set by a BMC that answered 503 without a time %s: it is asked again [R-930]",
    async (_what, where) => {
      await using lab = await redfishLab({ traits: "strict" });
      lab.bmc.faults.set([{ kind: "answer", status: 503, body: "none", ...where }]);
      await lab.driver.power.setBootDevice?.(lab.call(), "PXE", { persistent: false });
      expect(lab.bmc.faults.list()).toEqual([]);
      expect(await lab.driver.power.readBootDevice?.(lab.call())).toMatchObject({ device: "PXE" });
    },
  );

  test("Redfish reports no BMC as away that has no free session, or that is gone from the DNS", async () => {
    await using lab = await redfishLab({ traits: "strict" });
    for (let sessions = 0; sessions < PRESETS.strict.login.sessionsMax; sessions += 1)
      await (await createRedfish({ log: () => {}, memory: driverMemory() })).power.read(lab.call());
    await expect(lab.driver.power.read(lab.call())).rejects.toMatchObject({ away: false });
    const settings = { address: "bmc.invalid" };
    await expect(lab.driver.power.read(lab.call({ settings }))).rejects.toMatchObject({ away: false });
  });

  test("Redfish reports what answers at the address and is not HTTP", async () => {
    await using lab = await redfishLab();
    const server = createServer((socket) => socket.resume().end("SSH-2.0-OpenSSH_9.2\r\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    await expect(lab.driver.power.read(lab.call({ settings: { port } }))).rejects.toMatchObject({ kind: "OTHER" });
    await new Promise((resolve) => server.close(resolve));
  });

  test("Redfish ends a call at once when its signal fires, with the reason of the signal", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "slow", ms: 5000 });
    const cut = new AbortController();
    const reading = lab.driver.power.read(lab.call({ signal: cut.signal }));
    setTimeout(() => cut.abort(new Error("stopped")), 50);
    const before = Date.now();
    await expect(reading).rejects.toThrow("stopped");
    expect(Date.now() - before).toBeLessThan(3000);
  });

  test("Redfish does not repeat the address of an image, which may contain a secret [R-399]", async () => {
    await using lab = await redfishLab();
    lab.bmc.faults.add({ kind: "lost-session", method: "POST", path: "InsertMedia" });
    const url = "http://10.0.0.1/a.iso?token=canary";
    const failure = await lab.driver.media
      ?.insert(lab.call(), url, { writeProtected: true })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ kind: "AUTHENTICATION" });
    expect(String(failure) + lab.logged.join("")).not.toContain("canary");
  });
});

test("Redfish keeps no password in the driver's memory", async () => {
  const memory = driverMemory();
  const written: string[] = [];
  const recorder = {
    get: memory.get,
    set: async (key: string, value: never) => {
      written.push(JSON.stringify([key, value ?? null]));
      await memory.set(key, value);
    },
  };
  await using lab = await redfishLab({ credentials: { userName: "admin", password: "canary-password" } }, recorder);
  await lab.driver.power.set?.(lab.call(), "ON");
  expect(written).not.toHaveLength(0);
  expect(written.join("\n")).not.toContain("canary");
});
