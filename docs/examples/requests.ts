/**
 * One request for each mutation, printed on the pages of docs/verbs; test/docs.test.ts sends each of them to a service.
 * They use the cluster `berlin` and its nodes `berlin-01` and `berlin-02`; ids that are not known beforehand are
 * variables.
 */

export interface ExampleRequest {
  readonly mutation: string;
  readonly query: string;
  /** Example values of its variables. */
  readonly variables?: Readonly<Record<string, string>>;
}

const OPERATION = { operation: "8d0c6b1e-5c55-4d5e-9a43-1f2a0c7b9e11" };

export const REQUESTS: readonly ExampleRequest[] = [
  {
    mutation: "manageNodes",
    query: `mutation {
  manageNodes(input: { nodes: { names: ["berlin-01", "berlin-02"] } }) {
    operation { uuid state }
    results { ref accepted error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "inspectNodes",
    query: `mutation {
  inspectNodes(input: { nodes: { filter: { cluster: { name: "berlin" }, states: [MANAGEABLE] } }, maxParallel: 10 }) {
    operation { uuid totalCount }
    errors { code message }
  }
}`,
  },
  {
    mutation: "cleanNodes",
    query: `mutation {
  cleanNodes(input: {
    nodes: { names: ["berlin-01", "berlin-02"] }
    steps: [{ name: "update_firmware", args: { version: "2.1" } }, { name: "erase_disks" }]
  }) {
    operation { uuid }
    results { ref accepted errors { message path } steps { interface name args } }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "provideNodes",
    query: `mutation {
  provideNodes(input: { nodes: { names: ["berlin-01", "berlin-02"] } }) {
    operation { uuid }
    results { ref accepted error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "commissionNodes",
    query: `mutation {
  commissionNodes(input: {
    nodes: { cluster: { name: "berlin" } }
    until: ACTIVE
    variables: { image: "debian-13" }
    reason: "first commissioning"
    idempotencyKey: "berlin-1"
  }) {
    operation { uuid state totalCount }
    results { ref accepted error { code message } }
    errors { code status message ... on ConflictError { allowedStates operation { uuid } } ... on NotFoundError { missing } }
    replayed
  }
}`,
  },
  {
    mutation: "deployNodes",
    query: `mutation {
  deployNodes(input: { nodes: { cluster: { name: "berlin" } }, variables: { image: "debian-13" }, onFailure: CLEAN_UP_FAILED }) {
    operation { uuid }
    errors { code message }
  }
}`,
  },
  {
    mutation: "undeployNodes",
    query: `mutation {
  undeployNodes(input: { nodes: { names: ["berlin-02"] }, reason: "given back" }) {
    operation { uuid }
    errors { code message }
  }
}`,
  },
  {
    mutation: "redeployNodes",
    query: `mutation {
  redeployNodes(input: {
    nodes: { cluster: { name: "berlin" } }
    reinstall: true
    hostGroup: "service-worker"
    waves: { sizes: [{ count: 1 }, { percent: 25 }], maxFailures: { count: 0 } }
  }) {
    operation { uuid rollout { state wave waves } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "decommissionNodes",
    query: `mutation {
  decommissionNodes(input: { nodes: { names: ["berlin-01"] }, reason: "end of lease" }) {
    operation { uuid }
    errors { code message }
  }
}`,
  },
  {
    mutation: "setPower",
    query: `mutation {
  setPower(input: { nodes: { names: ["berlin-01", "berlin-02"] }, action: OFF, acceptance: BEST_EFFORT }) {
    operation { uuid }
    results { ref accepted error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "setBootDevice",
    query: `mutation {
  setBootDevice(input: { nodes: { names: ["berlin-01", "berlin-02"] }, device: NETWORK }) {
    operation { uuid }
    results { ref accepted error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "probeNodes",
    query: `mutation {
  probeNodes(input: { addresses: ["10.0.7.0/30"], drivers: [{ fake: {} }] }) {
    results {
      address
      driver { name }
      machine { name controller node { name } abilities { name works reason } }
      error { code message }
    }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "discoverNodes",
    query: `mutation {
  discoverNodes(input: { addresses: ["10.0.7.0/30"], driver: { fake: {} }, namePrefix: "row7-", labels: [{ key: "row", value: "7" }] }) {
    operation { uuid }
    addresses
    errors { code message path }
  }
}`,
  },
  {
    mutation: "abort",
    query: `mutation {
  abort(input: { work: { cluster: { name: "berlin" } }, mode: AFTER_STEP, reason: "wrong rack" }) {
    results { ref accepted abortEffect abortPendingAfterStep error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "withdrawAbort",
    query: `mutation {
  withdrawAbort(input: { work: { names: ["berlin-01"] }, reason: "the right rack after all" }) {
    results { ref accepted error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "stop",
    query: `mutation {
  stop(input: { work: { cluster: { name: "berlin" } }, reason: "wrong time server", timeoutSeconds: 600 }) {
    operation { uuid state }
    errors { code message }
  }
}`,
  },
  {
    mutation: "restart",
    query: `mutation {
  restart(input: { work: { cluster: { name: "berlin" } }, from: STAGE }) {
    operation { uuid totalCount restartOf { uuid } }
    results { ref accepted steps { name state } error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "releaseHolds",
    query: `mutation {
  releaseHolds(input: { work: { names: ["berlin-01"] }, reason: "looked at, all green" }) {
    results { ref accepted error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "advanceWaves",
    query: `mutation Advance($operation: ID!) {
  advanceWaves(input: { operationId: $operation }) {
    operation { state rollout { state wave waves } }
    errors { code message }
  }
}`,
    variables: OPERATION,
  },
  {
    mutation: "haltWaves",
    query: `mutation Halt($operation: ID!) {
  haltWaves(input: { operationId: $operation, reason: "the new kernel drops its network" }) {
    operation { state rollout { state reason changedBy } }
    errors { code message }
  }
}`,
    variables: OPERATION,
  },
  {
    mutation: "resumeWaves",
    query: `mutation Resume($operation: ID!) {
  resumeWaves(input: { operationId: $operation }) {
    operation { state rollout { state wave waves } }
    errors { code message }
  }
}`,
    variables: OPERATION,
  },
  {
    mutation: "registerNodes",
    query: `mutation {
  registerNodes(input: { nodes: [
    { name: "berlin-03", driver: { fake: { delayMs: 1000 } }, cluster: { name: "berlin" }, labels: [{ key: "rack", value: "3" }] }
    { name: "berlin-04", driver: { fake: {} }, cluster: { name: "berlin" } }
  ] }) {
    nodes { id name state }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "updateNodes",
    query: `mutation Protect($node: String!) {
  updateNodes(input: { nodes: { names: [$node] }, protected: true, labels: [{ key: "rack", value: "4" }] }) {
    nodes { name protected labels { key value } revision }
    errors { code message path }
  }
}`,
    variables: { node: "berlin-01" },
  },
  {
    mutation: "updateNodes",
    query: `mutation {
  updateNodes(input: {
    nodes: { cluster: { name: "berlin" } }
    setLabels: [{ key: "row", value: "4" }]
    removeLabels: ["old-row"]
    dryRun: true
  }) {
    changedCount
    groups { outcome nodeCount nodes { name } error { code message } }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "deleteNodes",
    query: `mutation {
  deleteNodes(input: { nodes: { names: ["berlin-02"] } }) {
    count
    errors { code message ... on ConflictError { node { name } operation { uuid } } }
  }
}`,
  },
  {
    mutation: "setMaintenance",
    query: `mutation {
  setMaintenance(input: { nodes: { names: ["berlin-01"] }, reason: "disk swap" }) {
    nodes { name maintenance { reason since startedBy } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "clearMaintenance",
    query: `mutation {
  clearMaintenance(input: { nodes: { names: ["berlin-01"] } }) {
    nodes { name maintenance { reason } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "setRetired",
    query: `mutation {
  setRetired(input: { nodes: { names: ["berlin-01"] }, reason: "warranty ended" }) {
    nodes { name retired retiredReason }
    errors { code message }
  }
}`,
  },
  {
    mutation: "clearRetired",
    query: `mutation {
  clearRetired(input: { nodes: { names: ["berlin-01"] } }) {
    nodes { name retired }
    errors { code message }
  }
}`,
  },
  {
    mutation: "reportPresence",
    query: `mutation {
  reportPresence(input: { event: DISCOVERED, nodes: [{ name: "berlin-01" }, { name: "berlin-09", driver: { fake: {} } }] }) {
    results { ref change node { state presence } error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "readPower",
    query: `mutation {
  readPower(input: { nodes: { cluster: { name: "berlin" } } }) {
    results { ref powerState error { code message } }
    errors { code message }
  }
}`,
  },
  {
    mutation: "readNodes",
    query: `mutation {
  readNodes(input: { nodes: { names: ["berlin-01"] }, what: [FIRMWARE, BIOS, BOOT_DEVICE, CONSOLE] }) {
    results {
      ref
      firmware { component name version }
      bios { name type value pending allowedValues }
      bootDevice { device persistent mode }
      consoleUrl
      readings { what driver error { code message } }
      error { code message }
    }
    errors { code message }
  }
}`,
  },
  {
    mutation: "createCluster",
    query: `mutation {
  createCluster(input: { name: "oslo", variables: { ntp: "10.0.0.1" } }) {
    cluster { name state variables }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "applyCluster",
    query: `mutation {
  applyCluster(input: { cluster: { name: "berlin" }, dryRun: true }) {
    summary { unchangedCount reasons { reason nodeCount } }
    results { ref accepted reason error { code message } }
    planHash
    errors { code message }
  }
}`,
  },
  {
    mutation: "updateCluster",
    query: `mutation {
  updateCluster(input: { cluster: { name: "berlin" }, variables: { ntp: "10.0.0.2" }, remove: { names: ["berlin-02"] } }) {
    cluster { name variables revision nodeCounts { state count } }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "deleteCluster",
    query: `mutation {
  deleteCluster(input: { cluster: { name: "berlin" } }) {
    errors { code message }
  }
}`,
  },
  {
    mutation: "createRunbook",
    query: `mutation {
  createRunbook(input: {
    name: "returned-machine"
    description: "Firmware 2.1, then erase."
    steps: [{ name: "update_firmware", args: { version: "2.1" } }, { name: "erase_disks" }]
  }) {
    runbook { name revision steps { interface name args } }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "updateRunbook",
    query: `mutation {
  updateRunbook(input: { runbook: { name: "returned-machine" }, ifRevision: 1, steps: [{ name: "erase_disks" }] }) {
    runbook { name revision }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "deleteRunbook",
    query: `mutation {
  deleteRunbook(input: { runbook: { name: "returned-machine" } }) {
    errors { code message }
  }
}`,
  },
  {
    mutation: "createAccount",
    query: `mutation {
  createAccount(input: { name: "robot", displayName: "Nightly rebuilds" }) {
    account { name displayName disabled }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "setRoles",
    query: `mutation {
  setRoles(input: { principal: "account:robot", roles: [{ role: "operator" }] }) {
    grants { principal role expiresAt }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "createToken",
    query: `mutation {
  createToken(input: { account: "robot", role: "operator", expiresInDays: 30 }) {
    secret
    token { tokenId expiresAt }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "updateAccount",
    query: `mutation {
  updateAccount(input: { account: "robot", disabled: true }) {
    account { name disabled }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "revokeTokens",
    query: `mutation {
  revokeTokens(input: { tokens: { account: "robot" } }) {
    tokens { tokenId revokedAt }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "putRole",
    query: `mutation {
  putRole(input: { name: "night-shift", scope: OPERATE, description: "Watches the fleet at night." }) {
    role { name scope }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "deleteRole",
    query: `mutation {
  deleteRole(input: { name: "night-shift" }) {
    errors { code message }
  }
}`,
  },
  {
    mutation: "registerImages",
    query: `mutation {
  registerImages(input: { images: [{
    name: "debian-13"
    url: "https://images.example/debian-13.raw.zst"
    format: RAW_ZST
    sizeBytes: 412316860
    diskBytes: 3221225472
    checksum: { algorithm: SHA256, value: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }
    architecture: X64
    bootMode: UEFI
    labels: [{ key: "os", value: "debian" }]
  }] }) {
    images { id name sizeBytes checksum { algorithm value } revision }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "updateImage",
    query: `mutation {
  updateImage(input: { image: { name: "debian-13" }, ifRevision: 1, url: "https://mirror.example/debian-13.raw.zst" }) {
    image { name url revision }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "deleteImages",
    query: `mutation {
  deleteImages(input: { images: [{ name: "debian-13" }] }) {
    count
    errors { code message ... on ConflictError { operation { uuid } node { name } } }
  }
}`,
  },
  {
    mutation: "updateSite",
    query: `mutation {
  updateSite(input: {
    phaseLimits: [{ phase: DEPLOY, limit: 50 }]
    controllerLimit: 4
    steps: [{ step: "clean.update_firmware", forbidden: true }]
  }) {
    site { revision phaseLimits { phase limit } steps { step driver priority forbidden } }
    errors { code message path }
  }
}`,
  },
  {
    mutation: "registerDocuments",
    query: `mutation {
  registerDocuments(input: { documents: [{ text: "query Who { viewer { subject } }" }] }) {
    documents { id operation kind }
    errors { code message path }
  }
}`,
  },
];
