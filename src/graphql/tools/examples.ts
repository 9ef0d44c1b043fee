/** Example tabs of GraphiQL: the main job, one tab a step, on the demonstration fleet. They work one after another. */

export interface Example {
  readonly query: string;
  readonly variables?: string;
}

export const EXAMPLES: readonly Example[] = [
  {
    query: `# 1. What is there: clusters, nodes and what could be asked of them.
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
    query: `# 2. Every change of state, live; GraphiQL shows the newest. Let it run in a browser window of its own, and do the rest here.
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
    query: `# 3. What would happen: each node's steps, how long they take as a rule, and from where there is no way back. Nothing is written.
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
    query: `# 5. Stop while it runs: running steps end, no new one starts.
mutation Stop {
  stop(input: { work: { cluster: { name: "berlin" } }, reason: "wrong time server" }) {
    operation { uuid state }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 6. How far did it come? Repeat until the operation is STOPPED.
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
    query: `# 7. Change what it was stopped for.
mutation ChangeSettings {
  updateCluster(input: { cluster: { name: "berlin" }, variables: { ntp: "10.0.0.2" } }) {
    cluster { variables revision }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 8. Go on with the new settings. What is installed is not installed again.
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
    query: `# 9. Register nodes of your own; the settings are those of their driver.
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
    query: `# 10. Find machines at addresses, and register what answers. These are simulated as well.
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
    query: `# 11. Commission the other cluster in waves: one node, a quarter, then half at a time; no further one begins when two have failed.
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
    query: `# 12. Who waits, and for what: its wave, a place below a limit, a retry, a call-back.
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
    query: `# 13. Give it up: nodes that wait or can be cut end now, the others after their step.
mutation AbortOslo {
  abort(input: { work: { cluster: { name: "oslo" } }, mode: AFTER_STEP }) {
    results { ref accepted abortEffect abortPendingAfterStep error { code message } }
    errors { code message }
  }
}
`,
  },
  {
    query: `# 14. The log: every change of state, in the order of commits, positions without a hole.
query Log {
  transitions(last: 20) {
    edges { node { cursor nodeName sequence from to event step actor reason at } }
  }
}
`,
  },
];
