/**
 * Checks against machines that misbehave: one that accepts connections and stays silent, one that answers garbage, one
 * whose answer does not end. The suite plays them itself, over TCP and UDP, so no machine is needed.
 */
import { createSocket } from "node:dgram";
import type { Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { makeCall, read } from "./calls.ts";
import { PROMPT_SECONDS, describe, ensure, isDriverError, within } from "./proof.ts";
import { secretsIn } from "./schemas.ts";
import type { Subject } from "./subject.ts";

/** Deadline of a call to a silent machine. */
const DEADLINE_SECONDS = 3;
/** Data that an endless answer has sent when it stops, and the growth of the process that it may cause. */
const ENDLESS_BYTES = 256 * 1024 * 1024;
const GROWTH_BYTES_MAX = 192 * 1024 * 1024;
const READS_IN_A_ROW = 40;

export async function provesSilence(subject: Subject): Promise<void> {
  await using machine = await hostileMachine(() => undefined);
  await failsOn(subject, machine.port, "accepts connections and stays silent");
}

export async function provesGarbage(subject: Subject): Promise<void> {
  const garbage = Buffer.from(Array.from({ length: 4096 }, (_, index) => (index * 7919) % 256));
  await using machine = await hostileMachine((answer) => answer(garbage));
  await failsOn(subject, machine.port, "answers garbage");
}

export async function provesEndlessAnswer(subject: Subject): Promise<void> {
  const before = process.memoryUsage().rss;
  await using machine = await hostileMachine((answer, stream) => {
    answer(Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"a":"'));
    if (stream) pour(stream);
  });
  await failsOn(subject, machine.port, "sends an answer without end");
  const growth = process.memoryUsage().rss - before;
  ensure(
    growth < GROWTH_BYTES_MAX,
    `An answer without end makes the process grow by ${Math.round(growth / 1024 / 1024)} MiB; limit the size of answers.`,
  );
}

/** A BMC has few sessions: calls must not each leave one behind. */
export async function provesSessions(subject: Subject): Promise<void> {
  for (let done = 0; done < READS_IN_A_ROW; done += 1)
    await read(subject).catch((error: unknown) =>
      ensure(false, `Read ${done + 1} of ${READS_IN_A_ROW} in a row fails: ${describe(error)}`),
    );
}

/** Fires the signal at each request of a read and of each inspection step to the machine, one after the other. */
export async function provesAbortAnywhere(subject: Subject): Promise<void> {
  const { callNames, driver } = subject;
  for (let request = 1; request <= 20; request += 1) {
    const controller = new AbortController();
    const before = callNames.length;
    const call = await makeCall(subject, { signal: controller.signal });
    const timed: typeof call.timed = (name, work) => {
      const begun = call.timed(name, work);
      if (callNames.length - before === request) controller.abort(new Error("aborted by the conformance suite"));
      return begun;
    };
    const reading = driver.power.read({ ...call, timed }).then(
      () => undefined,
      (error: unknown) => error,
    );
    await within(reading, PROMPT_SECONDS, `power.read, aborted at request ${request}`);
    if (callNames.length - before < request) return;
  }
}

/** The driver's error for a read of a machine at a port of this computer; it has to be clear, discreet and in time. */
async function failsOn(subject: Subject, port: number, what: string): Promise<void> {
  const { driver, options, logged } = subject;
  const settings = options.endpoint?.({ host: "127.0.0.1", port }) ?? {};
  const deadline = new Date(Date.now() + DEADLINE_SECONDS * 1000);
  const signal = AbortSignal.timeout(DEADLINE_SECONDS * 1000);
  const call = { ...(await makeCall(subject, { settings, signal })), deadline };
  const reading = driver.power.read(call).then(
    () => undefined,
    (error: unknown) => error,
  );
  const seconds = DEADLINE_SECONDS + PROMPT_SECONDS;
  const failure = await within(reading, seconds, `power.read of a machine that ${what}`);
  ensure(failure !== undefined, `The driver reads the power of a machine that ${what}.`);
  const isEnded = failure === signal.reason || signal.aborted;
  ensure(
    isDriverError(failure) || isEnded,
    `A machine that ${what} does not make the read fail with a DriverError: ${describe(failure)}`,
  );
  const reported = [describe(failure), ...logged].join("\n");
  const leaked = secretsIn(driver.settings, settings).find(
    ({ value }) => value.length >= 8 && reported.includes(value),
  );
  ensure(
    leaked === undefined,
    `The error or the log about a machine that ${what} contains the secret "${leaked?.name}".`,
  );
}

interface HostileMachine extends AsyncDisposable {
  readonly port: number;
}

/**
 * Listens over TCP and UDP on one port.
 * `play` is called for each connection, and without a stream for each datagram.
 */
async function hostileMachine(
  play: (answer: (data: Buffer) => void, stream?: Socket) => void,
): Promise<HostileMachine> {
  const streams = new Set<Socket>();
  const tcp = createServer((stream) => {
    streams.add(stream);
    stream.on("error", () => stream.destroy());
    stream.once("data", () => play((data) => stream.write(data), stream));
    stream.resume();
  });
  const udp = createSocket("udp4");
  udp.on("message", (_data, from) => play((data) => udp.send(data, from.port, from.address)));
  const port = await listen(tcp, udp);
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const stream of streams) stream.destroy();
      udp.close();
      tcp.close();
      await once(tcp, "close");
    },
  };
}

async function listen(tcp: Server, udp: UdpSocket): Promise<number> {
  tcp.listen(0, "127.0.0.1");
  await once(tcp, "listening");
  const { port } = tcp.address() as AddressInfo;
  udp.bind(port, "127.0.0.1");
  await once(udp, "listening");
  return port;
}

function pour(stream: Socket): void {
  const block = Buffer.alloc(1024 * 1024, "a");
  let sent = 0;
  const next = () => {
    while (sent < ENDLESS_BYTES && !stream.destroyed) {
      sent += block.length;
      if (!stream.write(block)) return void stream.once("drain", next);
    }
  };
  next();
}
