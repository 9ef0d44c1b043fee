/** Example tabs of GraphiQL: the main workflow on the demonstration fleet, one tab per step, to run in this order. */

export interface Example {
  readonly query: string;
  readonly variables?: string;
}

export const EXAMPLES: readonly Example[] = [
  {
    query: `# List the clusters, some nodes,
# and the verbs that each node accepts now.
# The cost of each request appears
# at the lower right.
query LookAround {
  clusters(first: 10) {
    nodes { name state nodeCounts { state count } variables }
  }
  nodes(
    first: 5
    filter: { cluster: { name: "berlin" } }
  ) {
    totalCount
    nodes {
      name state powerState
      verbs { verb allowed reason }
    }
  }
  drivers {
    name description
    interfaces {
      kind
      steps { name phase priority interruptible }
    }
  }
}
`,
  },
  {
    query: `# Watch every state change: the newest 20 items.
# Run it in a second browser window,
# and continue with the next tab here.
subscription Watch {
  nodeTransitions(
    filter: { cluster: { name: "berlin" } }
  ) {
    __typename
    ... on Transition {
      cursor nodeName from to event step at
    }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}
`,
  },
  {
    query: `# Plan a commission: the steps of each node,
# their usual duration, the point of no return.
# Nothing is written.
query PlanCommission {
  plan(input: {
    kind: COMMISSION
    nodes: { cluster: { name: "berlin" } }
  }) {
    planHash acceptedCount refusedCount
    results {
      ref accepted error { code message }
      estimate { medianSeconds p90Seconds samples }
      pointOfNoReturn { name }
      steps { phase interface name interruptible }
    }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Verify, inspect, clean and deploy
# every node of the cluster.
mutation Commission {
  commissionNodes(input: {
    nodes: { cluster: { name: "berlin" } }
    reason: "first commissioning"
  }) {
    operation { id uuid state totalCount }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Stop it while it runs: running steps end,
# and no further step starts.
mutation Stop {
  stop(input: {
    work: { cluster: { name: "berlin" } }
    reason: "wrong time server"
  }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Check the progress.
# Repeat until the operation is STOPPED.
query HowFar {
  cluster(by: { name: "berlin" }) {
    state
    nodeCounts { state count }
  }
  operations(first: 1) {
    nodes {
      kind state finishedCount totalCount
      runs(first: 3) {
        nodes {
          nodeName state
          waiting { reason description }
          steps { name state startedAt finishedAt }
        }
      }
    }
  }
}
`,
  },
  {
    query: `# Change a setting of the cluster.
mutation ChangeSettings {
  updateCluster(input: {
    cluster: { name: "berlin" }
    variables: { ntp: "10.0.0.2" }
  }) {
    cluster { variables revision }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Restart with the new settings.
# STAGE repeats the unfinished stage, but no erasure
# and no installation that succeeded.
# UNFINISHED_STEP repeats no step that succeeded.
mutation Restart {
  restart(input: {
    work: { cluster: { name: "berlin" } }
    from: STAGE
  }) {
    operations { uuid state totalCount restartOf { uuid } }
    results { ref accepted steps { name state } }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Register nodes, with settings for their driver.
mutation Register {
  registerNodes(input: { nodes: [
    {
      name: "own-01"
      driver: { fake: {} }
      labels: [{ key: "room", value: "2" }]
    }
    { name: "own-02", driver: { fake: { delayMs: 1000 } } }
  ] }) {
    nodes { name state }
    errors { code message path }
  }
}
`,
  },
  {
    query: `# Manage them: verify that the driver reaches them.
# Then they are MANAGEABLE.
mutation ManageOwn {
  manageNodes(input: {
    nodes: { names: ["own-01", "own-02"] }
  }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Make MANAGEABLE nodes AVAILABLE
# by cleaning alone, without an inspection.
mutation ProvideOwn {
  provideNodes(input: {
    nodes: { names: ["own-01", "own-02"] }
  }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Set the boot device of the next start.
# persistent: true sets it for all later starts.
mutation BootFromNetwork {
  setBootDevice(input: {
    nodes: { names: ["own-01"] }
    device: NETWORK
  }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Deploy free nodes, whichever they are:
# AVAILABLE, in no cluster, with this label.
# Two requests never get the same node.
mutation DeployAnyFree {
  deployNodes(input: {
    nodes: {
      pick: {
        count: 1
        filter: {
          labels: [{ key: "room", value: "2" }]
        }
      }
    }
  }) {
    operation { uuid state }
    results { ref accepted }
    errors {
      code message
      ... on CapacityError { available }
    }
  }
}
`,
  },
  {
    query: `# Clean with a hold: after the power-on, the node
# waits until a person has looked at it.
mutation CleanWithHold {
  cleanNodes(input: {
    nodes: { names: ["own-02"] }
    steps: [
      { interface: POWER, name: "power_on" }
      {
        interface: ENGINE
        name: "hold"
        args: { reason: "look at the LEDs" }
      }
      { name: "erase_disks" }
    ]
  }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Release the hold: the next step begins.
# The node is held when its state is CLEAN_HOLD.
mutation ReleaseHolds {
  releaseHolds(input: {
    work: { names: ["own-02"] }
    reason: "all LEDs are green"
  }) {
    results { ref accepted error { code message } }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Discover machines and register them.
# These are simulated too.
mutation Discover {
  discoverNodes(input: {
    driver: { fake: {} }
    addresses: ["192.0.2.0/29"]
    namePrefix: "found-"
  }) {
    operation { uuid }
    addresses
    errors { code message path }
  }
}
`,
  },
  {
    query: `# Commission the other cluster in waves:
# one node, a quarter, then half of the nodes.
# A second failure halts the waves.
mutation CommissionOslo {
  commissionNodes(input: {
    nodes: { cluster: { name: "oslo" } }
    onFailure: LEAVE
    waves: {
      sizes: [{ count: 1 }, { percent: 25 }, { percent: 50 }]
      maxFailures: { count: 1 }
    }
  }) {
    operation { id uuid }
    errors { code message }
  }
}
`,
  },
  {
    query: `# List the waiting runs and their reasons:
# a wave, a slot, a retry, a callback.
query Waiting {
  operations(
    first: 1
    filter: { cluster: { name: "oslo" } }
  ) {
    nodes {
      state
      rollout { state wave waves sizes maxFailures }
      runs {
        nodes {
          nodeName state
          waiting { reason description position until }
        }
      }
    }
  }
  capacity { key places taken waiting }
}
`,
  },
  {
    query: `# Abort it: waiting nodes and steps that may be
# interrupted end now, the others after their step.
mutation AbortOslo {
  abort(input: {
    work: { cluster: { name: "oslo" } }
    mode: AFTER_STEP
  }) {
    results {
      ref accepted
      abortEffect abortPendingAfterStep
      error { code message }
    }
    errors { code message }
  }
}
`,
  },
  {
    query: `# Read the log: every state change in commit order,
# with positions without gaps.
query Log {
  transitions(last: 20) {
    nodes {
      cursor nodeName sequence
      from to event step actor reason at
    }
  }
}
`,
  },
];
