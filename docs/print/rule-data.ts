/**
 * The rules that users can rely on, and the tests that hold each. A test is named `file: title` from test/, or `file: block › title`
 * where the title alone is not enough; test/rules.test.ts fails when there is none of that name. A rule that changes, changes here.
 */

export interface Rule {
  /** Number within its section. */
  readonly id: string;
  readonly rule: string;
  readonly tests: readonly string[];
}

export interface RuleSection {
  readonly number: number;
  readonly title: string;
  readonly rules: readonly Rule[];
}

const SECTION_LIFECYCLE: readonly Rule[] = [
  {
    id: "2.1",
    rule: "One table says which state may follow which; every other change is impossible.",
    tests: [
      "lifecycle/node-states: $state leads by $event to $expected.to, caused by $expected.by",
      "lifecycle/node-states: refuses each of the other ${ILLEGAL.length} pairs of state and event",
      "store/refusals: a change of state along no edge, even when it is told of",
    ],
  },
  {
    id: "2.2",
    rule: "The database holds the same table.",
    tests: ["lifecycle/node-states: holds the same edges as the code, no more and no fewer"],
  },
  {
    id: "2.3",
    rule: "One place in the code changes the state of a node.",
    tests: ["rules: the state of a node is changed in one place"],
  },
  {
    id: "2.4",
    rule: "A change of state and its transition are one transaction: neither is there without the other.",
    tests: [
      "store/refusals: a legal change of state that nobody is told of",
      "store/refusals: a change of state that is told of as another",
      "engine/commission: of a hundred nodes brings each to ACTIVE, and the log tells so",
    ],
  },
  {
    id: "2.5",
    rule: "Activities have one shape: running, wait, hold, failed. What goes on can always be aborted, stopped, and fail.",
    tests: [
      "lifecycle/node-states: the %s states are %s",
      "lifecycle/node-states: every activity belongs to a phase, and nothing stable does",
      "lifecycle/node-states: work that is going on can always be aborted, stopped and fail",
    ],
  },
  {
    id: "2.6",
    rule: "What waits is held by no process, and survives any restart.",
    tests: [
      "engine/commission: that is parked is held by nobody",
      "engine/replicas: take over a parked run from each other as if it were their own",
      "engine/steps: a step that waits goes on with its memo, as the same attempt, when the process that it began in is gone",
      "engine/wait-step: survives a restart of the service, and lasts as long as it would have",
    ],
  },
  {
    id: "2.7",
    rule: "A hold pauses a run by request, until somebody lifts it.",
    tests: [
      "engine/holds: parks the run with the node in ${holds}, says why, and has no job",
      "engine/holds: goes on after it when it is lifted, and says by whom and why",
    ],
  },
  {
    id: "2.8",
    rule: "The target of a node belongs to its run, and stays the same until the run ends.",
    tests: [
      "graphql/target-state: a node's target stays through every phase, wait and resumption of its run, and is gone with its end",
      "engine/commission: leaves with every transition who caused it, for which operation, where it was going",
    ],
  },
  {
    id: "2.9",
    rule: "A node tells which verbs it would accept, and of each other one the reason, by the same table.",
    tests: [
      "graphql/nodes: tells what could be asked of it now, and why not the rest",
      "lifecycle/admission: in exactly the states that have a route, with that route",
      "lifecycle/verbs: the states that a refusal names are those in which the verb is allowed",
    ],
  },
  {
    id: "2.10",
    rule: "The diagrams and tables of the documentation are printed from the same table.",
    tests: ["docs: every printed page is what the code prints"],
  },
  {
    id: "2.11",
    rule: "A node's stage remembers whether nothing, the operating system, or everything stands; a restart goes by it.",
    tests: [
      "engine/stop-restart: keeps an installed system: the image is not written again",
      "engine/stop-restart: runs the whole unfinished stage again, where no system stands yet",
      "engine/verify-part: reaches its stage only when that part is done",
    ],
  },
];

const SECTION_VERBS: readonly Rule[] = [
  {
    id: "3.1",
    rule: "Verbs take nodes by name, ID, filter or cluster.",
    tests: ["graphql/verbs: takes its nodes by ID, by cluster and by filter too, each once"],
  },
  {
    id: "3.2",
    rule: "They are answered at once, with an operation that is stored already.",
    tests: ["graphql/verbs: is stored before it is answered, although nobody works yet"],
  },
  {
    id: "3.3",
    rule: "Each verb leads from the states of its row to its end, through what is missing, and is refused in every other state.",
    tests: [
      "graphql/verbs: $verb $more leads from $from to $end",
      "lifecycle/verbs: of $verb from $state: $expected",
      "lifecycle/verbs: of %s is a chain of legal edges that ends in its target, whatever the options",
      "engine/model: random requests, faults and deaths of processes lead where the model says, and end",
      "engine/together: is known when its result is offered again: no step is entered twice, none is taken for interrupted",
    ],
  },
  {
    id: "3.4",
    rule: "`registerNodes` makes nodes ENROLLED, all or none.",
    tests: [
      "engine/nodes: makes every node ENROLLED, with its transition",
      "engine/nodes: is refused whole, with everything that is wrong",
      "graphql/nodes: is refused as a whole, with every flaw of every node, and leaves nothing",
    ],
  },
  {
    id: "3.5",
    rule: "`discoverNodes` probes addresses and ranges with a driver, and registers what answers.",
    tests: [
      "engine/discover: is registered ENROLLED with what the probe found, and its transition names the operation",
      "engine/addresses: gives every address once, in the order asked, however it was written",
    ],
  },
  {
    id: "3.6",
    rule: "Addresses at which no node was found are listed, so that they can be posted again.",
    tests: [
      "graphql/discovery: is repeated with the addresses that failed, until all are nodes",
      "engine/discover: is listed with its failure, and the operation succeeds in part",
    ],
  },
  {
    id: "3.7",
    rule: "`manageNodes` verifies, up to MANAGEABLE.",
    tests: [
      "engine/verbs: of a node that is %s verifies it and ends MANAGEABLE",
      "engine/verbs: that fails leaves a node that was AVAILABLE as it was",
    ],
  },
  {
    id: "3.8",
    rule: "`inspectNodes` works in place on AVAILABLE and ACTIVE nodes where the driver needs no reboot; their state stays.",
    tests: [
      "engine/verbs: of an ACTIVE node in place stores a new inventory and leaves its state as it is",
      "lifecycle/verbs: inspects AVAILABLE and ACTIVE nodes in place where the driver needs no reboot",
      "engine/verbs: in place that fails leaves the state as it is, and the error with the node",
    ],
  },
  {
    id: "3.9",
    rule: "Each inspection stores a new inventory; earlier ones stay, and can be compared.",
    tests: [
      "graphql/nodes: stay, are listed newest first, and two of them can be compared",
      "engine/commission: stores what inspection found",
    ],
  },
  {
    id: "3.10",
    rule: "`cleanNodes` runs a list of steps or a runbook, and the node ends where it began.",
    tests: [
      "engine/cleaning: runs in its order, with power and time between, and ends where it began",
      "engine/runbooks: runs its steps in its order and remembers its name",
      "engine/steps: run in the order asked, with their arguments, and the node ends where it began",
    ],
  },
  {
    id: "3.11",
    rule: "Automatic cleaning runs in a commission and after a tear-down, unless the site or the node switches it off.",
    tests: [
      "engine/commission: leads a new node through every phase to ACTIVE",
      "engine/cleaning: that is switched off for the site leaves the states of $kind as they are, and runs no clean step",
      "engine/cleaning: goes by the node's own word first",
    ],
  },
  {
    id: "3.12",
    rule: "Automatic steps are those with a priority above 0, highest first.",
    tests: ["engine/steps: steps run by priority, those alike as they were declared, those of priority 0 not at all"],
  },
  {
    id: "3.13",
    rule: "`commissionNodes` does what is missing from any state at rest short of ACTIVE; up to ACTIVE unless told otherwise.",
    tests: [
      "engine/commission: leads a new node through every phase to ACTIVE",
      "engine/commission: goes through what is missing, and no more",
      "engine/commission: until AVAILABLE ends there",
      "engine/commission: of a node that is where it should be succeeds at once, and nothing happens to it",
    ],
  },
  {
    id: "3.14",
    rule: "Unless told otherwise, one failure of a commission takes every node of it back to AVAILABLE, or to the failed state of its clean-up.",
    tests: [
      "engine/failure-policies: is what a commission does unless told otherwise: one failure, and every node is AVAILABLE again",
      "engine/failure-policies: leaves a node in its failed state when its clean-up fails too, and says so",
      "lifecycle/derived-states: only a commission cleans up after itself unless told otherwise",
    ],
  },
  {
    id: "3.15",
    rule: "The operation is then FAILED with the first cause, and the same request can be posted again.",
    tests: [
      "engine/failure-policies: is what a commission does unless told otherwise: one failure, and every node is AVAILABLE again",
      "engine/failure-policies: leaves nothing behind that keeps the same request from being posted again, as often as it fails",
    ],
  },
  {
    id: "3.16",
    rule: "`deployNodes` installs from AVAILABLE and DEPLOY_FAILED, and again from ACTIVE; `undeployNodes` tears down, cleans, and ends AVAILABLE.",
    tests: [
      "engine/verbs: of an ACTIVE node is made again, and its undoing ends AVAILABLE",
      "graphql/verbs: $verb $more leads from $from to $end",
    ],
  },
  {
    id: "3.17",
    rule: "`decommissionNodes` goes on past whatever fails, and always ends DECOMMISSIONED.",
    tests: [
      "engine/verbs: goes on past what fails, records it, and still ends DECOMMISSIONED",
      "engine/verbs: of a node that cannot be reached at all ends DECOMMISSIONED too",
      "lifecycle/verbs: of a decommission goes on whatever fails, and no other does",
    ],
  },
  {
    id: "3.18",
    rule: "What failed on the way is recorded, and the operation is SUCCEEDED_WITH_ERRORS.",
    tests: [
      "engine/verbs: goes on past what fails, records it, and still ends DECOMMISSIONED",
      "graphql/runs: Run.cleanupFailed tells that a best-effort step failed on the way",
    ],
  },
  {
    id: "3.19",
    rule: "A node that has disappeared is decommissioned by force only.",
    tests: [
      "engine/verbs: of a node that has disappeared is refused, unless by force",
      "lifecycle/admission: to decommission what has disappeared, by force",
    ],
  },
  {
    id: "3.20",
    rule: "`updateNodes` takes an ACTIVE node down, cleans it and deploys it again, with another host group where that is asked for.",
    tests: [
      "engine/update-nodes: goes by way of UNDEPLOYING, CLEANING, AVAILABLE and DEPLOYING back to ACTIVE",
      "engine/update-nodes: to another host group tells the drivers that one, and gives it to the node with its success, not before",
      "engine/update-nodes: of a node that is %s is refused",
    ],
  },
  {
    id: "3.21",
    rule: "A cleaning that fails stops an update there.",
    tests: [
      "engine/update-nodes: in $where stops there: the node is $state, in its old host group, and nothing further is begun",
    ],
  },
  {
    id: "3.22",
    rule: "`setMaintenance` sets or clears a mark, in any state, and starts no work; no verb is let in while it is set.",
    tests: [
      "engine/verbs: is a mark with a reason, by somebody, since a moment; it starts no work and lets none in",
      "engine/marks: a node in maintenance › refuses %s",
    ],
  },
  {
    id: "3.23",
    rule: "Maintenance does not freeze what runs: the step ends, and the run says that it is PAUSED_BY_MAINTENANCE before the next one.",
    tests: [
      "engine/maintenance: lets its running step end, keeps the result, and begins no new one",
      "engine/maintenance: goes on at once when the mark is cleared, with nothing run twice",
      "graphql/runs: tells a maintenance that keeps the next step from beginning",
    ],
  },
  {
    id: "3.24",
    rule: "`setPower` switches on, off, softly off within a time, and reboots, unless a run on the node is unfinished.",
    tests: [
      "engine/verbs: is changed by a call, and not by one when it is so already",
      "engine/verbs: is always cycled by a reboot",
      "engine/power: that the system ignores (%s) ends in a cut, and says so",
      "graphql/nodes: takes the time that the system may have",
    ],
  },
  {
    id: "3.25",
    rule: "Power that is there already is a success without a call.",
    tests: ["engine/power: that there is no need for calls nobody"],
  },
  {
    id: "3.26",
    rule: "`reportPresence` changes presence alone, of a list of nodes, while runs are going on too; it starts no work.",
    tests: [
      "engine/presence: sets the presence of every node it names, and answers each in the order asked",
      "engine/presence: works while runs are going on, and disturbs none",
      "engine/presence: starts no work",
    ],
  },
  {
    id: "3.27",
    rule: "An unknown node that is discovered is registered ENROLLED; one that disappeared has a result of its own.",
    tests: [
      "engine/presence: is registered when it is discovered and its driver is named",
      "engine/presence: has a result of its own, and the others are taken all the same",
    ],
  },
  {
    id: "3.28",
    rule: "A report that is repeated changes nothing.",
    tests: [
      "engine/presence: that is repeated writes nothing at all",
      "graphql/discovery: repeated changes no revision",
    ],
  },
];

const SECTION_ADMISSION: readonly Rule[] = [
  {
    id: "4.1",
    rule: "An empty selection refuses the whole request.",
    tests: [
      "engine/admission: when it names no node",
      "engine/admission: when a filter matches nothing, or a cluster has no nodes or is none",
    ],
  },
  {
    id: "4.2",
    rule: "An unknown node refuses the whole request, and every unknown one is named, with BEST_EFFORT too.",
    tests: [
      "engine/admission: when it names nodes that do not exist, and it names all of them",
      "graphql/verbs: that does not exist names all that do not, even with best effort",
    ],
  },
  {
    id: "4.3",
    rule: "A node in the wrong state, busy, in maintenance, protected, gone, or whose driver lacks the ability, refuses the request; all such nodes are named. That is so unless BEST_EFFORT is asked for.",
    tests: [
      "engine/admission: when one node is in the wrong state, and every such node is named",
      "engine/admission: for each node that is busy, in maintenance, protected, gone or without its driver",
      "lifecycle/admission: $why: $code",
      "graphql/verbs: is refused as a whole, names every one, and leaves no trace",
    ],
  },
  {
    id: "4.4",
    rule: "With BEST_EFFORT the others start, and each refused node gets its reason.",
    tests: [
      "engine/admission: the nodes that can start do, and each of the others is told why",
      "engine/admission: a request of which no node can start is refused",
    ],
  },
  {
    id: "4.5",
    rule: "Queries are lenient: unknown names are passed over, and no filter means all.",
    tests: [
      "graphql/node-lists: selects by each of its fields, by several together, by their alternatives and their opposites",
      "graphql/node-lists: are registered in one request, and are there",
    ],
  },
  {
    id: "4.6",
    rule: "A refused request leaves no trace: on no node, no operation, nothing about the last one.",
    tests: ["engine/admission: of $why", "graphql/verbs: is refused as a whole, names every one, and leaves no trace"],
  },
  {
    id: "4.7",
    rule: "Of two overlapping requests at the same moment exactly one wins whole; the other gets BUSY with the operation in the way.",
    tests: [
      "engine/admission: of two requests that overlap at the same moment one wins whole, and the other is told by whom it is BUSY",
      "graphql/verbs: are won by one; the others are told who is in the way",
      "store/refusals: a second unfinished one on the same node, in whatever state",
    ],
  },
  {
    id: "4.8",
    rule: "The same idempotency key with the same input answers the same operation.",
    tests: [
      "engine/admission: answers the same request with the same operation",
      "engine/admission: used five times at the same moment makes one operation",
      "graphql/verbs: is answered with the same operation and starts nothing twice",
    ],
  },
  {
    id: "4.9",
    rule: "The same key with another input is IDEMPOTENCY_MISMATCH.",
    tests: [
      "engine/admission: of another input is refused with the operation it was used for",
      "engine/admission: used at the same moment for different inputs is taken for one of them",
    ],
  },
  {
    id: "4.10",
    rule: "A dry run, or the query `plan`, answers node by node the reason of its refusal, or the steps in their order.",
    tests: [
      "engine/plan-first: answers the steps in their order and the state at their end",
      "engine/plan-first: answers what stands against each node, and what the others would do",
      "graphql/plan: answers for $kind $more what $verb does with dryRun, to the hash",
    ],
  },
  {
    id: "4.11",
    rule: "It tells estimates and the point of no return.",
    tests: [
      "graphql/plan: tells each node's steps, target, and what it takes, and how many nodes there would be",
      "graphql/plan: of a node is the sum of its steps'",
      "lifecycle/touches: is the first step that touches disks or firmware",
    ],
  },
  {
    id: "4.12",
    rule: "It writes nothing and calls no driver.",
    tests: [
      "engine/plan-first: of $what writes nothing, and calls no driver",
      "engine/plan-first: waits for nobody who holds the node, and holds nobody up",
    ],
  },
  {
    id: "4.13",
    rule: "A request with `planHash` does what that plan said, or is refused.",
    tests: [
      "engine/plan-first: is accepted while nothing has changed, and does what the plan says",
      "engine/plan-first: is refused when a node's state has changed, though the verb is allowed from there as well, and leaves no trace",
      "graphql/plan: of a plan is taken by the verb while nothing has changed, and refused afterwards",
    ],
  },
  {
    id: "4.14",
    rule: "`maxParallel` bounds the nodes of an operation that are at work; the others begin in the order of the request.",
    tests: [
      "engine/admission: is never exceeded, and the nodes begin in the order of the request",
      "engine/admission: holds back the rest, untouched, until there is room",
    ],
  },
  {
    id: "4.15",
    rule: "A limit of a phase holds over the whole service.",
    tests: [
      "engine/limits: holds over all operations: never more runs than that are inside, all have their turn, who waited longest first",
      "engine/limits: a limit holds over all of them",
    ],
  },
  {
    id: "4.16",
    rule: "A limit of management controllers holds for each of them.",
    tests: ["engine/limits: holds for the nodes of one controller, and each controller has its own"],
  },
  {
    id: "4.17",
    rule: "What exceeds a limit is QUEUED, in order, never refused and never lost.",
    tests: [
      "engine/limits: leaves a node that waits to begin QUEUED and untouched, and says what it waits for",
      "engine/limits: the place of one that died is taken over with its run, and free when that ends",
      "graphql/runs: tells a limit of the site, and the place in the queue for it over all operations",
    ],
  },
  {
    id: "4.18",
    rule: "With waves the next group of nodes begins when the one before has ended, after a pause, or when somebody says so.",
    tests: [
      "engine/waves: begins when the one before has ended, in sizes by $by",
      "engine/waves: begins after its pause",
      "engine/waves: begins when somebody says so, where that was asked for",
    ],
  },
  {
    id: "4.19",
    rule: "More failures than may be hold the rest at once; they wait until somebody goes on, and those who have begun go on.",
    tests: [
      "engine/waves: by $by hold the rest: nodes untouched, and the operation tells",
      "engine/waves: let what has begun go on, and begin nothing more of the same wave",
      "engine/waves: that somebody has seen and resumed after do not count again",
    ],
  },
  {
    id: "4.20",
    rule: "A node that is named twice counts once.",
    tests: ["engine/admission: a node that is named twice counts once, at its first place"],
  },
];

const SECTION_STEPS: readonly Rule[] = [
  {
    id: "5.1",
    rule: "Drivers declare their steps as data: phase, priority, whether and how they can be interrupted, times, retries, arguments, what they touch.",
    tests: [
      "graphql/site: shows each step as it is declared",
      "graphql/runs: StepAttempt.part tells whether the work is looked over, and Step what it declares of retries",
    ],
  },
  {
    id: "5.2",
    rule: "A step of priority 0 runs only when it is asked for.",
    tests: [
      "engine/steps: steps run by priority, those alike as they were declared, those of priority 0 not at all",
      "engine/plan: runs as it stands: in its order, steps of priority 0 and repeated ones too, with defaults in the arguments",
    ],
  },
  {
    id: "5.3",
    rule: "The order is by priority, then by interface (vendor, power, management, firmware, deploy, bios, raid, inspect, clean), then by declaration.",
    tests: [
      "engine/plan: is by priority, highest first",
      "engine/plan: of steps with the same priority of several interfaces is vendor, power, management, firmware, deploy, bios, raid, inspect, clean",
      "engine/plan: of steps with the same priority is that of their declaration",
    ],
  },
  {
    id: "5.4",
    rule: "The site may change priorities, and forbid steps.",
    tests: [
      "engine/cleaning: is the site's where it says so; what it switched off still runs by name, what it forbids does not",
      "engine/plan: that forbids a step outranks its priority",
    ],
  },
  {
    id: "5.5",
    rule: "Arguments are checked before anything starts, and everything that is wrong is told at once.",
    tests: [
      "engine/steps: are refused with everything that is wrong with them, before anything starts",
      "engine/cleaning: is refused as a whole, with everything that is wrong on every node",
      "engine/plan: is refused with every wrong step and every wrong argument, each with its place",
    ],
  },
  {
    id: "5.6",
    rule: "A step is done, waits for a time or a call-back, or has failed, and says whether a retry is of use.",
    tests: [
      "engine/steps: a step that waits is entered again with its memo, as the same attempt",
      "engine/callback: wakes the step that waits for it, with its body",
      "engine/steps: is tried again where it may be, and each attempt is kept",
      "engine/steps: is not tried again when it says that this is no use",
    ],
  },
  {
    id: "5.7",
    rule: "Whatever else it returns, or throws, is a failure that sets the node free and harms nothing else.",
    tests: [
      "engine/steps: a driver that returns $what fails its node and harms nothing else",
      "engine/steps: by throwing fails its node, with the message",
    ],
  },
  {
    id: "5.8",
    rule: "Retries are bounded and spaced as the step declares.",
    tests: [
      "engine/steps: fails its node when its retries are used up",
      "engine/steps: the node is parked for the back-off that the step declares, and each try keeps its reason",
    ],
  },
  {
    id: "5.9",
    rule: "A memo is stored: after a wait, or a restart of the service, the step is entered again with it.",
    tests: [
      "engine/steps: a step that waits goes on with its memo, as the same attempt, when the process that it began in is gone",
      "engine/steps: a reboot inside a step is done once: the step goes on with its memo when the machine has called back",
    ],
  },
  {
    id: "5.10",
    rule: "Power on, off, softly off, reboot, wait and hold are steps of the service's own, and work in every list.",
    tests: [
      "engine/plan: $label works in lists of clean and of deploy steps, touches nothing and may be cut",
      "engine/wait-step: changes of power are made in their place, and not where the machine is so already",
      "engine/wait-step: a wait parks the run for as long as it says, and no process holds it",
      "engine/holds: parks the run with the node in ${holds}, says why, and has no job",
    ],
  },
  {
    id: "5.11",
    rule: "The steps of a run are visible before, during and after, with tries, progress and the tail of their log.",
    tests: [
      "graphql/operations: tells while it runs what each node does, and how much of all is done",
      "graphql/plan: tells before, during and after what its steps touch and take, and its point of no return",
      "engine/steps: progress is seen while the step runs, within its bounds",
      "graphql/step-log: has the newest lines of the step, oldest first, of all its tries, with secrets masked",
    ],
  },
  {
    id: "5.12",
    rule: "A call-back is good for one wait of one run. Any other is recorded, and changes nothing.",
    tests: [
      "engine/callback: one for an earlier wait is LATE",
      "engine/callback: one that comes a second time is a DUPLICATE",
      "engine/callback: one with the token of another node's run is FORGED, and that token is good still",
      "graphql/runs: has each call-back that was not taken, and the service's log a line for it",
    ],
  },
  {
    id: "5.13",
    rule: "A driver that hangs, blocks, exits or runs out of memory harms its own step only, and is ended when it does not end.",
    tests: [
      "drivers/isolation: while it %s, calls for other nodes go on; when it was told to end, it is killed",
      "drivers/isolation-service: fails the steps of that driver, each with a reason; the others of that driver end as they should, and the API answers meanwhile",
    ],
  },
];

const SECTION_ABORT: readonly Rule[] = [
  {
    id: "6.1",
    rule: "An abort is recorded, and each node is answered at once by its own situation.",
    tests: [
      "engine/abort: answers each node by its own situation, and ends when the last of them has",
      "lifecycle/interrupts: $is answers $answer",
    ],
  },
  {
    id: "6.2",
    rule: "No unfinished run: NOTHING_RUNNING.",
    tests: [
      "engine/abort: a node with nothing running answers NOTHING_RUNNING and does nothing",
      "graphql/verbs: of nothing is refused",
    ],
  },
  {
    id: "6.3",
    rule: "Parked or held, in a step that may be cut: ends now.",
    tests: [
      "engine/abort: a step that is parked $parked ends it now",
      "engine/abort: a step that ends only at its boundary, while it is parked, ends it now",
      "engine/abort: a step that waits to be tried again ends it now",
      "engine/holds: is ended now by an abort, with the node failed and nothing run after it",
    ],
  },
  {
    id: "6.4",
    rule: "In a running step that may be cut: the driver is told by its signal, and it ends now.",
    tests: [
      "engine/abort: an abort ends a $which now, undone",
      "engine/abort: a step that may be interrupted ends it now, with the node failed and the operation ABORTED",
      "engine/abort: a step that never ends by itself ends it too",
    ],
  },
  {
    id: "6.5",
    rule: "In a running step that ends at its boundary: PENDING, and the step that it waits for is named.",
    tests: [
      "engine/abort: an abort of a $which waits for its end",
      "engine/abort: a running step that ends only at its boundary is PENDING, and takes effect when that step has ended",
      "graphql/verbs: of a step that ends first is pending, and names the step",
    ],
  },
  {
    id: "6.6",
    rule: "In a step that must not be interrupted: NOT_INTERRUPTIBLE, and with `mode: AFTER_STEP` PENDING.",
    tests: [
      "engine/abort: a step that must not be interrupted is refused, and the step goes on to its end",
      "engine/abort: a step that must not be interrupted is PENDING when it is meant for the step's end",
    ],
  },
  {
    id: "6.7",
    rule: "In a phase that the driver cannot abort: UNSUPPORTED_BY_DRIVER.",
    tests: [
      "engine/abort: a phase whose driver has no abort is UNSUPPORTED_BY_DRIVER",
      "engine/abort: a %s step whose driver has no abort for the phase refuses it, and goes on",
    ],
  },
  {
    id: "6.8",
    rule: "Under way already: the same answer again.",
    tests: [
      "engine/abort: what is being aborted already gives the same answer again",
      "engine/abort: an abort that is being carried out gives the same answer again, and is carried out once",
    ],
  },
  {
    id: "6.9",
    rule: "The driver undoes the step; a node that was being cleaned or deployed is powered off, unless told otherwise; it ends failed, and its target is cleared.",
    tests: [
      "engine/abort: a step that may be interrupted ends it now, with the node failed and the operation ABORTED",
      "engine/left-as: $power by the policy for $phase",
      "engine/left-as: left alone in %s when that is asked for",
      "graphql/target-state: an abort clears a node's target",
    ],
  },
  {
    id: "6.10",
    rule: "The state does not wait for the machine to confirm, and no tear-down that fails keeps it from moving.",
    tests: [
      "engine/abort: a step that is deaf to the signal fails its run, in bounded time, and the node says so",
      "engine/left-as: $what, in $phase, ends all the same: the node failed, and flagged with what went wrong",
    ],
  },
  {
    id: "6.11",
    rule: "An abort in the last step is an abort, never a success.",
    tests: ["engine/abort: the last step is an abort, never a success"],
  },
  {
    id: "6.12",
    rule: "The outcome tells how the node was left: power, disks, firmware and network, as far as the steps declare it.",
    tests: [
      "engine/left-as: $step: what it and the steps before it declare",
      "engine/left-as: nothing at all, where no step had begun: nothing is told",
      "graphql/plan: that was aborted tells what it left touched",
    ],
  },
  {
    id: "6.13",
    rule: "Changes of power are BUSY during every unfinished run, cleaning included.",
    tests: [
      "engine/power: is BUSY during $during",
      "engine/power: is BUSY while the run is parked, and while it is held",
      "engine/power: is BUSY while the run waits for its turn",
    ],
  },
  {
    id: "6.14",
    rule: "A pending abort can be taken back until the step has ended; then the work goes on as if nothing had been asked.",
    tests: [
      "engine/withdraw: lets the work go on to success, and the log tells both",
      "engine/withdraw: while what was done is being undone, though the step that it waited for $how",
      "engine/withdraw: when the step was cut: that abort is being carried out",
    ],
  },
];

const SECTION_STOP: readonly Rule[] = [
  {
    id: "7.1",
    rule: "A stop is of an operation, a cluster, or nodes.",
    tests: [
      "engine/stop-restart: lets the running step end, keeps its result, and begins no new one",
      "engine/stop-restart: of a cluster stops its operation, and no other",
      "engine/stop-restart: of one node of an operation leaves the others at work",
      "engine/stop-restart: of several operations stops their share of each, and tells each node's run",
    ],
  },
  {
    id: "7.2",
    rule: "No new step starts; running ones end by themselves, and their real result is kept. A step that fails is not tried again.",
    tests: [
      "engine/stop-restart: lets the running step end, keeps its result, and begins no new one",
      "engine/stop-restart: makes no new attempt of a step that fails",
      "engine/stop-restart: of a step that is parked waits for its real end",
    ],
  },
  {
    id: "7.3",
    rule: "A node whose work is all done succeeds; it is never STOPPED.",
    tests: ["engine/stop-restart: during the last step ends in success: no work is left"],
  },
  {
    id: "7.4",
    rule: "A node whose step failed is failed.",
    tests: [
      "engine/stop-restart: makes no new attempt of a step that fails",
      "engine/stop-restart: of a step that waits to be tried again ends it as failed, at once",
    ],
  },
  {
    id: "7.5",
    rule: "A node with work left is STOPPED.",
    tests: [
      "engine/stop-restart: lets the running step end, keeps its result, and begins no new one",
      "engine/sweep: a stop lets the step end and leaves the node STOPPED; a restart brings it to ACTIVE and installs nothing twice",
    ],
  },
  {
    id: "7.6",
    rule: "A node that never began is STOPPED with nothing run, or, still QUEUED, back where it was without a call.",
    tests: [
      "engine/stop-restart: of what nobody has claimed yet ends it here and now, with nothing run",
      "engine/stop-restart: leaves a queued node back where it was, without a call",
    ],
  },
  {
    id: "7.7",
    rule: "Nodes outside of the operation see nothing of it.",
    tests: [
      "engine/stop-restart: a stop and a restart leave no trace on nodes outside the operation",
      "engine/stop-restart: of a cluster stops its operation, and no other",
    ],
  },
  {
    id: "7.8",
    rule: "The operation is STOPPING, and STOPPED when the last running step has ended.",
    tests: [
      "engine/stop-restart: lets the running step end, keeps its result, and begins no new one",
      "graphql/verbs: stop lets the running step end; restart goes on with the variables as they are now",
      "lifecycle/derived-states: an operation of which › $what is $is",
    ],
  },
  {
    id: "7.9",
    rule: "What runs longer than the time for the stop fails with STOP_TIMEOUT, and can be restarted.",
    tests: [
      "engine/stop-restart: over its time fails what still runs with STOP_TIMEOUT, and it can be restarted",
      "engine/stop-restart: names the step of each node, though every place is taken by steps that are stuck, and frees the places",
      "engine/stop-restart: over its time fails a step that must not be cut as well, without cutting it or touching the power",
    ],
  },
  {
    id: "7.10",
    rule: "A second stop answers the same operation.",
    tests: [
      "engine/stop-restart: that is repeated answers the same operation",
      "engine/stop-restart: that is all of an operation is one of the operation, and answers the same when it is repeated, and after its end",
    ],
  },
  {
    id: "7.11",
    rule: "A stop that meets the end answers the finished operation, and never hangs.",
    tests: [
      "engine/stop-restart: at the same moment as the end hangs neither",
      "engine/stop-restart: of an operation that has ended answers it, and changes nothing",
      "engine/races: a thousand aborts, withdrawals and stops that meet the end of a step leave one outcome each, and answers that agree with it",
    ],
  },
  {
    id: "7.12",
    rule: "An abort is possible while it is STOPPING.",
    tests: [
      "engine/stop-restart: does not stand in the way of an abort",
      "engine/abort: of a step that is cut at its boundary outranks it",
    ],
  },
  {
    id: "7.13",
    rule: "A restart, of an operation, a cluster or nodes, is a new operation for what is stopped, failed or aborted, and says what it restarts.",
    tests: [
      "engine/stop-restart: of some nodes takes up those, and the others later",
      "engine/stop-restart: of a cluster takes up what is unfinished in it",
      "engine/stop-restart: is a new operation that says what it restarts",
      "engine/stop-restart: takes up what failed, and leaves alone what is ACTIVE",
      "engine/stop-restart: takes up what was aborted",
      "engine/stop-restart: takes up nodes that were stopped while they were queued",
    ],
  },
  {
    id: "7.14",
    rule: "It goes by the settings as they are now.",
    tests: [
      "engine/stop-restart: goes by the settings as they are now",
      "graphql/verbs: stop lets the running step end; restart goes on with the variables as they are now",
    ],
  },
  {
    id: "7.15",
    rule: "From STAGE, as usual: an installed system is not installed again, and everything of the unfinished stage is run again.",
    tests: [
      "engine/stop-restart: keeps an installed system: the image is not written again",
      "engine/stop-restart: runs the whole unfinished stage again, where no system stands yet",
    ],
  },
  {
    id: "7.16",
    rule: "From UNFINISHED_STEP: steps that succeeded stay done.",
    tests: [
      "engine/stop-restart: from UNFINISHED_STEP runs only what has not succeeded",
      "engine/sweep: an abort and a restart from the unfinished step enter each step that succeeded once, but for what needs the machine that the abort switched off",
    ],
  },
  {
    id: "7.17",
    rule: "From BEGINNING: everything is run again.",
    tests: ["engine/stop-restart: from BEGINNING runs everything"],
  },
  {
    id: "7.18",
    rule: "Nodes that are ACTIVE are left alone.",
    tests: ["engine/stop-restart: takes up what failed, and leaves alone what is ACTIVE"],
  },
  {
    id: "7.19",
    rule: "Nothing that a stop, an abort, a refusal or a crash left behind hinders it.",
    tests: [
      "engine/stop-restart: what is stopped and restarted many times tells its whole story in the log",
      "engine/left-as: hinders no restart",
      "engine/failure-policies: does not keep a restart from going on where a failed clean-up has left a node",
      "engine/sweep: inside a step that must not be run twice, it fails with INTERRUPTED and can be restarted",
    ],
  },
  {
    id: "7.20",
    rule: "Nothing to do: NOTHING_TO_RESTART.",
    tests: [
      "engine/stop-restart: of work that succeeded is refused, and so is one of work that goes on",
      "graphql/verbs: restart of what ended well, never ran or still runs is refused",
    ],
  },
  {
    id: "7.21",
    rule: "Settings of a cluster can be edited unless an operation on it is deploying or stopping: then CLUSTER_LOCKED.",
    tests: [
      "engine/clusters: is locked while an operation deploys or stops on it, and free again when it has ended",
      "graphql/clusters: is refused while it deploys, with the operation in the way, and possible again afterwards",
      "lifecycle/derived-states: work going on, or to be stopped, keeps its settings; every other state lets them be edited",
    ],
  },
];

const CLUSTER_CASES = "lifecycle/derived-states: a cluster with › $what is $is";
const SECTION_CLUSTER: readonly Rule[] = [
  {
    id: "8.1",
    rule: "The state of a cluster is derived from its nodes and the work on them; the first of these that applies decides.",
    tests: [
      CLUSTER_CASES,
      "lifecycle/derived-states: every row of the table decides for some cluster, and every state has a row",
      "graphql/clusters: has the state that its nodes and the work on them make",
    ],
  },
  { id: "8.2", rule: "Nodes are being undeployed or decommissioned: REMOVING.", tests: [CLUSTER_CASES] },
  { id: "8.3", rule: "A stop was asked for: STOPPING.", tests: [CLUSTER_CASES] },
  { id: "8.4", rule: "An operation is under way: DEPLOYING.", tests: [CLUSTER_CASES] },
  { id: "8.5", rule: "No nodes, or none past AVAILABLE: NEW.", tests: [CLUSTER_CASES] },
  { id: "8.6", rule: "All ACTIVE: OPERATIONAL.", tests: [CLUSTER_CASES] },
  { id: "8.7", rule: "Some ACTIVE, or at stage PROVISIONED: PARTIALLY_DEPLOYED.", tests: [CLUSTER_CASES] },
  { id: "8.8", rule: "Any STOPPED: STOPPED. Else any failed: ERROR. Else NEW.", tests: [CLUSTER_CASES] },
  {
    id: "8.9",
    rule: "A dry run never changes it.",
    tests: ["graphql/plan: writes nothing, and leaves the cluster as it is"],
  },
];

const SECTION_EVENTS: readonly Rule[] = [
  {
    id: "11.1",
    rule: "Transitions are one log, whose positions follow the order of commits and have no holes: who has seen one never finds a new row before it.",
    tests: [
      "feed/node-stream: tells every later transition once, in order and without a hole, while eight write",
      "feed/node-stream: tells of each node what happened to it, one after the other",
      "graphql/streams: are seen by every stream in all their transitions, in order, without a hole, and the same by all",
    ],
  },
  {
    id: "11.2",
    rule: "A stream goes on from any cursor: it replays, says once that it has caught up, and is live; nothing is missing, nothing comes twice.",
    tests: [
      "feed/node-stream: replays, says once that it has caught up, and goes on live",
      "feed/node-stream: goes on from any cut, while eight write",
      "feed/node-stream: goes on from the cursor of a bookmark as from that of a transition",
      "http/cuts: thirty cuts of ten clients, while two thousand transitions are written, lose nothing, repeat nothing and change no order",
    ],
  },
  {
    id: "11.3",
    rule: "With a snapshot every matching node comes first, as of one position, and then what came after it: there is no window between the two.",
    tests: [
      "feed/node-stream: is, folded, what the nodes are, while eight write",
      "feed/node-stream: has every node once, by name, all as of one position, and the mark after the last",
      "feed/shared-reads: have in them whatever was written before they were asked for",
    ],
  },
  {
    id: "11.4",
    rule: "A stream is never silent for longer than ten seconds: then a bookmark says how far it has come, also when nothing matches.",
    tests: [
      "feed/stream-end: gives a bookmark every ten seconds",
      "feed/stream-end: gives one too while others, that do not match, go on",
      "feed/shared-reads: looks through the table a part at a time, and says where it is every ten seconds meanwhile",
    ],
  },
  {
    id: "11.5",
    rule: "A cursor that is older than what is kept, or of no log, is answered with CURSOR_EXPIRED and the earliest that is good.",
    tests: [
      "feed/stream-end: a cursor from before ends with CURSOR_EXPIRED and the earliest that is good",
      "feed/node-stream: of the future ends at once with CURSOR_EXPIRED",
      "graphql/retention: a stream %s ends with the same, and goes on from the cursor that it names, or from a snapshot",
    ],
  },
  {
    id: "11.6",
    rule: "What the log forgets is its beginning, in batches: no hole is left.",
    tests: [
      "engine/retention: go in batches, the oldest first",
      "engine/retention: leave no hole, though the clock went back while they were written",
    ],
  },
  {
    id: "11.7",
    rule: "`operationUpdates` begins with the present state and ends itself with the operation.",
    tests: [
      "feed/operation-stream: begins with its present state, tells each run as it changes, and completes with its end",
      "feed/operation-stream: of one that has ended is its end alone",
    ],
  },
  {
    id: "11.8",
    rule: "Progress and logs of steps are streams too.",
    tests: [
      "feed/log-stream: tells each line as it is written, with its step, and completes when the run has ended",
      "feed/log-stream: goes on from any cut, over many pages: nothing is missing, nothing comes twice",
    ],
  },
  {
    id: "11.9",
    rule: "A stream of what does not exist is refused.",
    tests: ["graphql/streams: refuses %j, which does not exist"],
  },
  {
    id: "11.10",
    rule: "A reader that is slow costs a bounded number of items, slows nobody, and can resume; one from which something was taken away meanwhile is told TOO_SLOW.",
    tests: [
      "http/cuts: readers that stop reading cost a bounded number of items each, are let go when they are gone, and hold up nobody",
      "graphql/streams: over a WebSocket costs a bounded number of items, stops nobody, and gets everything when it reads on",
      "feed/shared-reads: a stream whose next transitions are deleted while it waits for its reader",
    ],
  },
  {
    id: "11.11",
    rule: "A stream whose client has left is ended at once, and leaves nothing behind.",
    tests: [
      "feed/stream-end: ends at once, although it waits, and nobody listens any more",
      "http/cuts: three hundred who connect and leave, told something or not, leave nothing behind",
    ],
  },
  {
    id: "11.12",
    rule: "A process that leaves tells its streams so, with the cursor to go on from.",
    tests: [
      "feed/stream-end: a waiting stream ends with SHUTTING_DOWN and the cursor to go on from",
      "http/shutdown: at SIGTERM streams have their last word, answers that are due are given, whatever hangs is refused, and the process ends with 0",
    ],
  },
  {
    id: "11.13",
    rule: "WebSocket and server-sent events tell the same.",
    tests: [
      "graphql/streams: are seen by every stream in all their transitions, in order, without a hole, and the same by all",
      "graphql/shared-events: that ask the same are told the same, out of fewer statements than they are",
    ],
  },
  {
    id: "11.14",
    rule: "A cursor is good at every replica.",
    tests: [
      "replicas/streams: a follower that is cut and goes on at the other replica, which is killed, and back",
      "replicas/streams: a cursor that is newer than what a replica has heard of is none of the future",
    ],
  },
];

const SECTION_CRASH: readonly Rule[] = [
  {
    id: "12.1",
    rule: "A process may die at any instruction: nothing that was acknowledged is lost.",
    tests: [
      "engine/sweep: at any moment of a busy day, nothing is lost and nothing hangs",
      "main: goes on where it was when it is killed under work",
      "store/embedded: dies with its owner, and every row that was acknowledged before is there again",
      "engine/model: random requests, faults and deaths of processes lead where the model says, and end",
    ],
  },
  {
    id: "12.2",
    rule: "Every run is taken up by another process within the lease time, or by the same one after a start.",
    tests: [
      "engine/timeouts: the work of a process that was killed is taken up by another within the lease, without anybody's help",
      "engine/sweep: inside every step, another process enters each of them again and goes on to the end",
      "main: goes on where it was when it is killed under work",
      "replicas/takeover: one of three that is killed in the middle of many steps: others enter these steps again, and none before them",
    ],
  },
  {
    id: "12.3",
    rule: "A step that was running is entered again if it may be run twice, or has a memo.",
    tests: [
      "engine/sweep: inside every step, another process enters each of them again and goes on to the end",
      "engine/verify-part: a process that is killed while it looks leaves the work done: another one looks again, though the step must not be run twice",
    ],
  },
  {
    id: "12.4",
    rule: "Otherwise the run fails with INTERRUPTED, and can be restarted.",
    tests: ["engine/sweep: inside a step that must not be run twice, it fails with INTERRUPTED and can be restarted"],
  },
  {
    id: "12.5",
    rule: "Every recovered run has a transition that says so.",
    tests: [
      "engine/sweep: inside every step, another process enters each of them again and goes on to the end",
      "engine/timeouts: the work of a process that was killed is taken up by another within the lease, without anybody's help",
    ],
  },
  {
    id: "12.6",
    rule: "No run is left without an owner, however many there are.",
    tests: [
      "engine/timeouts: runs without a job are all given one, however many there are",
      "engine/replicas: a run whose job was lost is given one when a process starts",
      "engine/discover: and loses the job altogether is found out",
    ],
  },
  {
    id: "12.7",
    rule: "No two processes run steps of one run: an owner that was taken for dead is fenced off before it can write.",
    tests: [
      "engine/sweep: and wakes up in any step finds itself fenced off, and writes nothing",
      "engine/replicas: share the work, and no step is entered twice",
      "engine/step-log: has lost the run writes no line more",
      "replicas/takeover: one that slept longer than its leases writes nothing when it wakes, and tells no machine anything",
    ],
  },
  {
    id: "12.8",
    rule: "A process that leaves takes no work, lets steps end or hands them on, and goes.",
    tests: [
      "engine/replicas: lets a running step end, and hands the rest back: nothing has to be recovered",
      "engine/replicas: takes no new work",
      "main: starts on an empty folder, answers, and ends at SIGTERM with 0",
      "replicas/drain: steps that end in time are stored, others are given back and entered again by another replica, without a lease that runs out",
    ],
  },
  {
    id: "12.9",
    rule: "While the database is away no operation fails for it; results wait, and leases are spared when it is back.",
    tests: [
      "replicas/outage: when the database has crashed and was away for a while",
      "replicas/outage: when it took no writes for a while, as in a failover",
    ],
  },
  {
    id: "12.10",
    rule: "Clocks of processes change no lease, no deadline and no time-out.",
    tests: ["engine/clock: an hour %s ends no step before its time, and none after"],
  },
];

const SECTION_TIMEOUTS: readonly Rule[] = [
  {
    id: "13.1",
    rule: "A step has the time that it declares, from the beginning of each try on, waits included; over it, it fails with TIMEOUT.",
    tests: [
      "engine/steps: is what it declares, from its beginning on, and a try over it is tried again with a time of its own",
      "engine/steps: fails with TIMEOUT, be it %s to its signal",
      "engine/steps: fails with TIMEOUT even when it is parked most of it",
    ],
  },
  {
    id: "13.2",
    rule: "A wait for a machine ends with the time of silence that the step gives it, after half an hour where it gives none.",
    tests: [
      "engine/timeouts: a machine that is to call back may be silent for half an hour",
      "engine/callback: that does not come leaves the step with none when its time of silence is over",
      "engine/steps: bounds a wait that asks for more, and that of no other step",
    ],
  },
  {
    id: "13.3",
    rule: "A soft power off has 600 s.",
    tests: ["engine/power: gives the system ten minutes unless told otherwise, and the cut another one"],
  },
  {
    id: "13.4",
    rule: "A change of power, and a verification, have 60 s.",
    tests: [
      "engine/steps: of the service's own steps stands in the plan: a minute for power and verification, what it says for a wait",
    ],
  },
  { id: "13.5", rule: "A stop has 600 s.", tests: ["engine/timeouts: a stop gives running steps ten minutes"] },
  {
    id: "13.6",
    rule: "A call of a BMC has 30 s.",
    tests: ["engine/timeouts: a BMC has 30 seconds for a call in which its power is read, and for a probe"],
  },
  {
    id: "13.7",
    rule: "Holds never time out.",
    tests: ["engine/holds: never times out, and is no lost run: its time may pass, and processes may come and go"],
  },
  {
    id: "13.8",
    rule: "Each time-out is a timer of its own.",
    tests: [
      "engine/timeouts: each time-out is a timer of its own: those of hundreds of nodes run down together, and none waits for another",
    ],
  },
];

export const RULES: readonly RuleSection[] = [
  { number: 2, title: "Lifecycle", rules: SECTION_LIFECYCLE },
  { number: 3, title: "Verbs", rules: SECTION_VERBS },
  { number: 4, title: "Admission, plans and capacity", rules: SECTION_ADMISSION },
  { number: 5, title: "Steps", rules: SECTION_STEPS },
  { number: 6, title: "Abort", rules: SECTION_ABORT },
  { number: 7, title: "Stop and restart", rules: SECTION_STOP },
  { number: 8, title: "The state of a cluster", rules: SECTION_CLUSTER },
  { number: 11, title: "Events", rules: SECTION_EVENTS },
  { number: 12, title: "Crashes", rules: SECTION_CRASH },
  { number: 13, title: "Times", rules: SECTION_TIMEOUTS },
];
