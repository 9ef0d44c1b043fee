/** Service root, sessions, accounts, registries. */
import { BIOS_ATTRIBUTES, attributeRegistry } from "../bios-attributes.ts";
import type { Session } from "../sessions.ts";
import { ENABLED, collection, done, link, linkIf, notFound, refuse, resource, textAt } from "../resource.ts";
import type { Body, Call, Route } from "../resource.ts";

const SESSIONS = "/SessionService/Sessions";
const ACCOUNT = "/AccountService/Accounts/2";
export const BIOS_REGISTRY = "BiosAttributeRegistry.v1_0_0";

export const SERVICE_ROUTES: readonly Route[] = [
  { path: "", get: serviceRoot },
  { path: "/SessionService", get: sessionService },
  {
    path: SESSIONS,
    get: ({ bmc }) =>
      collection(
        "Session",
        SESSIONS,
        bmc.sessions.list().map(({ id }) => id),
      ),
    post: logIn,
  },
  {
    path: `${SESSIONS}/*`,
    get: ({ bmc, params }) => sessionBody(bmc.sessions.list().find(({ id }) => id === params[0])),
    delete: ({ bmc, params, path }) => (bmc.sessions.end(params[0] ?? "") ? { status: 204 } : notFound(path)),
  },
  {
    path: "/AccountService",
    get: ({ bmc: { traits }, path }) =>
      resource("AccountService.v1_10_0", path, {
        Id: "AccountService",
        Name: "Account Service",
        Status: ENABLED,
        ServiceEnabled: true,
        MinPasswordLength: traits.login.passwordLengthMin,
        MaxPasswordLength: traits.login.passwordLengthMax,
        Accounts: link("/AccountService/Accounts"),
        Roles: link("/AccountService/Roles"),
      }),
  },
  { path: "/AccountService/Accounts", get: ({ path }) => collection("ManagerAccount", path, ["2"]) },
  { path: ACCOUNT, get: account, patch: changeAccount },
  { path: "/AccountService/Roles", get: ({ path }) => collection("Role", path, ["Administrator"]) },
  {
    path: "/AccountService/Roles/Administrator",
    get: ({ path }) =>
      resource("Role.v1_3_0", path, {
        Id: "Administrator",
        Name: "Administrator",
        RoleId: "Administrator",
        IsPredefined: true,
        AssignedPrivileges: ["Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"],
      }),
  },
  { path: "/Registries", get: ({ path }) => collection("MessageRegistryFile", path, [BIOS_REGISTRY]) },
  {
    path: `/Registries/${BIOS_REGISTRY}`,
    get: ({ path }) =>
      resource("MessageRegistryFile.v1_1_0", path, {
        Id: BIOS_REGISTRY,
        Name: "BIOS Attribute Registry",
        Description: `${BIOS_ATTRIBUTES.length} attributes`,
        Registry: BIOS_REGISTRY,
        Languages: ["en"],
        Location: [{ Language: "en", Uri: `/redfish/v1/Registries/${BIOS_REGISTRY}/registry.json` }],
      }),
  },
  { path: `/Registries/${BIOS_REGISTRY}/registry.json`, get: () => attributeRegistry(BIOS_REGISTRY) },
];

function serviceRoot({ bmc: { traits, identity } }: Call): Body {
  const { expand } = traits;
  return resource("ServiceRoot.v1_9_0", "", {
    Id: "RootService",
    Name: "Root Service",
    RedfishVersion: traits.redfishVersion,
    UUID: identity.uuid,
    ...(traits.vendor === null ? {} : { Vendor: traits.vendor }),
    Product: traits.product,
    ...(expand === null
      ? {}
      : {
          ProtocolFeaturesSupported: {
            ExpandQuery: {
              ExpandAll: expand.all,
              Levels: true,
              Links: expand.links,
              NoLinks: expand.noLinks,
              MaxLevels: expand.levelsMax,
            },
            FilterQuery: false,
            SelectQuery: false,
            OnlyMemberQuery: false,
          },
        }),
    Systems: link("/Systems"),
    Managers: link("/Managers"),
    Chassis: link("/Chassis"),
    SessionService: link("/SessionService"),
    AccountService: link("/AccountService"),
    EventService: link("/EventService"),
    UpdateService: link("/UpdateService"),
    Tasks: link("/TaskService"),
    ...linkIf(traits.jobs, "JobService", "/JobService"),
    Registries: link("/Registries"),
    Links: { Sessions: link(SESSIONS) },
  });
}

function sessionService({ bmc: { traits }, path }: Call): Body {
  return resource("SessionService.v1_1_8", path, {
    Id: "SessionService",
    Name: "Session Service",
    Status: ENABLED,
    ServiceEnabled: true,
    SessionTimeout: traits.login.timeoutSeconds,
    Sessions: link(SESSIONS),
  });
}

function sessionBody(session: Session | undefined): Body | null {
  if (session === undefined) return null;
  const { id, userName } = session;
  return resource("Session.v1_5_0", `${SESSIONS}/${id}`, { Id: id, Name: "User Session", UserName: userName });
}

function logIn({ bmc, body }: Call) {
  const { userName, password } = bmc.state.account;
  if (textAt(body, "UserName") !== userName || textAt(body, "Password") !== password)
    return refuse(401, "NoValidSession", "The user name or the password is wrong.");
  const session = bmc.sessions.create(userName);
  if (session === null)
    return refuse(
      503,
      "SessionLimitExceeded",
      "The limit of sessions is reached. Delete one, or wait for one to expire.",
    );
  return {
    status: 201,
    body: sessionBody(session) ?? {},
    headers: { "X-Auth-Token": session.token, Location: `/redfish/v1${SESSIONS}/${session.id}` },
  };
}

function account({ bmc, path }: Call): Body {
  return resource("ManagerAccount.v1_8_0", path, {
    Id: "2",
    Name: "User Account",
    Enabled: true,
    Locked: false,
    UserName: bmc.state.account.userName,
    Password: null,
    RoleId: "Administrator",
    Links: { Role: link("/AccountService/Roles/Administrator") },
  });
}

function changeAccount({ bmc, body, sessionId }: Call) {
  const { passwordLengthMin, passwordLengthMax, passwordEndsSessions } = bmc.traits.login;
  const unknown = Object.keys(body).find((name) => name !== "Password");
  if (unknown !== undefined) return refuse(400, "PropertyNotWritable", `${unknown} cannot be changed.`, unknown);
  const password = textAt(body, "Password");
  if (password === null) return refuse(400, "PropertyMissing", "Password is missing.", "Password");
  if (password.length < passwordLengthMin || password.length > passwordLengthMax)
    return refuse(
      400,
      "PropertyValueFormatError",
      `The password has ${passwordLengthMin} to ${passwordLengthMax} characters.`,
      "******",
      "Password",
    );
  bmc.state.account.password = password;
  if (passwordEndsSessions) bmc.sessions.endAll(sessionId);
  return done(bmc);
}
