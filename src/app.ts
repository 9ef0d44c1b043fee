/**
 * The composition root: starts the service from a configuration, and shuts it down.
 *
 * Shutdown: readiness turns off and no new work is taken. Then the parts end in reverse order: the server finishes
 * pending responses, the engine lets steps reach their boundary and hands their runs back, the database closes last.
 * The lease of a step that takes longer expires.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { hostname } from "node:os";
import { resolve } from "node:path";
import type { Config } from "./config/config.ts";
import { configForLog } from "./config/config.ts";
import { isLoopback } from "./config/values.ts";
import { Authenticator } from "./access/authenticator.ts";
import { Directory } from "./access/directory.ts";
import { signInAt } from "./access/issuer-sign-in.ts";
import { JwtVerifier } from "./access/jwt.ts";
import { registerDemonstrationFleet } from "./startup/demonstration-fleet.ts";
import { createPool } from "./drivers/isolation/pool.ts";
import { findWorkerUser } from "./drivers/isolation/worker-user.ts";
import type { Pool } from "./drivers/isolation/pool.ts";
import { loadPlugins } from "./drivers/load.ts";
import type { Registry } from "./drivers/registry.ts";
import { createEngine } from "./engine/engine.ts";
import type { Engine } from "./engine/engine.ts";
import { deleteAbandonedFiles } from "./engine/images/temporary-images.ts";
import { createTail } from "./feed/log/tail.ts";
import { unfitDocuments } from "./graphql/execution/document-reading.ts";
import { buildSchema, hashOfSchema, schemaText } from "./graphql/schema/schema.ts";
import { startHealthServer } from "./http/health.ts";
import type { HealthServer } from "./http/health.ts";
import { readCertificate } from "./http/port/certificate.ts";
import { checkPort } from "./http/port/listen.ts";
import type { Log } from "./log.ts";
import { createAgentMedia } from "./provisioning/agent-media.ts";
import type { AgentMedia } from "./provisioning/agent-media.ts";
import { firmwarePlaces } from "./provisioning/boot-files.ts";
import { dhcpLeases } from "./provisioning/dhcp-leases.ts";
import { PROVISION_SETTING, PROVISION_TLS_SETTING, startListener } from "./provisioning/listener.ts";
import { makeMachineCertificate } from "./provisioning/machine-certificate.ts";
import { fileServers } from "./runtime/file-servers.ts";
import { ipNetworks } from "./runtime/ip-networks.ts";
import type { Observer } from "./observer.ts";
import { connectionOf, explainDatabaseErrors, openMigrated, waitForDatabase } from "./startup/database-start.ts";
import { startServer } from "./http/port/server.ts";
import type { RunningServer } from "./http/port/server.ts";
import { createNotifier } from "./store/postgres/notifier.ts";
import type { Notifier } from "./store/postgres/notifier.ts";
import { connectionsTaken } from "./store/postgres/database.ts";
import type { Connection, Database } from "./store/postgres/database.ts";
import { openKeyring } from "./store/secrets/keyring.ts";
import type { Keyring } from "./store/secrets/keyring.ts";
import { readMasterKeys } from "./store/secrets/master-keys.ts";
import type { MasterKeys } from "./store/secrets/master-keys.ts";
import { hasPlainSecrets } from "./store/secrets/reencryption.ts";
import { sharedCertificate } from "./store/machine-certificate.ts";
import { createTelemetry } from "./telemetry/telemetry.ts";
import type { Scrape } from "./telemetry/telemetry.ts";

export interface Service extends AsyncDisposable {
  /** Base URL, as http://host:port, or https. */
  readonly url: string;
  readonly engine: Engine;
}

export const VERSION = (
  JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }
).version;

const CONSOLE_FOLDER = fileURLToPath(new URL("../packages/console", import.meta.url));

/**
 * After this time a shutdown stops waiting for the database and fails pending statements, so that each part can end
 * before the process must exit (commands/serve.ts). A half-open connection would never answer.
 */
const GIVE_UP_MS = 6_500;

export async function startService(config: Config, log: Log): Promise<Service> {
  log.info({ version: VERSION, config: configForLog(config) }, "starting");
  if (config.tls) await readCertificate(config.tls);
  warnOfClearText(config, log);
  const masterKeys = readMasterKeys(config);
  await checkPort(config.port, config.host);
  if (listensToMachines(config)) {
    await checkPort(config.provisionPort, config.provisionHost, PROVISION_SETTING);
    await checkPort(config.provisionTlsPort, config.provisionHost, PROVISION_TLS_SETTING);
  }
  await using parts = new AsyncDisposableStack();
  const workers = config.driverWorkers ?? config.concurrency;
  const placeOf = () => ({ hidden: resolve(config.data), user: findWorkerUser(config.driverUser, log) });
  const pool = workers > 0 ? parts.use(createPool({ workers, log, place: placeOf() })) : undefined;
  const registry = parts.use(
    await loadPlugins(config.plugins, log, {
      pool,
      networks: ipNetworks(config.bmcNetworks),
      files: fileServers(config.fileServers, config.provisionUrl),
      pluginFolder: config.pluginFolder,
    }),
  );
  await deleteAbandonedFiles(config.imageFolder, log);
  const connection = await connectionOf(config, parts, log);
  const { database, server, engine } = parts.use(
    await waitForDatabase(config, () => startOnDatabase(config, { connection, registry, pool, masterKeys }, log), log),
  );
  log.info({ url: config.role === "engine" ? server.url : `${server.url}/graphql`, role: config.role }, "ready");
  const running = parts.move();
  return {
    url: server.url,
    engine,
    async [Symbol.asyncDispose]() {
      log.info("stopping");
      server.rest();
      engine.rest();
      const late = setTimeout(() => {
        log.warn("the database does not answer; shutting down without it");
        void database.disconnect();
      }, GIVE_UP_MS);
      await running.disposeAsync().finally(() => clearTimeout(late));
      log.info("stopped");
    },
  };
}

function warnOfClearText({ host, tls, proxies }: Config, log: Log): void {
  if (!isLoopback(host) && tls === null && proxies.length === 0)
    log.warn(
      `OSTLER_HOST is ${host}, which other machines can reach, and tokens and passwords are sent in clear. Set OSTLER_TLS_CERT and OSTLER_TLS_KEY, or name the network of the proxy that ends TLS in OSTLER_PROXIES.`,
    );
}

interface Resources {
  readonly connection: Connection;
  readonly registry: Registry;
  readonly pool: Pool | undefined;
  readonly masterKeys: MasterKeys | "off";
}

interface Running extends AsyncDisposable {
  readonly database: Database;
  readonly server: RunningServer | HealthServer;
  readonly engine: Engine;
}

/** Starts everything that needs the database. If it throws, everything started is disposed of. */
async function startOnDatabase(
  config: Config,
  { connection, registry, pool, masterKeys }: Resources,
  log: Log,
): Promise<Running> {
  await using parts = new AsyncDisposableStack();
  const database = parts.use(await openMigrated(config, connection, log));
  const keyring = await openKeyring(database, masterKeys);
  if (masterKeys !== "off" && (await hasPlainSecrets(database.reader)))
    log.warn("some secrets are stored in clear; encrypt them with `ostler secrets encrypt`");
  logConnections(config, database, log);
  const notifier = parts.use(
    await explainDatabaseErrors(config.listenUrl ?? config.databaseUrl, () =>
      createNotifier(database, (error) =>
        log.warn({ err: error }, "the notifier lost its connection; until it is back, new work is found by polling"),
      ),
    ),
  );
  const telemetry = parts.use(await createTelemetry({ log, version: VERSION }));
  const { observer } = telemetry;
  // An engine-only replica opens no connections for API reads.
  const scrape = telemetry.scrapeOf(config.role === "engine" ? database.reader : database.bounded, registry.circuits);
  const directory = parts.use(
    await Directory.open({
      reader: config.role === "engine" ? database.reader : database.bounded,
      transaction: database.transaction,
      admins: config.admins,
      onFailure: (error) => log.warn({ err: error }, "looking for changes of accounts and roles failed"),
    }),
  );
  const jwts = parts.use(
    new JwtVerifier({
      issuers: config.issuers,
      onFailure: (error, issuer) =>
        log.warn({ err: error, issuer }, "the keys of an issuer cannot be read; those that are known count for a day"),
    }),
  );
  const authenticator = new Authenticator({ directory, token: config.token, jwts });
  const media = createAgentMedia(config.agentFolder, log);
  const { provisionUrl } = config;
  const working = parts.use(
    await createEngine({
      database,
      registry,
      keyring,
      notifier,
      log,
      observer,
      ...(pool && { endCalls: () => pool.endCalls() }),
      provisioning: provisionUrl === null ? null : { url: provisionUrl, mediaFor: media.mediaFor },
      works: config.role !== "api",
      isAlone: config.databaseUrl === null,
      principals: { admins: config.admins, issuers: config.issuers.map(({ name }) => name) },
      concurrency: config.concurrency,
      powerSeconds: config.powerSeconds,
      retentionDays: config.retentionDays,
      auditDays: config.auditDays,
      imageFolder: config.imageFolder,
    }),
  );
  const engine = telemetry.watch(working);
  const { noteAudit } = engine;
  if (config.demo) await registerDemonstrationFleet(engine, database.reader, log);
  const server = parts.use(
    config.role === "engine"
      ? await startHealthServer({ ...config, database, noteAudit, metrics: { authenticator, scrape }, log, observer })
      : await serve(config, { database, registry, notifier, engine, observer, scrape, authenticator }, parts, log),
  );
  await engine.start();
  const started = { outcome: "ACCEPTED", reason: `Version ${VERSION}, role ${config.role}.` } as const;
  noteAudit({ subject: "service", action: "START" }, { ...started, targets: [hostname()] });
  if (listensToMachines(config))
    parts.use(await listenToMachines(config, { database, keyring, engine, media, observer }, log));
  const begun = parts.move();
  return { database, server, engine, [Symbol.asyncDispose]: () => begun.disposeAsync() };
}

type ListeningConfig = Config & { readonly provisionHost: string; readonly provisionUrl: string };

/** Whether this replica has the listener for machines. */
function listensToMachines(config: Config): config is ListeningConfig {
  return config.role !== "engine" && config.provisionHost !== null && config.provisionUrl !== null;
}

async function listenToMachines(
  config: ListeningConfig,
  {
    database,
    keyring,
    engine,
    media,
    observer,
  }: Pick<Parts, "database" | "engine" | "observer"> & { readonly keyring: Keyring; readonly media: AgentMedia },
  log: Log,
): Promise<AsyncDisposable> {
  return startListener({
    host: config.provisionHost,
    port: config.provisionPort,
    tlsPort: config.provisionTlsPort,
    // At the host where machines reach the other port.
    agentUrl: `https://${new URL(config.provisionUrl).hostname}:${config.provisionTlsPort}`,
    certificate: await sharedCertificate(database, keyring, makeMachineCertificate),
    url: config.provisionUrl,
    agents: engine.agents,
    media,
    storedImage: (id) => engine.storedImage(id),
    firmware: firmwarePlaces(config.agentFolder),
    ...(config.dhcpLeases !== null && { leases: dhcpLeases(config.dhcpLeases) }),
    log,
    observer,
  });
}

interface Parts {
  readonly database: Database;
  readonly registry: Registry;
  readonly notifier: Notifier;
  readonly engine: Engine;
  readonly observer: Observer;
  readonly scrape: () => Promise<Scrape>;
  readonly authenticator: Authenticator;
}

/** Starts the API server and what only the API needs. */
async function serve(
  config: Config,
  { database, registry, notifier, engine, observer, scrape, authenticator }: Parts,
  parts: AsyncDisposableStack,
  log: Log,
): Promise<RunningServer> {
  const tail = parts.use(await createTail({ database, notifier, log, observer }));
  const schema = buildSchema(registry.drivers);
  const text = schemaText(schema);
  const unfit = await unfitDocuments(database.reader, schema);
  if (unfit.length > 0)
    log.warn(
      { documents: unfit },
      "registered documents do not fit the schema of this version, and are refused; `trustedDocuments` has the reasons",
    );
  const services = {
    database,
    registry,
    engine,
    tail,
    access: authenticator,
    schema,
    version: VERSION,
    schemaHash: hashOfSchema(text),
  };
  return startServer({
    host: config.host,
    port: config.port,
    tls: config.tls,
    proxies: config.proxies,
    authenticator,
    signInAt: signInAt(config.issuers),
    origins: config.origins,
    introspection: config.introspection,
    consoleFolder: config.console ? CONSOLE_FOLDER : null,
    bodyBytesMax: config.bodyKb * 1024,
    keepAliveMs: config.keepAliveSeconds * 1_000,
    requestsMax: config.requests,
    schema,
    schemaText: text,
    services,
    log,
    observer,
    scrape,
  });
}

function logConnections({ role }: Config, database: Database, log: Log): void {
  const { pools, isPooled, serverConnectionsMax } = database;
  const { readers, snapshots, ...working } = pools;
  const serves = role !== "engine";
  const connections = connectionsTaken(database, serves);
  log.info(
    { connections, ...working, ...(serves && { readers, snapshots }), listener: 1, isPooled },
    "database connections that this replica may open",
  );
  if (!isPooled && connections > serverConnectionsMax)
    log.warn(
      { connections, max_connections: serverConnectionsMax },
      "the server allows fewer connections than this replica may open; lower OSTLER_DB_POOL, or raise max_connections or the limit of the role or the database",
    );
}
