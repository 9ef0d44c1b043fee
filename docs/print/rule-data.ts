/**
 * The rules that users can rely on. A test that holds a rule carries the rule's id at the end of its title: `… [R-057]`,
 * `… [R-057, R-058]`; test/rules.test.ts fails for a rule without a test. Ids are permanent: append new rules with the next id.
 */

export interface Rule {
  readonly id: string;
  readonly rule: string;
}

export interface RuleSection {
  readonly title: string;
  readonly rules: readonly Rule[];
}

export const RULES: readonly RuleSection[] = [
  {
    title: "Lifecycle",
    rules: [
      { id: "R-001", rule: "One table says which state may follow which; every other change is impossible." },
      { id: "R-002", rule: "The database holds the same table." },
      { id: "R-003", rule: "One place in the code changes the state of a node." },
      {
        id: "R-004",
        rule: "A change of state and its transition are one transaction: neither is there without the other.",
      },
      {
        id: "R-005",
        rule: "Activities have one shape: running, wait, hold, failed. What goes on can always be aborted, stopped, and fail.",
      },
      { id: "R-006", rule: "What waits is held by no process, and survives any restart." },
      { id: "R-007", rule: "A hold pauses a run by request, until somebody lifts it." },
      { id: "R-008", rule: "The target of a node belongs to its run, and stays the same until the run ends." },
      {
        id: "R-009",
        rule: "A node tells which verbs it would accept, and of each other one the reason, by the same table.",
      },
      { id: "R-010", rule: "The diagrams and tables of the documentation are printed from the same table." },
      {
        id: "R-011",
        rule: "A node's stage remembers whether nothing, the operating system, or everything stands; a restart goes by it.",
      },
    ],
  },
  {
    title: "Verbs",
    rules: [
      { id: "R-012", rule: "Verbs take nodes by name, ID, filter or cluster." },
      { id: "R-013", rule: "They are answered at once, with an operation that is stored already." },
      {
        id: "R-014",
        rule: "Each verb leads from the states of its row to its end, through what is missing, and is refused in every other state.",
      },
      { id: "R-015", rule: "`registerNodes` makes nodes ENROLLED, all or none." },
      { id: "R-016", rule: "`discoverNodes` probes addresses and ranges with a driver, and registers what answers." },
      { id: "R-017", rule: "Addresses at which no node was found are listed, so that they can be posted again." },
      { id: "R-018", rule: "`manageNodes` verifies, up to MANAGEABLE." },
      {
        id: "R-019",
        rule: "`inspectNodes` works in place on AVAILABLE and ACTIVE nodes where the driver needs no reboot; their state stays.",
      },
      { id: "R-020", rule: "Each inspection stores a new inventory; earlier ones stay, and can be compared." },
      { id: "R-021", rule: "`cleanNodes` runs a list of steps or a runbook, and the node ends where it began." },
      {
        id: "R-022",
        rule: "Automatic cleaning runs in a commission and after a tear-down, unless the site or the node switches it off.",
      },
      { id: "R-023", rule: "Automatic steps are those with a priority above 0, highest first." },
      {
        id: "R-024",
        rule: "`commissionNodes` does what is missing from any state at rest short of ACTIVE; up to ACTIVE unless told otherwise.",
      },
      {
        id: "R-025",
        rule: "Unless told otherwise, one failure of a commission takes every node of it back to AVAILABLE, or to the failed state of its clean-up.",
      },
      {
        id: "R-026",
        rule: "The operation is then FAILED with the first cause, and the same request can be posted again.",
      },
      {
        id: "R-027",
        rule: "`deployNodes` installs from AVAILABLE and DEPLOY_FAILED, and again from ACTIVE; `undeployNodes` tears down, cleans, and ends AVAILABLE.",
      },
      { id: "R-028", rule: "`decommissionNodes` goes on past whatever fails, and always ends DECOMMISSIONED." },
      { id: "R-029", rule: "What failed on the way is recorded, and the operation is SUCCEEDED_WITH_ERRORS." },
      { id: "R-030", rule: "A node that has disappeared is decommissioned by force only." },
      {
        id: "R-031",
        rule: "`updateNodes` takes an ACTIVE node down, cleans it and deploys it again, with another host group where that is asked for.",
      },
      { id: "R-032", rule: "A cleaning that fails stops an update there." },
      {
        id: "R-033",
        rule: "`setMaintenance` sets or clears a mark, in any state, and starts no work; no verb is let in while it is set.",
      },
      {
        id: "R-034",
        rule: "Maintenance does not freeze what runs: the step ends, and the run says that it is PAUSED_BY_MAINTENANCE before the next one.",
      },
      {
        id: "R-035",
        rule: "`setPower` switches on, off, softly off within a time, and reboots, unless a run on the node is unfinished.",
      },
      { id: "R-036", rule: "Power that is there already is a success without a call." },
      {
        id: "R-037",
        rule: "`reportPresence` changes presence alone, of a list of nodes, while runs are going on too; it starts no work.",
      },
      {
        id: "R-038",
        rule: "An unknown node that is discovered is registered ENROLLED; one that disappeared has a result of its own.",
      },
      { id: "R-039", rule: "A report that is repeated changes nothing." },
    ],
  },
  {
    title: "Admission, plans and capacity",
    rules: [
      { id: "R-040", rule: "An empty selection refuses the whole request." },
      {
        id: "R-041",
        rule: "An unknown node refuses the whole request, and every unknown one is named, with BEST_EFFORT too.",
      },
      {
        id: "R-042",
        rule: "A node in the wrong state, busy, in maintenance, protected, gone, or whose driver lacks the ability, refuses the request; all such nodes are named. That is so unless BEST_EFFORT is asked for.",
      },
      { id: "R-043", rule: "With BEST_EFFORT the others start, and each refused node gets its reason." },
      { id: "R-044", rule: "Queries are lenient: unknown names are passed over, and no filter means all." },
      { id: "R-045", rule: "A refused request leaves no trace: on no node, no operation, nothing about the last one." },
      {
        id: "R-046",
        rule: "Of two overlapping requests at the same moment exactly one wins whole; the other gets BUSY with the operation in the way.",
      },
      { id: "R-047", rule: "The same idempotency key with the same input answers the same operation." },
      { id: "R-048", rule: "The same key with another input is IDEMPOTENCY_MISMATCH." },
      {
        id: "R-049",
        rule: "A dry run, or the query `plan`, answers node by node the reason of its refusal, or the steps in their order.",
      },
      { id: "R-050", rule: "It tells estimates and the point of no return." },
      { id: "R-051", rule: "It writes nothing and calls no driver." },
      { id: "R-052", rule: "A request with `planHash` does what that plan said, or is refused." },
      {
        id: "R-053",
        rule: "`maxParallel` bounds the nodes of an operation that are at work; the others begin in the order of the request.",
      },
      { id: "R-054", rule: "A limit of a phase holds over the whole service." },
      { id: "R-055", rule: "A limit of management controllers holds for each of them." },
      { id: "R-056", rule: "What exceeds a limit is QUEUED, in order, never refused and never lost." },
      {
        id: "R-057",
        rule: "With waves the next group of nodes begins when the one before has ended, after a pause, or when somebody says so.",
      },
      {
        id: "R-058",
        rule: "More failures than may be hold the rest at once; they wait until somebody goes on, and those who have begun go on.",
      },
      { id: "R-059", rule: "A node that is named twice counts once." },
    ],
  },
  {
    title: "Steps",
    rules: [
      {
        id: "R-060",
        rule: "Drivers declare their steps as data: phase, priority, whether and how they can be interrupted, times, retries, arguments, what they touch.",
      },
      { id: "R-061", rule: "A step of priority 0 runs only when it is asked for." },
      {
        id: "R-062",
        rule: "The order is by priority, then by interface (vendor, power, management, firmware, deploy, bios, raid, inspect, clean), then by declaration.",
      },
      { id: "R-063", rule: "The site may change priorities, and forbid steps." },
      {
        id: "R-064",
        rule: "Arguments are checked before anything starts, and everything that is wrong is told at once.",
      },
      {
        id: "R-065",
        rule: "A step is done, waits for a time or a call-back, or has failed, and says whether a retry is of use.",
      },
      {
        id: "R-066",
        rule: "Whatever else it returns, or throws, is a failure that sets the node free and harms nothing else.",
      },
      { id: "R-067", rule: "Retries are bounded and spaced as the step declares." },
      {
        id: "R-068",
        rule: "A memo is stored: after a wait, or a restart of the service, the step is entered again with it.",
      },
      {
        id: "R-069",
        rule: "Power on, off, softly off, reboot, wait and hold are steps of the service's own, and work in every list.",
      },
      {
        id: "R-070",
        rule: "The steps of a run are visible before, during and after, with tries, progress and the tail of their log.",
      },
      { id: "R-071", rule: "A call-back is good for one wait of one run. Any other is recorded, and changes nothing." },
      {
        id: "R-072",
        rule: "A driver that hangs, blocks, exits or runs out of memory harms its own step only, and is ended when it does not end.",
      },
    ],
  },
  {
    title: "Abort",
    rules: [
      { id: "R-073", rule: "An abort is recorded, and each node is answered at once by its own situation." },
      { id: "R-074", rule: "No unfinished run: NOTHING_RUNNING." },
      { id: "R-075", rule: "Parked or held, in a step that may be cut: ends now." },
      { id: "R-076", rule: "In a running step that may be cut: the driver is told by its signal, and it ends now." },
      {
        id: "R-077",
        rule: "In a running step that ends at its boundary: PENDING, and the step that it waits for is named.",
      },
      {
        id: "R-078",
        rule: "In a step that must not be interrupted: NOT_INTERRUPTIBLE, and with `mode: AFTER_STEP` PENDING.",
      },
      { id: "R-079", rule: "In a phase that the driver cannot abort: UNSUPPORTED_BY_DRIVER." },
      { id: "R-080", rule: "Under way already: the same answer again." },
      {
        id: "R-081",
        rule: "The driver undoes the step; a node that was being cleaned or deployed is powered off, unless told otherwise; it ends failed, and its target is cleared.",
      },
      {
        id: "R-082",
        rule: "The state does not wait for the machine to confirm, and no tear-down that fails keeps it from moving.",
      },
      { id: "R-083", rule: "An abort in the last step is an abort, never a success." },
      {
        id: "R-084",
        rule: "The outcome tells how the node was left: power, disks, firmware and network, as far as the steps declare it.",
      },
      { id: "R-085", rule: "Changes of power are BUSY during every unfinished run, cleaning included." },
      {
        id: "R-086",
        rule: "A pending abort can be taken back until the step has ended; then the work goes on as if nothing had been asked.",
      },
    ],
  },
  {
    title: "Stop and restart",
    rules: [
      { id: "R-087", rule: "A stop is of an operation, a cluster, or nodes." },
      {
        id: "R-088",
        rule: "No new step starts; running ones end by themselves, and their real result is kept. A step that fails is not tried again.",
      },
      { id: "R-089", rule: "A node whose work is all done succeeds; it is never STOPPED." },
      { id: "R-090", rule: "A node whose step failed is failed." },
      { id: "R-091", rule: "A node with work left is STOPPED." },
      {
        id: "R-092",
        rule: "A node that never began is STOPPED with nothing run, or, still QUEUED, back where it was without a call.",
      },
      { id: "R-093", rule: "Nodes outside of the operation see nothing of it." },
      { id: "R-094", rule: "The operation is STOPPING, and STOPPED when the last running step has ended." },
      {
        id: "R-095",
        rule: "What runs longer than the time for the stop fails with STOP_TIMEOUT, and can be restarted.",
      },
      { id: "R-096", rule: "A second stop answers the same operation." },
      { id: "R-097", rule: "A stop that meets the end answers the finished operation, and never hangs." },
      { id: "R-098", rule: "An abort is possible while it is STOPPING." },
      {
        id: "R-099",
        rule: "A restart, of an operation, a cluster or nodes, is a new operation for what is stopped, failed or aborted, and says what it restarts.",
      },
      { id: "R-100", rule: "It goes by the settings as they are now." },
      {
        id: "R-101",
        rule: "From STAGE, as usual: an installed system is not installed again, and everything of the unfinished stage is run again.",
      },
      { id: "R-102", rule: "From UNFINISHED_STEP: steps that succeeded stay done." },
      { id: "R-103", rule: "From BEGINNING: everything is run again." },
      { id: "R-104", rule: "Nodes that are ACTIVE are left alone." },
      { id: "R-105", rule: "Nothing that a stop, an abort, a refusal or a crash left behind hinders it." },
      { id: "R-106", rule: "Nothing to do: NOTHING_TO_RESTART." },
      {
        id: "R-107",
        rule: "Settings of a cluster can be edited unless an operation on it is deploying or stopping: then CLUSTER_LOCKED.",
      },
    ],
  },
  {
    title: "The state of a cluster",
    rules: [
      {
        id: "R-108",
        rule: "The state of a cluster is derived from its nodes and the work on them; the first of these that applies decides.",
      },
      { id: "R-109", rule: "Nodes are being undeployed or decommissioned: REMOVING." },
      { id: "R-110", rule: "A stop was asked for: STOPPING." },
      { id: "R-111", rule: "An operation is under way: DEPLOYING." },
      { id: "R-112", rule: "No nodes, or none past AVAILABLE: NEW." },
      { id: "R-113", rule: "All ACTIVE: OPERATIONAL." },
      { id: "R-114", rule: "Some ACTIVE, or at stage PROVISIONED: PARTIALLY_DEPLOYED." },
      { id: "R-115", rule: "Any STOPPED: STOPPED. Else any failed: ERROR. Else NEW." },
      { id: "R-116", rule: "A dry run never changes it." },
    ],
  },
  {
    title: "Events",
    rules: [
      {
        id: "R-117",
        rule: "Transitions are one log, whose positions follow the order of commits and have no holes: who has seen one never finds a new row before it.",
      },
      {
        id: "R-118",
        rule: "A stream goes on from any cursor: it replays, says once that it has caught up, and is live; nothing is missing, nothing comes twice.",
      },
      {
        id: "R-119",
        rule: "With a snapshot every matching node comes first, as of one position, and then what came after it: there is no window between the two.",
      },
      {
        id: "R-120",
        rule: "A stream is never silent for longer than ten seconds: then a bookmark says how far it has come, also when nothing matches.",
      },
      {
        id: "R-121",
        rule: "A cursor that is older than what is kept, or of no log, is answered with CURSOR_EXPIRED and the earliest that is good.",
      },
      { id: "R-122", rule: "What the log forgets is its beginning, in batches: no hole is left." },
      { id: "R-123", rule: "`operationUpdates` begins with the present state and ends itself with the operation." },
      { id: "R-124", rule: "Progress and logs of steps are streams too." },
      { id: "R-125", rule: "A stream of what does not exist is refused." },
      {
        id: "R-126",
        rule: "A reader that is slow costs a bounded number of items, slows nobody, and can resume; one from which something was taken away meanwhile is told TOO_SLOW.",
      },
      { id: "R-127", rule: "A stream whose client has left is ended at once, and leaves nothing behind." },
      { id: "R-128", rule: "A process that leaves tells its streams so, with the cursor to go on from." },
      { id: "R-129", rule: "WebSocket and server-sent events tell the same." },
      { id: "R-130", rule: "A cursor is good at every replica." },
    ],
  },
  {
    title: "Crashes",
    rules: [
      { id: "R-131", rule: "A process may die at any instruction: nothing that was acknowledged is lost." },
      {
        id: "R-132",
        rule: "Every run is taken up by another process within the lease time, or by the same one after a start.",
      },
      { id: "R-133", rule: "A step that was running is entered again if it may be run twice, or has a memo." },
      { id: "R-134", rule: "Otherwise the run fails with INTERRUPTED, and can be restarted." },
      { id: "R-135", rule: "Every recovered run has a transition that says so." },
      { id: "R-136", rule: "No run is left without an owner, however many there are." },
      {
        id: "R-137",
        rule: "No two processes run steps of one run: an owner that was taken for dead is fenced off before it can write.",
      },
      { id: "R-138", rule: "A process that leaves takes no work, lets steps end or hands them on, and goes." },
      {
        id: "R-139",
        rule: "While the database is away no operation fails for it; results wait, and leases are spared when it is back.",
      },
      { id: "R-140", rule: "Clocks of processes change no lease, no deadline and no time-out." },
    ],
  },
  {
    title: "Times",
    rules: [
      {
        id: "R-141",
        rule: "A step has the time that it declares, from the beginning of each try on, waits included; over it, it fails with TIMEOUT.",
      },
      {
        id: "R-142",
        rule: "A wait for a machine ends with the time of silence that the step gives it, after half an hour where it gives none.",
      },
      { id: "R-143", rule: "A soft power off has 600 s." },
      { id: "R-144", rule: "A change of power, and a verification, have 60 s." },
      { id: "R-145", rule: "A stop has 600 s." },
      { id: "R-146", rule: "A call of a BMC has 30 s." },
      { id: "R-147", rule: "Holds never time out." },
      { id: "R-148", rule: "Each time-out is a timer of its own." },
    ],
  },
];
