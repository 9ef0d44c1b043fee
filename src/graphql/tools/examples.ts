/** Example tabs of GraphiQL: the main workflow on the demonstration fleet, one tab per step, to run in this order. */

export interface Example {
  readonly query: string;
  readonly variables?: string;
}

export const EXAMPLES: readonly Example[] = [
  {
    query: `# 1. List the clusters, nodes, and the verbs that each node accepts now.
query LookAround {
  clusters(first: 10) {
    edges { node { name state nodeCounts { state count } variables } }
  }
  nodes(first: 5, filter: { cluster: { name: "berlin" } }) {
    totalCount
    edges { node { name state powerState verbs { verb allowed reason } } }
  }
  drivers { name description interfaces { kind steps { name phase priority interruptible } } }
}
`,
  },
  {
    query: `# 2. Watch every state change live; GraphiQL shows the newest. Run it in a separate browser window, and continue here.
subscription Watch {
  nodeTransitions(filter: { cluster: { name: "berlin" } }) {
    __typename
    ... on Transition { cursor nodeName from to event step at }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}
`,
  },
  {
    query: `# 3. Plan a commission: the steps of each node, their usual duration, and the point of no return. Nothing is written.
query PlanCommission {
  plan(input: { kind: COMMISSION, nodes: { cluster: { name: "berlin" } } }) {
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
    query: `# 4. Verify, inspect, clean and deploy every node of the cluster.
mutation Commission {
  commissionNodes(input: { nodes: { cluster: { name: "berlin" } }, reason: "first commissioning" }) {
    operation { id uuid state totalCount }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 5. Stop it while it runs: running steps end, and no further step starts.
mutation Stop {
  stop(input: { work: { cluster: { name: "berlin" } }, reason: "wrong time server" }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 6. Check the progress. Repeat until the operation is STOPPED.
query HowFar {
  cluster(by: { name: "berlin" }) { state nodeCounts { state count } }
  operations(first: 1) {
    edges {
      node {
        kind state finishedCount totalCount
        runs(first: 3) { edges { node { nodeName state waiting { reason description } steps { name state startedAt finishedAt } } } }
      }
    }
  }
}
`,
  },
  {
    query: `# 7. Change the setting.
mutation ChangeSettings {
  updateCluster(input: { cluster: { name: "berlin" }, variables: { ntp: "10.0.0.2" } }) {
    cluster { variables revision }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 8. Restart with the new settings. Completed stages are not repeated.
mutation Restart {
  restart(input: { work: { cluster: { name: "berlin" } }, acceptance: BEST_EFFORT }) {
    operation { uuid state totalCount restartOf { uuid } }
    results { ref accepted steps { name state } }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 9. Register nodes, with settings for their driver.
mutation Register {
  registerNodes(input: { nodes: [
    { name: "own-01", driver: { fake: {} }, labels: [{ key: "room", value: "2" }] }
    { name: "own-02", driver: { fake: { delayMs: 1000 } } }
  ] }) {
    nodes { name state }
    errors { code message path }
  }
}
`,
  },
  {
    query: `# 10. Discover machines at addresses and register them. These are simulated too.
mutation Discover {
  discoverNodes(input: { driver: { fake: {} }, addresses: ["192.0.2.0/29"], namePrefix: "found-" }) {
    operation { uuid }
    addresses
    errors { code message path }
  }
}
`,
  },
  {
    query: `# 11. Commission the other cluster in waves: one node, a quarter, then half of the nodes. A second failure halts it.
mutation CommissionOslo {
  commissionNodes(input: {
    nodes: { cluster: { name: "oslo" } }, onFailure: LEAVE
    waves: { sizes: [{ count: 1 }, { percent: 25 }, { percent: 50 }], maxFailures: { count: 1 } }
  }) {
    operation { id uuid }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 12. List the waiting runs and their reasons: a wave, a slot, a retry, a callback.
query Waiting {
  operations(first: 1, filter: { cluster: { name: "oslo" } }) {
    edges {
      node {
        state
        rollout { state wave waves sizes maxFailures }
        runs { edges { node { nodeName state waiting { reason description position until } } } }
      }
    }
  }
  capacity { key places taken waiting }
}
`,
  },
  {
    query: `# 13. Abort it: waiting nodes and interruptible steps end now, the others after their step.
mutation AbortOslo {
  abort(input: { work: { cluster: { name: "oslo" } }, mode: AFTER_STEP }) {
    results { ref accepted abortEffect abortPendingAfterStep error { code message } }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 14. Read the log: every state change in commit order, with positions without gaps.
query Log {
  transitions(last: 20) {
    edges { node { cursor nodeName sequence from to event step actor reason at } }
  }
}
`,
  },
];
