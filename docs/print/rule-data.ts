/**
 * The rules that users can rely on. A test that holds a rule carries the rule's id at the end of its title:
 * `… [R-057]`, `… [R-057, R-058]`; test/rules.test.ts fails for a rule without a test. Ids are permanent: append new
 * rules with the next id.
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
      {
        id: "R-001",
        rule: "One table defines the allowed transitions between states; every other change is rejected.",
      },
      { id: "R-002", rule: "The database holds the same table of transitions as the code." },
      { id: "R-003", rule: "One place in the code changes the state of a node." },
      {
        id: "R-004",
        rule: "A change of state and its transition are written in one transaction: neither exists without the other.",
      },
      {
        id: "R-005",
        rule: "Every activity has the same shape (running, wait, hold, failed), and can always be aborted, be stopped, and fail.",
      },
      { id: "R-006", rule: "A waiting run is held by no process, and survives every restart." },
      { id: "R-007", rule: "A hold pauses a run on request, until it is lifted." },
      { id: "R-008", rule: "The target of a node belongs to its run, and does not change until the run ends." },
      {
        id: "R-009",
        rule: "A node lists the verbs that it would accept, and the reason against each other verb, from the same table.",
      },
      { id: "R-010", rule: "The diagrams and tables of the documentation are printed from the same table." },
      {
        id: "R-011",
        rule: "A node's stage records whether nothing, the operating system, or everything is installed; a restart uses it.",
      },
    ],
  },
  {
    title: "One machine, one node",
    rules: [
      {
        id: "R-740",
        rule: "A node with the same system of the same management controller as another one is refused, at registration and in every edit, unless it has `sharedController`. Of two such requests at the same time one wins.",
      },
      {
        id: "R-741",
        rule: "A UUID, serial number or MAC address that an inspection finds on two nodes is a conflict on both. Until it is solved, both refuse every verb that erases or installs, also with `force`.",
      },
      {
        id: "R-742",
        rule: "A run whose node gets a conflict ends before its next step that erases or installs, and no failure policy cleans the node up.",
      },
      {
        id: "R-743",
        rule: "Values that vendors give to many machines, locally administered MAC addresses, and values in `Site.sharedIdentities` identify no machine.",
      },
    ],
  },
  {
    title: "Verbs",
    rules: [
      { id: "R-012", rule: "Verbs select nodes by name, ID, filter or cluster." },
      { id: "R-013", rule: "A verb returns at once, with an operation that is already stored." },
      {
        id: "R-014",
        rule: "Each verb leads from every state that allows it to its end, through all missing phases, and is refused in every other state.",
      },
      { id: "R-015", rule: "`registerNodes` registers nodes as ENROLLED: all of them or none." },
      {
        id: "R-016",
        rule: "`discoverNodes` probes addresses and ranges with a driver, and registers the machines that answer.",
      },
      {
        id: "R-518",
        rule: "`probeNodes` reports for each address and driver whether a machine answers, its settings without secrets, its node and the abilities; it registers and stores nothing.",
      },
      {
        id: "R-519",
        rule: "`probeNodes` answers within 30 s, whatever the machines do, and a driver that fails leaves the others.",
      },
      { id: "R-017", rule: "A discovery lists the addresses without a node, so that they can be sent again." },
      { id: "R-018", rule: "`manageNodes` verifies nodes and ends in MANAGEABLE." },
      {
        id: "R-019",
        rule: "`inspectNodes` runs in place on AVAILABLE and ACTIVE nodes if the driver needs no reboot; their state does not change.",
      },
      { id: "R-020", rule: "Each inspection stores a new inventory; earlier ones are kept and can be compared." },
      { id: "R-021", rule: "`cleanNodes` runs a list of steps or a runbook, and the node ends in its previous state." },
      {
        id: "R-022",
        rule: "Automatic cleaning runs in a commission and after a tear-down, unless the site or the node disables it.",
      },
      { id: "R-023", rule: "Automatic steps are the steps with a priority above 0; the highest runs first." },
      {
        id: "R-230",
        rule: "`provideNodes` takes nodes from MANAGEABLE or CLEAN_FAILED to AVAILABLE by automatic cleaning alone, without an inspection.",
      },
      {
        id: "R-024",
        rule: "`commissionNodes` does what is missing, from any state at rest before ACTIVE; it ends in ACTIVE by default.",
      },
      {
        id: "R-025",
        rule: "By default, one failure of a commission takes all of its nodes back to AVAILABLE, or to the failed state of their clean-up.",
      },
      {
        id: "R-194",
        rule: "A clean-up that succeeds leaves the error that it follows from, until the next success of work that changes the state of the node.",
      },
      {
        id: "R-195",
        rule: "A cleaning of a node in CLEAN_FAILED ends MANAGEABLE if the failed work was to end MANAGEABLE.",
      },
      {
        id: "R-026",
        rule: "After such a failure the operation is FAILED with the first cause, and the same request can be sent again.",
      },
      {
        id: "R-785",
        rule: "A run that had succeeded or was stopped is UNDONE from the beginning of the clean-up that another node's failure causes: it is counted as such, has no progress, and a restart begins again.",
      },
      {
        id: "R-786",
        rule: "`Site.commissionOnFailure` is the failure policy of a commission that chooses none, as it was when the commission was accepted; a plan's hash covers the policy that applies.",
      },
      {
        id: "R-027",
        rule: "`deployNodes` installs from AVAILABLE and DEPLOY_FAILED, and with `reinstall` again from ACTIVE; `undeployNodes` undeploys, cleans, and ends in AVAILABLE.",
      },
      {
        id: "R-231",
        rule: "A runbook is for cleaning or for deployment; `cleanNodes` and `deployNodes` take its steps in place of a list, under the same rules.",
      },
      {
        id: "R-160",
        rule: "`commissionNodes` keeps the system of a node at stage PROVISIONED and continues after it, or refuses the node; with `from: BEGINNING` it erases the system.",
      },
      {
        id: "R-161",
        rule: "`deployNodes` refuses an ACTIVE node unless `reinstall` is set, and a plan shows for each node whether it loses data.",
      },
      {
        id: "R-162",
        rule: "A deployment without a step that reaches PROVISIONED is refused unless the node has an installed system; the site's policy must leave each driver such a step.",
      },
      {
        id: "R-163",
        rule: "The host group of a node comes from the node or from a request that deploys it, never from a variable; a run sets it only if its request asked for it.",
      },
      {
        id: "R-234",
        rule: "A node has a description of at most 1000 characters; control characters, and characters that change the direction of text, are refused.",
      },
      { id: "R-028", rule: "`decommissionNodes` continues after every failure, and always ends in DECOMMISSIONED." },
      { id: "R-029", rule: "A decommission records its failures, and the operation is then SUCCEEDED_WITH_ERRORS." },
      { id: "R-030", rule: "Every verb refuses a node that has disappeared, unless the request has `force`." },
      {
        id: "R-031",
        rule: "`redeployNodes` undeploys an ACTIVE node, cleans it and deploys it again, with another host group if requested.",
      },
      { id: "R-032", rule: "A failed cleaning ends an update." },
      {
        id: "R-033",
        rule: "`setMaintenance` sets a flag, in any state, and starts no work; until `clearMaintenance`, all verbs are refused except a change of power or boot device, an inspection, `manageNodes`, `undeployNodes` and `decommissionNodes`.",
      },
      {
        id: "R-784",
        rule: "Work that takes a node in maintenance out of service does not wait for the end of it, and checks before cleaning that the machine answers; if not, an `undeployNodes` fails, and a `decommissionNodes` ends without cleaning.",
      },
      {
        id: "R-034",
        rule: "Maintenance does not freeze a step: the step ends, and the run is PAUSED_BY_MAINTENANCE before the next one, unless it only verifies, inspects or changes power, or was requested in maintenance.",
      },
      {
        id: "R-171",
        rule: "The service sets a fault on a node whose power could not be read 3 times in a row, or whose clean-up failed, refuses the work that the fault would spoil unless `force`, and ends the fault when its cause is gone.",
      },
      {
        id: "R-720",
        rule: "A machine is left as it is, with its power, after a failure of a step that must not be interrupted, that changes firmware, or whose disks the machine erases on its own, unless the driver says that the machine has ended. The node has the fault MACHINE_BUSY, which refuses work that would touch the machine until the machine reports its end or a person forces it.",
      },
      {
        id: "R-280",
        rule: "A verification or a cleaning ends the fault of a failed clean-up as soon as its last step has succeeded, also if the run then fails, is stopped or is aborted.",
      },
      {
        id: "R-035",
        rule: "`setPower` switches on, switches off, shuts down within a timeout, and reboots, unless the node has an unfinished run.",
      },
      {
        id: "R-814",
        rule: "`setPower` with `force` changes the power of a node while a step of other work waits, whichever process dies, and is an event; the step, its callback and the end of its wait stay as they are.",
      },
      {
        id: "R-815",
        rule: "Without `force` such a node is refused with that remedy, and with it if its step must not be cut.",
      },
      {
        id: "R-232",
        rule: "`SOFT_REBOOT` shuts the system down within a timeout, cuts the power if the system ignores that, and powers on.",
      },
      {
        id: "R-233",
        rule: "`setBootDevice` and the reserved step `boot_device` set the device of the next start, or of all later ones; a driver that cannot is refused.",
      },
      { id: "R-036", rule: "A power change to the current state succeeds without a call." },
      {
        id: "R-037",
        rule: "`reportPresence` changes only the presence of the listed nodes, also during runs; it starts no work.",
      },
      {
        id: "R-038",
        rule: "An unknown node that is discovered is registered as ENROLLED; one that disappeared has a result of its own.",
      },
      { id: "R-039", rule: "A repeated report changes nothing." },
    ],
  },
  {
    title: "Admission, plans and capacity",
    rules: [
      { id: "R-040", rule: "An empty selection refuses the whole request." },
      {
        id: "R-150",
        rule: "A request that changes or plans something is refused if its filter has no condition, or a member that is null or empty. `all: true` selects all nodes.",
      },
      {
        id: "R-154",
        rule: "Requests that pick free nodes at the same moment get different ones, and each gets all that it needs, or none.",
      },
      {
        id: "R-420",
        rule: "A pick chooses only nodes that are in no cluster, unless its filter has a condition on clusters; then the filter decides.",
      },
      { id: "R-155", rule: "A pick with too few free nodes is refused with CAPACITY and their number." },
      {
        id: "R-041",
        rule: "An unknown node refuses a verb as a whole, also with BEST_EFFORT, and the unknown nodes are listed: up to 100 names, and their number.",
      },
      {
        id: "R-042",
        rule: "A node that is in the wrong state, busy, in maintenance, protected, disappeared, or without the required driver ability refuses the request, unless it has BEST_EFFORT; all such nodes are listed.",
      },
      {
        id: "R-337",
        rule: "The state of a node is judged before its presence: a node that a verb can never start on is not to be waited for or forced.",
      },
      {
        id: "R-152",
        rule: "In `errors`, nodes that are refused with the same code have one error together, with their number and the first 10 names, unknown names included; `results` has the reason of each node.",
      },
      {
        id: "R-264",
        rule: "Nodes ordered by CLUSTER are grouped by cluster, in the order of the clusters' IDs; nodes without a cluster come last.",
      },
      {
        id: "R-262",
        rule: "A deletion that is refused has one error for all nodes that are refused with the same code, and the reason of each node in `results`.",
      },
      { id: "R-043", rule: "With BEST_EFFORT the other nodes start, and each refused node has its reason." },
      {
        id: "R-044",
        rule: "Queries are lenient: they ignore unknown names, and without a filter they return all nodes.",
      },
      { id: "R-151", rule: "In queries and subscriptions, an empty list in a filter matches nothing." },
      {
        id: "R-1322",
        rule: "A time is a timestamp of RFC 3339, with its zone and a day that exists. Other texts are refused, and never read as another time.",
      },
      {
        id: "R-1321",
        rule: "A filter by two values of one label matches nothing. A request that gives an object one label twice is refused.",
      },
      {
        id: "R-045",
        rule: "A refused request writes nothing: to no node, no operation, and no result of earlier work.",
      },
      {
        id: "R-046",
        rule: "Of two overlapping requests at the same moment exactly one wins as a whole; the other is refused with BUSY and the operation in the way.",
      },
      { id: "R-047", rule: "The same idempotency key with the same input returns the same operation." },
      {
        id: "R-660",
        rule: "A request for thousands of nodes is stored as a whole or not at all, whenever the process that admits it is killed; if it was stored and not answered, its repetition with the same key returns the same operation.",
      },
      {
        id: "R-421",
        rule: "A replayed request has the nodes that were accepted, and no refusals, for verbs and restarts alike: only the first answer names refused nodes and unknown names.",
      },
      {
        id: "R-422",
        rule: "The results of a restart are in the order of the request; those of a selection by cluster, filter or `all` in the order of the names.",
      },
      { id: "R-048", rule: "The same idempotency key with another input is refused with IDEMPOTENCY_MISMATCH." },
      {
        id: "R-049",
        rule: "A dry run, or the query `plan`, returns for each node the reason of its refusal, or its steps in order.",
      },
      { id: "R-050", rule: "A dry run returns estimates and the point of no return." },
      { id: "R-051", rule: "A dry run writes nothing and calls no driver." },
      {
        id: "R-336",
        rule: "A plan shows the power of a node after a failure, and that a node whose erasures are kept loses no data.",
      },
      {
        id: "R-563",
        rule: "The summary of a plan counts each node of the request once: in a group of nodes with equal plans, or under each code with which it is refused.",
      },
      {
        id: "R-787",
        rule: "The summary of a plan has the failure policy that applies, and a sentence on what one failure means for the number of its nodes.",
      },
      {
        id: "R-564",
        rule: "The duration of a plan follows from the durations of earlier steps, waves with their pauses, `maxParallel` and the capacity limits of the site; where it is unknown, the summary says why.",
      },
      {
        id: "R-565",
        rule: "The summary of a plan names each step that changes disks, firmware or networks, with the number of nodes, and the number of nodes that lose data.",
      },
      {
        id: "R-566",
        rule: "The dry run of an abort, a stop, withdrawAbort, releaseHolds or a request about waves writes nothing, takes no lock and waits for none.",
      },
      {
        id: "R-567",
        rule: "The forecast of an abort is what the abort does to each run: when it ends, in which state run and node end, whether the power is cut, and which parts of the machine are left changed.",
      },
      { id: "R-568", rule: "The forecast of a stop is what the stop does to each run." },
      { id: "R-569", rule: "The forecasts of withdrawAbort and releaseHolds are what the requests do to each run." },
      {
        id: "R-570",
        rule: "The forecast of advanceWaves, haltWaves and resumeWaves has the state of the waves and the numbers of nodes that the request leads to.",
      },
      {
        id: "R-571",
        rule: "A forecast counts nodes, or addresses of a discovery, by effect, those that end first before the others, with the expected time of their ends.",
      },
      { id: "R-052", rule: "A request with `planHash` does exactly what the plan showed, or is refused." },
      {
        id: "R-167",
        rule: "The plan hash covers the effective variables, the host group, the failure policy and `powerOnFailure` too.",
      },
      {
        id: "R-845",
        rule: "Names of nodes, clusters, runbooks and images that differ in case only are taken: the refusal has the name that exists.",
      },
      {
        id: "R-846",
        rule: "Names are found, selected, filtered and ordered without regard to case, and shown as they were given.",
      },
      {
        id: "R-848",
        rule: "Pages of nodes by a key that does not change miss no node and repeat none; the descriptions of the other orders say that they may.",
      },
      {
        id: "R-844",
        rule: "A request that is refused because its plan has changed names what differs: the terms of the request, and of up to 50 nodes those whose state, steps, variables or power after a failure differ.",
      },
      {
        id: "R-053",
        rule: "`maxParallel` limits the nodes of an operation that are worked on at the same time; the others begin in the order of the request.",
      },
      { id: "R-054", rule: "The limit of a phase applies to the whole service." },
      { id: "R-055", rule: "The limit of management controllers applies to each of them." },
      { id: "R-056", rule: "Work above a limit is QUEUED, in order, and is never refused or lost." },
      {
        id: "R-057",
        rule: "With waves, the next group of nodes begins when the previous one has ended, after a pause, or on request.",
      },
      {
        id: "R-058",
        rule: "After more failures than allowed no further node starts until the operation is resumed; started nodes continue.",
      },
      {
        id: "R-184",
        rule: "A step whose worker is killed before the driver is called takes another worker, up to three in all.",
      },
      { id: "R-059", rule: "A node that is named twice counts once." },
      {
        id: "R-180",
        rule: "Until a worker takes a run up, the run is QUEUED and its node unchanged; an abort or a stop before that leaves the node as it was, without a call.",
      },
      { id: "R-181", rule: "A halt of the waves holds back nodes that wait for a worker, too." },
      {
        id: "R-183",
        rule: "The progress of an operation counts finished steps: work that was left undone is not progress.",
      },
      {
        id: "R-182",
        rule: "A run that waits between two phases leaves its node in the state at rest between them, where the route has one.",
      },
    ],
  },
  {
    title: "Steps",
    rules: [
      {
        id: "R-454",
        rule: "Automatic cleaning is refused if no step of the driver would run, because nothing would be erased.",
      },
      {
        id: "R-060",
        rule: "Drivers declare their steps as data: phase, priority, interruptibility, timeouts, retries, arguments, what they touch.",
      },
      { id: "R-061", rule: "A step of priority 0 runs only on request." },
      {
        id: "R-062",
        rule: "Steps run by priority, then by interface (vendor, power, management, firmware, deploy, bios, raid, inspect, clean), then in the order of their declaration.",
      },
      { id: "R-063", rule: "The site can change priorities and forbid steps." },
      {
        id: "R-064",
        rule: "Arguments are checked before anything starts, and all errors are reported at once.",
      },
      {
        id: "R-065",
        rule: "A step is done, waits for a time or a callback, or fails and states whether a retry may help.",
      },
      {
        id: "R-066",
        rule: "Any other result, and any throw, is a failure that releases the node and affects nothing else.",
      },
      { id: "R-067", rule: "Retries are limited and delayed as the step declares." },
      {
        id: "R-683",
        rule: "A step whose driver or agent has already tried again is not retried; its failure says that a restart may succeed.",
      },
      {
        id: "R-1373",
        rule: "An agent that gives up a stored image, because the service stood still for long, gets the task once more.",
      },
      {
        id: "R-068",
        rule: "A memo is stored: after a wait, or a restart of the service, the step is entered again with it.",
      },
      {
        id: "R-701",
        rule: "A step that waits is entered again when its time is over, and before that only after a callback or an interrupt.",
      },
      {
        id: "R-069",
        rule: "Power on, power off, soft power off, reboot, wait and hold are the service's own steps, and work in every list.",
      },
      {
        id: "R-070",
        rule: "The steps of a run are visible before, during and after it, with attempts, progress and the tail of their log.",
      },
      { id: "R-071", rule: "A callback is valid for one wait of one run. Any other is recorded and changes nothing." },
      {
        id: "R-072",
        rule: "A driver that hangs, blocks, exits or runs out of memory affects only its own step, and is killed if it does not end.",
      },
      {
        id: "R-211",
        rule: "A failure has the kind with which the driver classified it, and quotes an invalid result.",
      },
      {
        id: "R-212",
        rule: "A driver connects to no address that a caller wrote outside the networks of OSTLER_BMC_NETWORKS; without it, to none on loopback, links, groups and the metadata of clouds.",
      },
      {
        id: "R-760",
        rule: "A file that a caller names is fetched, by the driver or the BMC, only from the service's own listener, the server of a registered image or a server of OSTLER_FILE_SERVERS; other URLs are refused with the request, and before the call if their name leads elsewhere.",
      },
      {
        id: "R-312",
        rule: "A host name in an address is resolved once for a call. All its addresses are checked, and the driver connects to these.",
      },
      {
        id: "R-213",
        rule: "The service's token, database credentials and master keys are neither in the environment of a driver's process nor in `/proc` of the service, nor can a plugin read them that a command loads.",
      },
      {
        id: "R-680",
        rule: "Core dumps of the service and of the programs that it starts contain no memory.",
      },
      {
        id: "R-311",
        rule: "The service reads its token from a variable or from a file, and does not start with both, an empty one, or a file that it cannot read.",
      },
      {
        id: "R-310",
        rule: "Secrets of settings are masked in every text of a driver: as they are, and as encoded in JSON, URLs, forms, HTML, source code, Base64 and hexadecimal, up to three times over.",
      },
      {
        id: "R-831",
        rule: "The secret in the URL of a virtual medium is masked in the same way in what drivers and BMCs answer.",
      },
      {
        id: "R-832",
        rule: "Texts of drivers, machines and agents are stored without terminal sequences, control characters but line breaks, and invisible characters, which requests refuse in reasons, notes and labels.",
      },
      {
        id: "R-884",
        rule: "Joiners (U+200C, U+200D) are kept after letters of scripts whose spelling needs them, and between emoji; elsewhere they are invisible characters.",
      },
      { id: "R-214", rule: "A plugin with another content than its pinned hash is refused." },
      {
        id: "R-215",
        rule: "The embedded database requires a password that is in its data folder, which drivers without the permission FILES or PROGRAMS cannot read.",
      },
      {
        id: "R-715",
        rule: "A driver without the permission FILES cannot signal a service that runs as root: its process has another user, and still ends with the service.",
      },
      {
        id: "R-210",
        rule: "A process in which a call has left open files, much memory or changed globals, or in which a call lacked files or memory, receives no further call.",
      },
      {
        id: "R-653",
        rule: "A worker process loads no code that validates settings: the service has done that before each call.",
      },
      {
        id: "R-330",
        rule: "The processes of each driver have a compile cache of their own, also if NODE_COMPILE_CACHE is set for the service.",
      },
    ],
  },
  {
    title: "Host groups",
    rules: [
      {
        id: "R-1085",
        rule: "The host groups of a cluster are checked when they are stored: unknown names, a group after itself, cycles with their path, and wrong numbers, all at once.",
      },
      {
        id: "R-1346",
        rule: "A variable of a host group that is an output of a group which it does not come after is refused, also if the variable stays and only the order changes.",
      },
      {
        id: "R-1086",
        rule: "A node begins a deployment when the nodes that its host group comes after are ACTIVE, and holds no slot meanwhile.",
      },
      { id: "R-1087", rule: "Nodes that were ACTIVE before a request count, as far as the request leaves them alone." },
      {
        id: "R-1088",
        rule: "A node whose host group can come after enough nodes neither of the cluster nor of the request is refused with GROUP_REQUIRED, and so are those after it.",
      },
      { id: "R-1089", rule: "Waves are formed host group by host group, so that none waits for a later one." },
      {
        id: "R-1090",
        rule: "Waiting nodes whose host group can no longer begin are STOPPED and name the failed ones; a restart continues them.",
      },
      { id: "R-1091", rule: "A node waits for nodes of its cluster that another operation deploys, too." },
      { id: "R-1092", rule: "Failures that a host group tolerates let the other nodes go on." },
      {
        id: "R-1093",
        rule: "One failure beyond the tolerance lets running steps end and stops the rest; the operation is FAILED with TOLERANCE_EXCEEDED and the cause.",
      },
      {
        id: "R-1094",
        rule: "In a host group that tolerates no failure, one ends the operation with CRITICAL_NODE_FAILED.",
      },
      { id: "R-1095", rule: "For host groups with a tolerance, CLEAN_UP_ALL acts only beyond it." },
      {
        id: "R-1096",
        rule: "Every verb that takes a node out of service keeps `minActive` of its host group, unless it is forced with a reason.",
      },
      { id: "R-1097", rule: "Requests at the same time never take more nodes out of service than a budget allows." },
      { id: "R-1098", rule: "Nodes beyond a budget wait if nodes of the same request return first." },
      { id: "R-1099", rule: "To undeploy or decommission all ACTIVE nodes of a cluster passes every budget." },
      { id: "R-1100", rule: "A budget that is violated already blocks only what makes it worse." },
      {
        id: "R-1101",
        rule: "Nodes that wait for a budget are STOPPED with LAST_OF_GROUP when none returns any longer.",
      },
      { id: "R-1102", rule: "An operation in a cluster without host groups reads and locks nothing for them." },
      {
        id: "R-1103",
        rule: "A variable of a host group can be an output of an earlier one: of the first ACTIVE node by name that has it, fixed when a node begins; a secret one is stored encrypted and shown nowhere.",
      },
      {
        id: "R-1104",
        rule: "An output that no driver declares refuses the plan, and one of a host group that does not come before is refused when it is stored.",
      },
      { id: "R-1105", rule: "A node fails before its first step if no node has an output that it takes." },
      { id: "R-1292", rule: "A run that waits for host groups has the numbers of needed and present nodes as data." },
      {
        id: "R-1293",
        rule: "A plan has the host groups in the order in which their nodes begin, with the numbers of nodes that each waits for.",
      },
    ],
  },
  {
    title: "Erasures",
    rules: [
      {
        id: "R-750",
        rule: "An erasure that left out a disk that is not a medium of the BMC, or found none, fails with the reason. A node that operators call `diskless` may have none.",
      },
      {
        id: "R-751",
        rule: "An erasure fails that has not seen a disk which the newest inspection of any driver of the node has reported, and names it.",
      },
      {
        id: "R-752",
        rule: "A disk of an inspection is recognized by serial number or WWN, however the sources write them, and without both by count and size.",
      },
      {
        id: "R-753",
        rule: "The site's policy, or an argument of the step, can let disks keep their data. A step that declares an erasure always needs an account of the disks.",
      },
      {
        id: "R-754",
        rule: "A clean step that does not declare an erasure needs no account of the disks.",
      },
    ],
  },
  {
    title: "Drivers of a node",
    rules: [
      {
        id: "R-371",
        rule: "A step inserts and ejects media through the driver that gives its node the interface `media`.",
      },
      {
        id: "R-373",
        rule: "A variable that no driver reads is refused if its name is close to one that is read and has no value.",
      },
      {
        id: "R-374",
        rule: "With `unknownVariables: WARN`, or if the similar variable has a value, it is a warning of the plan.",
      },
      { id: "R-375", rule: "A variable that is like none that is read is a warning, and a refusal with `REFUSE`." },
      { id: "R-376", rule: "A driver receives only the variables that it declares." },
      {
        id: "R-377",
        rule: "A variable whose value does not match the schema of a driver of the plan is refused before anything starts.",
      },
      {
        id: "R-1080",
        rule: "Variables have levels: site, cluster, host group, node, request. By name a later level wins, and null in a request removes the variable. A plan and `effectiveVariables` name the level of each value.",
      },
      {
        id: "R-1081",
        rule: "The variables of a host group are those of the group of that name in the node's own cluster; a request that sets the host group takes that group's.",
      },
      { id: "R-1082", rule: "`unknownVariables` covers all levels, and a refusal names the level." },
      { id: "R-1083", rule: "Secret variables of every level are stored encrypted and masked wherever they are read." },
      {
        id: "R-1084",
        rule: "Variables that are not an object, that set `host_group`, that have the mask of a secret or that are too large are refused at every level with their path.",
      },
      {
        id: "R-434",
        rule: "The variables of nodes are checked apart if their drivers differ, further drivers included.",
      },
      {
        id: "R-378",
        rule: "Steps of equal priority run in the order of their groups: vendor, management, firmware, bios, raid, storage. A step without a group has the place of its interface.",
      },
      {
        id: "R-380",
        rule: "The next driver of an interface is tried if the one before is unreachable or lacks the ability; the attempt of the step has each call.",
      },
      { id: "R-381", rule: "No other driver is tried after the machine has answered, also with a refusal." },
      { id: "R-382", rule: "After a timeout, another driver repeats a read, and a change only if it had no effect." },
      { id: "R-383", rule: "Virtual media have further drivers as power has." },
      {
        id: "R-384",
        rule: "Five failures in a row open the circuit of a controller; calls then fail at once with the reason and the time of the next probe.",
      },
      {
        id: "R-385",
        rule: "After its delay, an open circuit lets one call through. An answer closes it; a failure doubles the delay.",
      },
      {
        id: "R-435",
        rule: "`readNodes` returns what a machine reports, with the driver that answered; a failure of one read leaves the others.",
      },
      {
        id: "R-436",
        rule: "What a driver reads of a machine is checked: an address of a console with credentials, a password of the BIOS and values of other types are not returned.",
      },
      {
        id: "R-437",
        rule: "`setBootDevice` passes the boot mode and the device HTTP to the driver, as a verb and as a step.",
      },
      { id: "R-386", rule: "Calls to a BMC whose circuit is open hold no slot and contact no machine." },
      {
        id: "R-430",
        rule: "A plugin's name is looked up among the bundled plugins, then in the plugin folder, then among packages.",
      },
      { id: "R-431", rule: "The path of a plugin can be that of a folder: its package's main module, or its index." },
      {
        id: "R-432",
        rule: "A package that is installed in the folder in which the service is started can be named as a plugin.",
      },
      {
        id: "R-806",
        rule: "The conformance suite names what a driver or its machine does not support, in place of a pass; it sets boot devices with their modes, and erases a machine without drives.",
      },
      { id: "R-433", rule: "A driver made from the template of `ostler-driver` passes the conformance suite." },
    ],
  },
  {
    title: "In-band agent",
    rules: [
      {
        id: "R-490",
        rule: "The driver `agent` boots its agent as the setting `boot` says, from the network where a BMC has no virtual media, and not again while it is alive. A step that needs it boots it.",
      },
      {
        id: "R-491",
        rule: "A boot of the agent that takes too long fails with the last that was seen of the machine, and what to look at.",
      },
      {
        id: "R-492",
        rule: "An inspection from within gives only what the machine reports, in the terms of all drivers.",
      },
      {
        id: "R-493",
        rule: "An image that does not fit the node, or that does not call home where the node requires it, is refused before anything is written.",
      },
      {
        id: "R-494",
        rule: "An error of the agent becomes a failure with its kind, whether it is retried, and the remedy.",
      },
      {
        id: "R-495",
        rule: "A step fails when its agent is lost, and goes on with an agent that was only out of sight while the service was away.",
      },
      {
        id: "R-496",
        rule: "User data, and the secrets in the addresses of medium, image and call home, appear in no memo, output, log, progress or message.",
      },
      {
        id: "R-497",
        rule: "A machine is started from its disk once, without a medium. One that runs the installed system is not switched off by a process that continues the step.",
      },
      {
        id: "R-498",
        rule: "A deployment through the agent ends when the installed system has called home, or at once if its image does not and the node does not require it.",
      },
      {
        id: "R-804",
        rule: "In mode UEFI a machine with several disks is started by the boot entry of the installed system, and not by a boot device, which would be the firmware's first disk.",
      },
      {
        id: "R-499",
        rule: "A process that dies at any point of an agent's step leaves nothing that the next one does not continue.",
      },
      { id: "R-810", rule: "The service and the agent choose the same root disk, in each case of one table." },
      {
        id: "R-811",
        rule: "A node that the agent installs is inspected by its BMC and by the agent, unless it is in service, and each leaves an inventory.",
      },
      {
        id: "R-812",
        rule: "A commission whose inspection finds no root disk, several, or one that is too small fails before anything is erased, and is not cleaned up.",
      },
      {
        id: "R-813",
        rule: "A plan shows the root disk that the agent has found and why it is chosen, or refuses the node; its hash covers the disk.",
      },
    ],
  },
  {
    title: "IPMI",
    rules: [
      { id: "R-450", rule: "Sensors that measure have their critical limits." },
      { id: "R-451", rule: "The newest 100 entries of the event log are read, and `clear_logs` clears it." },
      { id: "R-452", rule: "A BMC lacks the abilities that need a device which it does not have." },
      { id: "R-453", rule: "The boot device is read back from the boot flags." },
      {
        id: "R-1301",
        rule: "A boot device by IPMI is kept for more than 60 seconds and read back; one that differs is set once more, and then fails.",
      },
      { id: "R-455", rule: "A timeout before a power change is marked as one without effect." },
    ],
  },
  {
    title: "Redfish",
    rules: [
      {
        id: "R-520",
        rule: "`update_firmware` ends with the versions that the machine reports; a version that the request names has to be among them.",
      },
      {
        id: "R-390",
        rule: "Power is switched by the reset types that the machine offers; a request for the state that it is in changes nothing.",
      },
      {
        id: "R-391",
        rule: "A boot device is set for the next start or for every start, in the requested boot mode, and read back; what differs is sent once more in full.",
      },
      {
        id: "R-930",
        rule: "A boot device is set again, within the time of its step and for up to a minute, while the BMC answers 502, 503 or 504.",
      },
      {
        id: "R-834",
        rule: "Settings of BMCs and agents that could not work, such as an address with a port or a name server without an address, are refused when they are stored.",
      },
      {
        id: "R-833",
        rule: "A collection of a BMC is read for 200 pages at most, also if its pages are empty.",
      },
      {
        id: "R-392",
        rule: "Inspection reads the machine through its BMC; what cannot be read stands in `unread` with its reason, and only the system itself must be readable.",
      },
      {
        id: "R-850",
        rule: "A member of a collection that is listed without its values, or counted and not listed, is read by its own link; an error with status 200 is an error.",
      },
      {
        id: "R-852",
        rule: "`secure_erase` takes two drives for one only by a serial number that means something, and fails if a controller has drives that it does not list.",
      },
      {
        id: "R-851",
        rule: "A task is followed wherever the BMC's answer names it, whatever its status.",
      },
      {
        id: "R-780",
        rule: "A refused change is sent again as the BMC's messages require: with or without parameters, at another resource, after the self-test, with another ETag; what is so already is done.",
      },
      {
        id: "R-805",
        rule: "A reboot ends when the machine is on again, also where the BMC first shows for a time that it is still on.",
      },
      {
        id: "R-1310",
        rule: "A task of a BMC that waits for a restart of the machine gets it, once, when nothing else goes on.",
      },
      {
        id: "R-1311",
        rule: "A BMC that refuses a read because it is not ready is away, whatever the status of its answer.",
      },
      {
        id: "R-1308",
        rule: "An inspection reads numbers that are texts, and texts that are numbers; memory of 0 GiB is the sum of the modules.",
      },
      {
        id: "R-1309",
        rule: "MAC addresses of an inspection have six octets and colons; others, and zeros, are left out, and where no Ethernet interface has one those of the adapters are taken.",
      },
      {
        id: "R-1305",
        rule: "A session is renewed whatever status and body its end is reported with.",
      },
      {
        id: "R-1306",
        rule: "A read survives a connection that breaks once, an answer in gzip, a list that cannot be expanded, and a 429 or 503 that names its time.",
      },
      {
        id: "R-1307",
        rule: "A failure of a BMC's encryption or certificate is reported by its kind, each with its own remedy.",
      },
      {
        id: "R-1302",
        rule: "A medium counts as inserted and as ejected by what the drive reports, not by the name of an image; a drive that refuses it is passed over for the next, and drives of another system are not used.",
      },
      {
        id: "R-1303",
        rule: "A UUID or a serial number that stands for no value identifies no machine.",
      },
      {
        id: "R-1304",
        rule: "An inspection leaves out texts that stand for no value.",
      },
      {
        id: "R-1300",
        rule: "A change of power that a BMC accepts and does not make, or refuses in its present state, is requested again until the time limit, unless that would take it back.",
      },
      {
        id: "R-802",
        rule: "A medium that was not fetched after the start from it is started once more by the other boot source of the BMC for it, such as `UsbCd` in place of `Cd`.",
      },
      {
        id: "R-803",
        rule: "`HttpBootUri` is set beside `UefiHttp` where the system has it, and boot sources are those that the written resource accepts.",
      },
      {
        id: "R-800",
        rule: "Of a BMC with several systems the node is the only one that can boot. Where several can, the setting `system` names one, and a discovery has a result for each.",
      },
      {
        id: "R-1324",
        rule: "Boards of GPUs and DPUs that a BMC lists as systems are neither chosen nor asked beside a server, also where they fail.",
      },
      {
        id: "R-1325",
        rule: "Where a manager has a boot source of its own for a virtual CD, a medium is started by it first, and then by `Cd`.",
      },
      {
        id: "R-1326",
        rule: "A task that shows 100 %, but no end, for five minutes counts as one that the BMC has forgotten: the machine shows what became of it.",
      },
      {
        id: "R-1327",
        rule: "A change of a resource that the BMC answers with an error of its own is read back and sent again; the agent has a boot device set while the machine is on where it is refused while it is off.",
      },
      {
        id: "R-1328",
        rule: "A boot source that a BMC keeps for every start is accepted for one start, with a line in the log.",
      },
      {
        id: "R-1329",
        rule: "A drive that shows a medium which is not connected is empty.",
      },
      {
        id: "R-1330",
        rule: "A request that is answered with 303 and a path of the service was made, and is followed there.",
      },
      {
        id: "R-1331",
        rule: "BIOS attributes that are numbers or truth values are so for the driver too where the BMC gives them as texts.",
      },
      {
        id: "R-1332",
        rule: "Control characters in a BMC's texts do not make its answer unreadable.",
      },
      {
        id: "R-1333",
        rule: "A system without any value, or a BMC that lists none, fails as one that may be asked again.",
      },
      {
        id: "R-1334",
        rule: "A system with another serial number and another UUID than before is refused until an inspection has read it, as far as the process remembers.",
      },
      {
        id: "R-393",
        rule: "What a machine does not offer fails as UNSUPPORTED with what it offers; one that does not say what it offers is asked.",
      },
      {
        id: "R-394",
        rule: "One session serves many calls in many processes, and a new one is opened when the BMC has ended it.",
      },
      { id: "R-395", rule: "A BMC without free sessions is sent the password with each request, if it accepts that." },
      {
        id: "R-396",
        rule: "The certificate of a BMC is checked by an authority or a fingerprint before anything is sent.",
      },
      {
        id: "R-397",
        rule: "An answer that is malformed, too large, or redirects to another host ends the call with one clear error.",
      },
      {
        id: "R-398",
        rule: "A BMC that accepts connections and does not answer is a TIMEOUT, with the statement whether it may have had an effect.",
      },
      { id: "R-399", rule: "The address of an image appears in no error and in no log." },
      {
        id: "R-400",
        rule: "BIOS settings are in effect when their step ends; they are sent once, and once more if the machine then reports others.",
      },
      {
        id: "R-401",
        rule: "BIOS settings are checked against the machine's registry, and nothing is changed if one does not fit.",
      },
      {
        id: "R-402",
        rule: "Firmware is updated component by component, and verified by the version that the machine reports.",
      },
      {
        id: "R-403",
        rule: "`secure_erase` erases every drive, wherever the BMC lists it, and accounts for each; or it fails and erases none, if one does not offer it or cannot be read, or if the BMC lists none.",
      },
      {
        id: "R-404",
        rule: "At each moment of a change of the BMC's password, the old or the new one logs in, and the driver finds out which.",
      },
      { id: "R-405", rule: "Every read path works on recordings of BMCs, and reports what it could not read." },
      {
        id: "R-770",
        rule: "A machine is not switched off or restarted while its BMC writes firmware, applies BIOS settings, erases drives or removes volumes, whatever answers in place of the task.",
      },
      {
        id: "R-771",
        rule: "A change whose answer is lost counts as received: a second update is not sent, and the step continues by what the machine reports.",
      },
      {
        id: "R-772",
        rule: "A failed step says that the machine is at rest exactly if the BMC was asked for nothing, has refused it, or has reported the end.",
      },
      {
        id: "R-773",
        rule: "The work of a machine that must not be cut is read from its update service, tasks, jobs and drives, and is unknown if one of them cannot be read.",
      },
    ],
  },
  {
    title: "Abort",
    rules: [
      { id: "R-073", rule: "An abort is recorded, and each node is answered at once according to its own situation." },
      {
        id: "R-153",
        rule: "Abort, stop, releaseHolds and withdrawAbort accept the nodes that they can, and name the others, unless the request has ALL_OR_NOTHING.",
      },
      { id: "R-074", rule: "An abort of a node without an unfinished run is refused with NOTHING_RUNNING." },
      {
        id: "R-075",
        rule: "An abort of a run that is parked in a step that can be canceled, on hold, or between two attempts, ends it at once.",
      },
      {
        id: "R-076",
        rule: "An abort during a running step that can be canceled fires the driver's signal and ends the run at once.",
      },
      {
        id: "R-077",
        rule: "An abort during a step that ends at its boundary, running or parked, is PENDING, and names the step for which it waits.",
      },
      {
        id: "R-078",
        rule: "An abort during a step that must not be interrupted is refused with NOT_INTERRUPTIBLE; with `mode: AFTER_STEP` it is PENDING.",
      },
      {
        id: "R-192",
        rule: "An abort with `mode: CUT` cancels a step that ends at its boundary at once, but none that must not be interrupted.",
      },
      {
        id: "R-193",
        rule: "An abort with `mode: FORCE` ends the run at once in every state, undoes nothing, and reports the condition of the node as unknown.",
      },
      {
        id: "R-263",
        rule: "A forced abort kills the process of the driver's call at once, without a grace period, so that nothing runs beside the next work on the node.",
      },
      { id: "R-079", rule: "An abort in a phase that the driver cannot abort is refused with UNSUPPORTED_BY_DRIVER." },
      { id: "R-080", rule: "A repeated abort returns the same answer." },
      {
        id: "R-081",
        rule: "In an abort the driver undoes the step, and a node that was being cleaned or deployed is powered off by default; the node ends in a failed state with the error ABORTED, and its target is cleared.",
      },
      {
        id: "R-191",
        rule: "The final failure of a step, or its timeout, is carried out on the machine like an abort; until that has ended the node takes no other work.",
      },
      {
        id: "R-722",
        rule: "An abort that is accepted ends the run ABORTED with the power as asked, also if the step has failed meanwhile and is being undone; `powerOff: true` of a repeated abort is obeyed. Only a machine that must not be cut keeps its power.",
      },
      {
        id: "R-082",
        rule: "The state after an abort does not wait for the machine to confirm, and a failed abort clean-up does not delay it.",
      },
      { id: "R-083", rule: "An abort during the last step ends as an abort, never as a success." },
      {
        id: "R-084",
        rule: "The result of an abort reports how the node was left (power, disks, firmware and network), as declared by its steps.",
      },
      { id: "R-085", rule: "Power changes are refused with BUSY during every unfinished run, cleaning included." },
      {
        id: "R-086",
        rule: "A pending abort can be withdrawn until the step has ended; the work then continues as if it had not been requested.",
      },
    ],
  },
  {
    title: "Stop and restart",
    rules: [
      { id: "R-087", rule: "A stop applies to an operation, a cluster, or nodes." },
      {
        id: "R-088",
        rule: "After a stop no new step starts; running ones end, and their actual result is kept. A step that fails is not retried.",
      },
      { id: "R-089", rule: "A stopped node whose work is all done succeeds; it is never STOPPED." },
      { id: "R-090", rule: "A stopped node whose step failed is failed." },
      { id: "R-091", rule: "A stopped node with work left is STOPPED." },
      {
        id: "R-092",
        rule: "A stopped node that never began is in its previous state, without a call; its run is STOPPED.",
      },
      { id: "R-093", rule: "A stop does not affect nodes outside the operation." },
      { id: "R-094", rule: "A stopped operation is STOPPING, and STOPPED when the last running step has ended." },
      {
        id: "R-095",
        rule: "Work that exceeds the timeout of the stop fails with STOP_TIMEOUT, and can be restarted.",
      },
      { id: "R-096", rule: "A second stop returns the same operation." },
      {
        id: "R-097",
        rule: "A stop that coincides with the end stops the operation or is refused with NOTHING_RUNNING, and never hangs.",
      },
      { id: "R-098", rule: "An abort is possible while an operation is STOPPING." },
      {
        id: "R-099",
        rule: "A restart of an operation, a cluster or nodes is a new operation for stopped, failed or aborted work, and refers to the work that it restarts.",
      },
      { id: "R-100", rule: "A restart uses the settings as they are now." },
      {
        id: "R-101",
        rule: "A restart from STAGE, the default, does not reinstall an installed system, and runs the steps of the unfinished stage again, except for erasures that succeeded.",
      },
      {
        id: "R-164",
        rule: "A restart takes up each node by its own earlier request, with one operation for each such request; a node that it cannot take up is refused alone, unless `acceptance` is ALL_OR_NOTHING.",
      },
      {
        id: "R-335",
        rule: "A restart by names or IDs refuses each unknown one alone, unless `acceptance` is ALL_OR_NOTHING; `errors` has all of them.",
      },
      {
        id: "R-261",
        rule: "A restart of several operations that made the same request is one operation, and `restartOf` lists all of them.",
      },
      {
        id: "R-165",
        rule: "A restart keeps the failure policy, the waves with `maxFailures`, and the `maxParallel` of the earlier request; a given value replaces one, and null drops it.",
      },
      {
        id: "R-166",
        rule: "A restart keeps the variables of the earlier request unless `keepVariables` is false, and a plan shows the source of each variable.",
      },
      {
        id: "R-168",
        rule: "A restart keeps an erasure that succeeded, until a system is installed, unless its step declares `repeatOnRestart`.",
      },
      { id: "R-102", rule: "A restart from UNFINISHED_STEP keeps the steps that succeeded." },
      { id: "R-103", rule: "A restart from BEGINNING runs everything again." },
      { id: "R-104", rule: "A restart leaves ACTIVE nodes alone." },
      { id: "R-105", rule: "Nothing left behind by a stop, an abort, a refusal or a crash blocks a restart." },
      { id: "R-106", rule: "A restart without anything to do is refused with NOTHING_TO_RESTART." },
      {
        id: "R-107",
        rule: "The settings and members of a cluster can be changed unless an operation on it is deploying or stopping; then every change is refused with CLUSTER_LOCKED, the registration and deletion of members included.",
      },
    ],
  },
  {
    title: "Cluster states",
    rules: [
      {
        id: "R-108",
        rule: "The state of a cluster is derived from its nodes and the work on them; the first matching rule of this section decides.",
      },
      {
        id: "R-109",
        rule: "A cluster is REMOVING if nodes are being undeployed or decommissioned and no other work is unfinished.",
      },
      { id: "R-110", rule: "A cluster is STOPPING if a stop was requested." },
      { id: "R-111", rule: "A cluster is DEPLOYING if an operation is in progress." },
      { id: "R-112", rule: "A cluster is NEW if it has no nodes, or none past AVAILABLE." },
      { id: "R-113", rule: "A cluster is OPERATIONAL if all nodes are ACTIVE." },
      { id: "R-114", rule: "A cluster is PARTIALLY_DEPLOYED if some nodes are ACTIVE or at stage PROVISIONED." },
      {
        id: "R-115",
        rule: "A cluster is STOPPED if any node is STOPPED, else ERROR if any node has failed, else NEW.",
      },
      { id: "R-116", rule: "A dry run never changes the state of a cluster." },
      {
        id: "R-1345",
        rule: "A node that a change of a cluster both adds and removes is refused by name, together with all other nodes that are in the way, and nothing changes.",
      },
      {
        id: "R-1347",
        rule: "A stopped run has the step before which it stopped as its current step.",
      },
      {
        id: "R-260",
        rule: "The operations of a cluster are those that were requested for it, and those on nodes that were members of it when the operation was accepted, selected in any way.",
      },
    ],
  },
  {
    title: "Events",
    rules: [
      {
        id: "R-290",
        rule: "A request that fails because the database does not answer, or its connection was lost, gets the retryable code DATABASE_UNAVAILABLE. Slow queries that occupy all connections for requests do not count as an unavailable database.",
      },
      {
        id: "R-825",
        rule: "A statement that a hanging database did not serve, also one that waited for a connection, is DATABASE_UNAVAILABLE, and not TIMEOUT.",
      },
      {
        id: "R-185",
        rule: "All that a query reads is of one moment: a node and its run, or a list and its count, fit together. The query `plan` is an exception.",
      },
      {
        id: "R-291",
        rule: "All that the execution of a stream's item reads is of one moment. Items that are executed at the same time share its transaction, and an item that reads nothing needs none.",
      },
      {
        id: "R-292",
        rule: "The payload of a mutation is of one moment, after the work of its root field; a request that also selects the query `plan` is an exception.",
      },
      {
        id: "R-117",
        rule: "Transitions form one log whose positions follow the order of commits without gaps: once a reader has seen a position, no new row appears at or below it.",
      },
      {
        id: "R-118",
        rule: "A stream resumes from any cursor: it replays, reports once that it has caught up, and is live; no item is missing or repeated.",
      },
      {
        id: "R-119",
        rule: "A snapshot delivers every matching node as of one position, then everything after that position, without a gap in between.",
      },
      {
        id: "R-120",
        rule: "A stream is never silent for longer than ten seconds: a bookmark then reports its position, even if nothing matches.",
      },
      {
        id: "R-121",
        rule: "A cursor that is older than the retained log, or belongs to no log, is answered with CURSOR_EXPIRED and the earliest valid cursor.",
      },
      { id: "R-122", rule: "Retention deletes the beginning of the log, in batches, without leaving a gap." },
      { id: "R-124", rule: "Progress and logs of steps are available as streams." },
      { id: "R-125", rule: "A subscription to an object that does not exist is refused." },
      {
        id: "R-126",
        rule: "A slow reader costs a limited number of items, delays no other reader, and can resume; if items were deleted in the meantime, it receives TOO_SLOW.",
      },
      {
        id: "R-203",
        rule: "Items of a stream that are ready at the same time leave in one write to the connection; a stream reads ahead of its client by 64 KiB at most.",
      },
      {
        id: "R-204",
        rule: "Streams that catch up read one page at a time in the whole process, in order; while the process writes, they get a sixth of the time.",
      },
      {
        id: "R-205",
        rule: "Each execution of an event counts its cost against a budget of the connection; beyond it, the events of that connection are delayed, and none is lost.",
      },
      { id: "R-127", rule: "A stream ends at once when its client disconnects, and leaves nothing behind." },
      {
        id: "R-221",
        rule: "A cursor identifies its log: after a restore to an earlier moment, a cursor from after that moment is answered with CURSOR_EXPIRED, even when the log has grown past its position; an older one resumes.",
      },
      { id: "R-128", rule: "A process that shuts down notifies its streams, with the cursor to resume from." },
      {
        id: "R-240",
        rule: "A shutdown does not complete streams: their connections close in a way on which clients of graphql-ws and graphql-sse subscribe again.",
      },
      {
        id: "R-535",
        rule: "Every change of a visible column of a node, cluster, operation or run is recorded with the field that it belongs to, whatever statement made it; a change of nothing visible is not.",
      },
      { id: "R-536", rule: "The log of changes contains no secrets and no settings." },
      {
        id: "R-537",
        rule: "Changes get positions without holes after their commit, for each object in the order of its commits; numbering that is killed loses nothing.",
      },
      {
        id: "R-538",
        rule: "`nodeChanges` emits every visible change of a matching node, with the fields that changed and the node as it is then or later.",
      },
      { id: "R-539", rule: "All changes of a node on a page of the log of changes are one item." },
      {
        id: "R-540",
        rule: "A node that stops matching, or is deleted, is emitted as `NodeLeft` to the streams whose filter it matched before, also after a break and if it changed again.",
      },
      {
        id: "R-541",
        rule: "A cursor of changes that is expired, of the future or of another log is answered with CURSOR_EXPIRED; a cursor of another kind of stream is refused.",
      },
      {
        id: "R-542",
        rule: "A reader of `nodeChanges` that is cut at any item and resumes on any replica has exactly the matching nodes in the end, and no node goes back.",
      },
      {
        id: "R-671",
        rule: "A change of any field of a node is an item of `nodeChanges` with the field and its new value, except those that docs/changes.md names.",
      },
      {
        id: "R-690",
        rule: "A client of the streams of changes that is cut at any time and resumes by its last cursor, or begins again with a snapshot, has what the lists have, field by field; no revision goes back, and no object leaves that matches.",
      },
      {
        id: "R-692",
        rule: "A hundred streams of changes on one socket, each with a filter of its own, receive what matches; one more is refused with CAPACITY, and the others continue.",
      },
      {
        id: "R-693",
        rule: "Many changes for many streams are delivered in turns of some milliseconds, between which other requests are answered.",
      },
      {
        id: "R-706",
        rule: "What the execution of an event logs has the request id of its subscription, whatever request wrote the change.",
      },
      {
        id: "R-694",
        rule: "A reader of a stream of changes that stops reading continues where it was when it reads on, or is disconnected and resumes with its cursor; it misses nothing, and delays no others.",
      },
      {
        id: "R-699",
        rule: "A reader of a stream of changes that is far behind receives each object once for up to 50,000 changes, with all fields that changed.",
      },
      {
        id: "R-700",
        rule: "A reader that is far behind, cut at any item and with any filter, has exactly the matching objects in the end: also a node that matched for a moment only leaves, and no object goes back.",
      },
      { id: "R-129", rule: "WebSocket and server-sent events deliver the same items." },
      { id: "R-130", rule: "A cursor is valid at every replica." },
    ],
  },
  {
    title: "Crashes",
    rules: [
      { id: "R-131", rule: "A process may die at any instruction without losing acknowledged data." },
      {
        id: "R-132",
        rule: "Another process resumes every run of a dead process within the lease time, or the same process does after it starts.",
      },
      {
        id: "R-220",
        rule: "With the embedded database, a service that was killed continues its runs as soon as it is started again, without waiting for its leases.",
      },
      {
        id: "R-222",
        rule: "A replica that is suspended before its commit blocks the transitions of other replicas for five seconds at most.",
      },
      {
        id: "R-270",
        rule: "A suspended replica blocks them for one such time only, however many of its writers wait for the log.",
      },
      { id: "R-133", rule: "A step that was running is entered again if it is idempotent or has a memo." },
      {
        id: "R-134",
        rule: "If its running step is not idempotent and has no memo, the run fails with INTERRUPTED, and can be restarted.",
      },
      {
        id: "R-713",
        rule: "A step in which three processes have ended without an outcome in between fails with INTERRUPTED, and can be restarted. The shutdown of a process does not count.",
      },
      {
        id: "R-714",
        rule: "An abort clean-up in which three processes have ended is not called again: the run ends, and its failure or `leftAs` says so.",
      },
      {
        id: "R-190",
        rule: "An abort of such a run, requested before or after the process died, is carried out instead: the run ends ABORTED.",
      },
      { id: "R-135", rule: "Every recovered run has a transition that records the recovery." },
      { id: "R-136", rule: "A run that waits for nothing else is executed or due, at every moment." },
      {
        id: "R-137",
        rule: "No two processes execute steps of one run: an owner that was considered dead is fenced before it can write.",
      },
      { id: "R-138", rule: "A process that shuts down claims no work, lets steps end or releases them, and exits." },
      {
        id: "R-139",
        rule: "No operation fails because the database is unavailable; results wait, and leases do not expire because of the outage.",
      },
      { id: "R-140", rule: "Clocks of processes affect no lease, no deadline and no timeout." },
      {
        id: "R-223",
        rule: "A clock of the database that is set back or forward while a replica runs, or back while none does, delays no parked run and ends no step early.",
      },
    ],
  },
  {
    title: "Plans of statements",
    rules: [
      {
        id: "R-645",
        rule: "The engine's own statements read no table as a whole that holds finished work, and compare no two lists pair by pair, with plans that are made without the values.",
      },
      {
        id: "R-646",
        rule: "A transaction that sends a list of more than 100 values has its statements planned for their values.",
      },
      {
        id: "R-712",
        rule: "A statement of the engine that was planned while its table was empty finds rows by index when the table is large.",
      },
    ],
  },
  {
    title: "Memory",
    rules: [
      {
        id: "R-697",
        rule: "A pool of connections to the database uses the connection that was used last, and closes one that has been unused for 10 s.",
      },
      { id: "R-698", rule: "The page of GraphiQL is loaded when it is first opened, not at the start of the service." },
      {
        id: "R-710",
        rule: "Reads of requests that arrive together use three connections, or as many as were used in the last 10 s; one that has waited for 50 ms gets a connection of its own, up to the limit of the pool.",
      },
      {
        id: "R-709",
        rule: "The heap of the service grows by 80 percent of what is in use until V8 collects its old generation, instead of to about three times as much.",
      },
    ],
  },
  {
    title: "Requests at the same time",
    rules: [
      {
        id: "R-647",
        rule: "Requests for a few named nodes that arrive at the same time may share a transaction; each has its own operation, answer, reason and idempotency key.",
      },
      {
        id: "R-648",
        rule: "A request has the same answer whether or not others arrive at the same time: what speaks against it is decided as if it were alone, and it changes nothing for the others.",
      },
      {
        id: "R-649",
        rule: "A request is not delayed by a locked node of another request, does not fail because another one fails, and is never stored twice.",
      },
      {
        id: "R-650",
        rule: "A plan is sent to the database once, and again if it is missing there after a restore.",
      },
      {
        id: "R-651",
        rule: "The end of an operation whose only run succeeds is recorded without a look at its runs.",
      },
    ],
  },
  {
    title: "Limits",
    rules: [
      {
        id: "R-200",
        rule: "The results of a verb or a plan are limited by the number of its nodes times the selected fields, before anything is executed.",
      },
      {
        id: "R-201",
        rule: "A flood of callbacks uses few connections to the database: malformed tokens use none, at most 8 callbacks use one at the same time, and an address with many rejected callbacks has to wait.",
      },
      {
        id: "R-840",
        rule: "A number that would be stored as another one is refused with its path, before anything is stored: in variables and documents over every transport, and in callbacks. In reports of machines it becomes a text.",
      },
      {
        id: "R-841",
        rule: "A request with the hash of an unregistered query and not the query is answered with PERSISTED_QUERY_NOT_IN_LIST over every transport, so that Apollo Client sends the query.",
      },
      {
        id: "R-842",
        rule: "An idle HTTP connection stays open for OSTLER_KEEP_ALIVE_SECONDS, by default longer than the 60 s of common proxies.",
      },
      {
        id: "R-847",
        rule: "A socket that is closed for what its client sent, or did not send, has a reason that says what to send.",
      },
      {
        id: "R-313",
        rule: "Every request without a valid token is counted with its reason, and logged with at most one line per minute and address. No count is lost when the service stops.",
      },
    ],
  },
  {
    title: "Transport",
    rules: [
      {
        id: "R-1320",
        rule: "A body that has a content encoding, or is not UTF-8, is refused with the reason: no byte of a request is changed on the way in.",
      },
      {
        id: "R-890",
        rule: "With OSTLER_TLS_CERT and OSTLER_TLS_KEY the port serves HTTP, server-sent events and WebSocket, health and metrics over TLS 1.2 or later, on every replica.",
      },
      {
        id: "R-891",
        rule: "When the files of the certificate change, new connections have the new one within 5 seconds, and no open connection ends.",
      },
      {
        id: "R-892",
        rule: "A changed certificate that cannot be used is logged once as an error, and the port keeps the old one.",
      },
      {
        id: "R-893",
        rule: "A start with a certificate or key that cannot be used is refused with the variable, the file and the remedy. A missing intermediate certificate gives a warning, because clients may know its issuer.",
      },
      { id: "R-894", rule: "HTTP in clear on a port with TLS is answered with 400 and the remedy." },
      {
        id: "R-895",
        rule: "Unfinished handshakes shut no client out: above a limit that addresses share the oldest are ended.",
      },
      {
        id: "R-896",
        rule: "X-Forwarded-For counts only from OSTLER_PROXIES: the client is the last address on the way that is not one of a proxy.",
      },
      {
        id: "R-897",
        rule: "A request that is known to have come over TLS is allowed for pages of the own host name over https only.",
      },
      {
        id: "R-898",
        rule: "A start on an address other than loopback with neither TLS nor a configured proxy gives one warning.",
      },
      {
        id: "R-899",
        rule: "Agents speak TLS with the listener for machines, and accept only the certificate whose fingerprint their boot names.",
      },
      {
        id: "R-900",
        rule: "The service makes the certificate for machines once: all replicas and all starts have the same.",
      },
    ],
  },
  {
    title: "Images",
    rules: [
      {
        id: "R-500",
        rule: "`registerImages` registers all images of a request or none, and names every flaw of every one.",
      },
      { id: "R-501", rule: "An image has a checksum, and its content never changes." },
      {
        id: "R-502",
        rule: "User data of images and operations is in no answer, event, plan, log line or other table.",
      },
      {
        id: "R-503",
        rule: "An image that an unfinished operation installs is not deleted; one that is installed on a node only with `force`.",
      },
      {
        id: "R-504",
        rule: "An image that contradicts the inventory or the settings of a node is refused before the node boots.",
      },
      { id: "R-505", rule: "The image and the user data are part of the plan hash, and a restart keeps them." },
      {
        id: "R-506",
        rule: "A node shows the image that its system was installed from, and none after an undeployment.",
      },
      {
        id: "R-507",
        rule: "A deployment by a driver that writes images is refused without one, with the names of registered images.",
      },
      { id: "R-508", rule: "The file of a stored image is deleted with the last image that has its content." },
      {
        id: "R-681",
        rule: "A start deletes the temporary files of images that nothing has written to for a day, and no others.",
      },
    ],
  },
  {
    title: "Counts and history",
    rules: [
      {
        id: "R-525",
        rule: "`nodeCounts` counts all matching nodes in one statement, so the groups fit together and add up to `totalCount`.",
      },
      {
        id: "R-526",
        rule: "The groups of a count have one order: by size, then by value. Groups that `first` leaves out are counted.",
      },
      {
        id: "R-527",
        rule: "A count by nothing, by an unknown field, by too many fields or by one twice is refused before any node is read.",
      },
      {
        id: "R-528",
        rule: "`labelKeys` returns the keys and values of labels that matching nodes have, and no others.",
      },
      {
        id: "R-529",
        rule: "After `cursorAt(time)` come exactly the transitions at that time or later. If some of them may have been deleted, it is refused with CURSOR_EXPIRED.",
      },
      {
        id: "R-638",
        rule: "`nodesAt(time)` has exactly the nodes that existed at the time, also those deleted since, in the states that a replay of the log before the time gives. `filter.states` is the state then.",
      },
      {
        id: "R-639",
        rule: "The log after the cursor of `nodesAt` brings its states up to the present without a gap.",
      },
      {
        id: "R-640",
        rule: "`nodesAt` refuses a time before the log that is kept, with the earliest time, and a time in the future.",
      },
      {
        id: "R-530",
        rule: "Transitions and operations are filtered by actor, verb, event, text and time; pages and total counts have the same items.",
      },
      {
        id: "R-531",
        rule: "`nodeCountChanges` emits the present counts, then the counts whenever they have changed, at most once a second, until the process shuts down. A later stream begins with the present counts.",
      },
      {
        id: "R-532",
        rule: "Equal streams of counts share each read. Without a stream, no count is read.",
      },
      {
        id: "R-1323",
        rule: "A stream of counts, or of what needs a person, pauses for at most 15 seconds after a read, however long that took.",
      },
      {
        id: "R-1399",
        rule: "A stream of counts, or of what needs a person, reads again only after a change, and every ten seconds what changes with time alone.",
      },
    ],
  },
  {
    title: "Timeouts",
    rules: [
      {
        id: "R-781",
        rule: "Isolation level, limits of time, formats of values and waits for the disk are set in every session, whatever the defaults of the role and the database; behind a pooler, which takes no settings, wrong ones are refused at the start, and so is an encoding other than UTF8.",
      },
      { id: "R-782", rule: "A statement that the service cancelled itself is TIMEOUT." },
      { id: "R-783", rule: "A replica whose database takes no writes is not ready." },
      {
        id: "R-881",
        rule: "A query, and the begin of a stream, during which the database hangs get DATABASE_UNAVAILABLE, also if it is back when their time is over.",
      },
      {
        id: "R-880",
        rule: "While the disk of the database is full, or the database refuses the login, requests get DATABASE_UNAVAILABLE, and results of steps wait.",
      },
      {
        id: "R-141",
        rule: "A step has its declared time for each attempt, including waits; if it exceeds the time, the attempt fails with TIMEOUT.",
      },
      {
        id: "R-826",
        rule: "The time of a step begins when its driver is called: waiting for the database, for a slot or for a process of the driver is not part of it.",
      },
      {
        id: "R-827",
        rule: "A result that arrived, or was on its way, while the processes were paused past the deadline counts as in time.",
      },
      {
        id: "R-142",
        rule: "A wait for a machine ends after the time that the step declares, by default after half an hour.",
      },
      { id: "R-143", rule: "A soft power off has 600 s." },
      { id: "R-144", rule: "A power change has 60 s, and a verification 360 s." },
      { id: "R-145", rule: "A stop has 600 s." },
      {
        id: "R-146",
        rule: "A call to a BMC has 30 s. A power reading that takes longer than 5 s is repeated behind those of other nodes, in the time that is left.",
      },
      {
        id: "R-801",
        rule: "A step whose controller is away, as while it restarts, is entered again for five minutes, with its memo and in its time; an abort or a stop ends that at once. A change of power that a person requests fails at once, and so does a reading.",
      },
      { id: "R-147", rule: "Holds never time out." },
      { id: "R-170", rule: "The timeout of a parked step stands still while its node is in maintenance." },
      { id: "R-148", rule: "Each timeout has its own timer." },
      {
        id: "R-515",
        rule: "Nodes whose BMCs give no answer hold at most a quarter of the concurrent runs of a process for longer than 5 s, so that they do not delay the work on other nodes.",
      },
      {
        id: "R-516",
        rule: "A run for which there is no such slot is parked, changes nothing on its machine, and is entered again automatically.",
      },
      {
        id: "R-517",
        rule: "A power reading without an answer after 5 s no longer takes a call of the readings of sound nodes.",
      },
      {
        id: "R-607",
        rule: "A driver gets another process only if a waiting call would wait for more than 50 ms for those that it has; calls that end at once share two.",
      },
      {
        id: "R-695",
        rule: "Steps that use the power or the media of their node leave one of their driver's processes to these calls, if it has several; a step is not long because such a call waits for a process.",
      },
      {
        id: "R-696",
        rule: "The time for which the service is busy, or for which it or a driver's process waits for a processor, starts no process of a driver, unless a call has waited for 20 times as long.",
      },
    ],
  },
  {
    title: "The agent",
    rules: [
      {
        id: "R-460",
        rule: "An agent session has a random secret of 32 bytes, of which only the SHA-256 is stored. A wrong secret is answered like an unknown session.",
      },
      {
        id: "R-461",
        rule: "The first agent that reports has the session. A second one with the same secret is refused, counted, logged and recorded with the run.",
      },
      {
        id: "R-1398",
        rule: "An agent that reports a MAC address of another node, and none of its own node's, gets no task and is ordered to power off; its step fails and names the other node.",
      },
      {
        id: "R-462",
        rule: "A session ends with its run and with a later session of the node: its agent is ordered to power off. The agent of an aborted task is ordered to cancel, and its result is not taken.",
      },
      {
        id: "R-463",
        rule: "The result of a task is passed to its step once, however often and whenever it comes: before the step waits, repeated, and after the service has restarted.",
      },
      {
        id: "R-464",
        rule: "Secrets of sessions and arguments of tasks are in no log line, plan, transition or answer of the API. Arguments are deleted when their task ends.",
      },
      {
        id: "R-465",
        rule: "The report of an installed system is accepted once, until the agent is booted on the node again, and wakes the step that waits for it.",
      },
      {
        id: "R-466",
        rule: "A request with a step that needs the agent is refused with AGENT_UNAVAILABLE if the node cannot boot it.",
      },
      {
        id: "R-467",
        rule: "No two nodes have the same MAC address. A request that would give a node the MAC of another is refused and names both; an inspection leaves it to the other node and says so in its step log.",
      },
      {
        id: "R-468",
        rule: "A machine that boots over the network gets the agent only while a session of its node waits for one, and a new secret each time.",
      },
    ],
  },
  {
    title: "Simulated BMCs",
    rules: [
      { id: "R-350", rule: "Every link that a simulated BMC reports leads to a resource, whatever its traits." },
      {
        id: "R-351",
        rule: "A simulated system changes its power with transitions, consumes a boot override of one boot, and refuses reset types that its state or its traits do not allow.",
      },
      {
        id: "R-352",
        rule: "A simulated BMC checks BIOS settings against its registry, and applies them with a reset.",
      },
      { id: "R-353", rule: "A firmware update of a simulated BMC is a task, and changes the version that it reports." },
      { id: "R-354", rule: "Sessions of a simulated BMC expire, and are limited in number." },
      { id: "R-355", rule: "Faults of a simulated BMC are switched while it runs, for all requests or for a path." },
      { id: "R-356", rule: "Many simulated BMCs run in one process, with an address and a state each." },
    ],
  },
  {
    title: "Installation",
    rules: [
      {
        id: "R-820",
        rule: "A port for the API that browsers refuse to connect to is refused at the start.",
      },
      {
        id: "R-821",
        rule: "The page about the installation, the units, their settings, the image and `compose.yaml` have the same plugins, ports, folders and packages, and those of the code.",
      },
      {
        id: "R-822",
        rule: "The build of boot media, the demonstration with virtual machines and the end-to-end test name all missing Debian packages before they start anything.",
      },
      { id: "R-860", rule: "A preview sorts before its release, in the names of packages too." },
      {
        id: "R-861",
        rule: "The package of Debian has the unit, the command and the settings of `docs/systemd`, with which a service starts on loopback with the embedded database.",
      },
      { id: "R-862", rule: "The image of a release has the settings of `Dockerfile`." },
      {
        id: "R-863",
        rule: "Each artefact of a release has a valid list of its parts, from npm and from Debian; equal input gives equal bytes.",
      },
      {
        id: "R-1270",
        rule: "It also names the packages that are part of one file, the web console and the command line, with their licences; the texts of the licences are beside the file.",
      },
      { id: "R-864", rule: "A release that cannot be built is refused in one sentence, and leaves no folder." },
      {
        id: "R-865",
        rule: "A start that only another setting helps exits with 78, after which the unit does not try again; any other start that fails exits with 1.",
      },
    ],
  },
  {
    title: "Provisioning network",
    rules: [
      {
        id: "R-470",
        rule: "The listener for machines has a port of its own and serves nothing of the API, and the port of the API serves nothing of it.",
      },
      {
        id: "R-471",
        rule: "An unknown session, a wrong secret and a malformed one get the same answer, and so do unknown paths and unknown secrets in a path.",
      },
      { id: "R-472", rule: "No secret of a machine's session is logged, also if its request fails." },
      {
        id: "R-473",
        rule: "The ISO of a session contains that session's document; every range of it is a part of the same bytes, and it is served while the session is open.",
      },
      {
        id: "R-474",
        rule: "A machine that does not boot the agent is shown why, receives no secret, and goes on with its next boot device.",
      },
      {
        id: "R-475",
        rule: "The listener for machines limits the size of bodies, rejected requests of an address, requests that use the database at the same time, and transfers; a client that reads nothing is cut.",
      },
      {
        id: "R-828",
        rule: "Addresses share the connections of the listener for machines: when all are in use, the address with the most loses its newest one to another address; for IPv6 first the /64 with the most.",
      },
      {
        id: "R-829",
        rule: "A download that makes too little progress is cut, and addresses share the places of downloads in the same way.",
      },
      { id: "R-476", rule: "Boot media of the agent that are replaced are served without a restart." },
      { id: "R-477", rule: "The report of an installed system is taken as a form, as JSON, or as plain text." },
      {
        id: "R-684",
        rule: "A second address that fetches the boot script ends the session, and fails the step with both addresses, unless it is leased to the machine.",
      },
      {
        id: "R-830",
        rule: "With the lease file of dnsmasq, a boot script is sent only to the address that is leased to a MAC of the machine.",
      },
      {
        id: "R-682",
        rule: "Metrics count the requests of machines by kind and status, the bytes of files, the open sessions of agents, and refused agents.",
      },
    ],
  },
  {
    title: "The program on the machine",
    rules: [
      {
        id: "R-480",
        rule: "An image whose checksum is wrong, whose transfer ends early, or whose writing is cancelled leaves no disk that a machine starts from.",
      },
      {
        id: "R-481",
        rule: "A broken transfer of an image is resumed where it broke, or begun again if the server cannot resume, a bounded number of times.",
      },
      {
        id: "R-482",
        rule: "An image is written to the only disk that the hints match; without hints to the only one, or the smallest of at least 4 GiB.",
      },
      {
        id: "R-483",
        rule: "A disk is erased by the best means that it offers; a locked drive fails by name; if a disk to keep does not exist, no disk is erased.",
      },
      {
        id: "R-484",
        rule: "The seed is put behind the image, the last partition is grown up to it, other partitions stay, and a repetition replaces the seed.",
      },
      {
        id: "R-485",
        rule: "The agent sends a result until the service has it, also after it was killed, and does not repeat a task whose result was taken.",
      },
      {
        id: "R-486",
        rule: "The agent powers the machine off if its session is unknown for ten minutes, or was used by another machine.",
      },
    ],
  },
  {
    title: "What needs a person",
    rules: [
      {
        id: "R-573",
        rule: "`Node.actions` says of each action what its mutation would answer for the node now: accepted, or refused with the same code and message.",
      },
      { id: "R-574", rule: "The actions of a list of nodes are read in as many statements as those of one node." },
      {
        id: "R-575",
        rule: "`attention` groups nodes by what they need a person for, and a node in maintenance is shown as such only, after seven days.",
      },
      {
        id: "R-576",
        rule: "A suggestion of `attention` has the whole input of its mutation. The oldest node of the group accepts the action now, except READ_POWER and actions on waves, which follow from the cause alone.",
      },
      {
        id: "R-577",
        rule: "A step, or the wait after one, counts as stuck if it lasts longer than 90 % of the last 1,000, or than an hour if there are fewer than five.",
      },
      {
        id: "R-843",
        rule: "`cause` of a failure, and of a group of nodes, is in the words of the driver alone: the same on every node, without its name and the step.",
      },
      { id: "R-578", rule: "The groups of `attention` are read in one statement." },
      {
        id: "R-790",
        rule: "`attentionChanges` emits the present answer of `attention`, then the answer whenever it has changed, at most once a second.",
      },
      { id: "R-791", rule: "`attentionChanges` emits what begins to need a person by time alone." },
      { id: "R-792", rule: "Equal streams of `attentionChanges` share each read." },
      {
        id: "R-644",
        rule: "`inputForAll` of a suggestion reaches the nodes of the group within the filter of the request, and no node outside of that filter.",
      },
      {
        id: "R-635",
        rule: "`Operation.failures` groups the failed runs of an operation, or the failed addresses of a discovery, by code, step and driver.",
      },
      {
        id: "R-636",
        rule: "A suggestion of `Operation.failures` names only nodes that no later work has reached, and continues work of this operation only.",
      },
      {
        id: "R-788",
        rule: "After a failure that undid the work of other nodes, `Operation.failures` suggests the restart of the whole operation.",
      },
      { id: "R-637", rule: "The failures of all operations on a page are read in one statement." },
    ],
  },
  {
    title: "Edits of many nodes",
    rules: [
      {
        id: "R-583",
        rule: "`updateNodes` sets and removes single labels and keeps the others; a node that already is as requested keeps its revision.",
      },
      {
        id: "R-584",
        rule: "`updateNodes` with `revisions` changes no node that has changed since the caller read it: it refuses the request, or with BEST_EFFORT the node.",
      },
      {
        id: "R-585",
        rule: "`updateNodes` reaches no more nodes than meant: `expectedCount` refuses a selection of another size, and a filter needs a condition.",
      },
      { id: "R-586", rule: "A dry run of `updateNodes` writes nothing and locks nothing." },
      {
        id: "R-587",
        rule: "`updateNodes` lays settings over those of the drivers that a node uses, refuses a node that uses none of them, and never changes the drivers of a node.",
      },
      {
        id: "R-588",
        rule: "Answers of `updateNodes` have no secrets, and do not reveal whether a secret that was sent is the stored one.",
      },
      { id: "R-589", rule: "Concurrent edits of the same nodes wait for each other, and each is stored whole." },
    ],
  },
  {
    title: "Compression",
    rules: [
      {
        id: "R-641",
        rule: "A JSON response from 64 kB is compressed in the best encoding that the client accepts, to the same document; shorter ones and streams are not.",
      },
      {
        id: "R-642",
        rule: "At most eight responses are compressed at a time; clients that leave free their place.",
      },
      { id: "R-643", rule: "A request with `@defer` or `@stream` is refused before its execution." },
    ],
  },
  {
    title: "Pages of streams",
    rules: [
      {
        id: "R-555",
        rule: "The nodes of a snapshot by stream equal those of the list in every field, if nothing changes meanwhile.",
      },
      {
        id: "R-556",
        rule: "Items of a stream that are ready together read what they select together: a page of them takes as many statements as one item.",
      },
      {
        id: "R-557",
        rule: "An object in an item is never older than the item's cursor, nor than what the subscriber has received before.",
      },
      { id: "R-558", rule: "Each connection has a `totalCount`." },
    ],
  },
  {
    title: "Changes of operations, runs and clusters",
    rules: [
      {
        id: "R-620",
        rule: "`operationChanges` emits each matching operation when it begins and whenever its state, progress, waves, interrupts, first failure or options have changed, with the fields that changed and the operation as it is then.",
      },
      {
        id: "R-621",
        rule: "An operation that stops matching the filter of `operationChanges` is sent as `OperationLeft`, also when the cluster of the filter is deleted.",
      },
      {
        id: "R-622",
        rule: "`operationChanges` refuses cursors of other streams, names that do not exist and snapshots above a limit, and ends with CURSOR_EXPIRED after a cursor of the future, of deleted changes or of another log.",
      },
      { id: "R-623", rule: "A stream of operations makes at most five items a second of each operation." },
      {
        id: "R-624",
        rule: "A reader of `operationChanges` that is cut at any item, and resumes on any replica, has exactly the matching operations, field by field.",
      },
      {
        id: "R-625",
        rule: "`runChanges` emits the runs of one operation or of one node, each when it is created and whenever its state, step, wait, interrupt, failure or progress has changed. It takes exactly one of `operation` and `node`.",
      },
      {
        id: "R-626",
        rule: "A reader of `runChanges` that is cut at any item, and resumes on any replica, has all runs, field by field.",
      },
      {
        id: "R-627",
        rule: "`runChanges` refuses operations and nodes that do not exist and cursors of other streams, and ends with CURSOR_EXPIRED after a cursor of the future, of deleted changes or of another log.",
      },
      {
        id: "R-628",
        rule: "`clusterChanges` emits each matching cluster whenever its name, settings, members, state or counts have changed, also if only a node or its work did.",
      },
      {
        id: "R-629",
        rule: "A cluster that stops matching the filter of `clusterChanges`, or is deleted, is sent as `ClusterLeft`.",
      },
      {
        id: "R-630",
        rule: "`clusterChanges` refuses cursors of other streams, and ends with CURSOR_EXPIRED after a cursor of the future, of deleted changes or of another log.",
      },
      {
        id: "R-631",
        rule: "A reader of `clusterChanges` that is cut at any item, and resumes on any replica, has exactly the matching clusters, field by field.",
      },
      {
        id: "R-632",
        rule: "A stream that begins with `after: <asOf of a list>` emits all that changed after the list was read. What had changed just before may be emitted too, although the list has it.",
      },
      {
        id: "R-633",
        rule: "`asOf` of a list is never newer than the list: every change up to the cursor is in it.",
      },
      {
        id: "R-634",
        rule: "`createChangeMap` of the client has exactly the objects of a stream of changes: from a snapshot or a list, over breaks and resets.",
      },
      {
        id: "R-793",
        rule: "`watchNodes` of the client reports every change of a matching node, whatever field, and resumes after any loss of the connection without losing one.",
      },
      {
        id: "R-794",
        rule: "A slow reader of `watchNodes` receives the newest state of each node, and can resume after each item.",
      },
      {
        id: "R-795",
        rule: "The live flag of the client falls within 15 seconds, without help of the caller, when the service is killed, frozen or cut off without a word, and rises when the stream has caught up again.",
      },
      {
        id: "R-796",
        rule: "The client follows nodes, operations, runs, clusters, counts and what needs a person in one way, from a snapshot or from pages of a list.",
      },
      {
        id: "R-797",
        rule: "The hooks of a page share one socket, keep their streams for variables with the same content, and show what they had until there is something new.",
      },
      {
        id: "R-883",
        rule: "A connection of the client opens with its first stream: it can be made with a path on a server that renders pages. It is idle when the last stream has left, also in a pause between two attempts.",
      },
    ],
  },
  {
    title: "Secrets at rest",
    rules: [
      {
        id: "R-910",
        rule: "No table, and so no dump, has a password of a node, the login of a discovery, user data, arguments of an agent's task or the key of a callback in clear.",
      },
      {
        id: "R-911",
        rule: "A secret that was moved to another row or changed, or whose data key is missing, fails the one node, cluster or image concerned, with SECRET_UNREADABLE and a sentence without its value.",
      },
      {
        id: "R-912",
        rule: "A replica that meets an unknown data key loads it. Machines that wait keep their callback tokens over a rotation.",
      },
      {
        id: "R-913",
        rule: "A rotation that was interrupted is continued to the same data key.",
      },
      {
        id: "R-914",
        rule: "A rotation misses no secret that is stored meanwhile.",
      },
      {
        id: "R-915",
        rule: "Secrets that were stored in clear are read, and encrypted by `ostler secrets encrypt`.",
      },
      {
        id: "R-916",
        rule: "A start without keys on a database with encrypted secrets is refused.",
      },
      {
        id: "R-917",
        rule: "A missing, repeated, too short or malformed master key, and a key file that others can read, are refused at the start, with a sentence that has no key.",
      },
      {
        id: "R-918",
        rule: "An embedded database makes its master key at the first start, in a file for its owner alone, and no other if that is lost.",
      },
      {
        id: "R-919",
        rule: "A start with another master key than that of the database is refused, and names both.",
      },
      {
        id: "R-920",
        rule: "A new master key takes the place of the old one with `ostler secrets rewrap`; then the old one is not needed.",
      },
      {
        id: "R-921",
        rule: "A replica that lacks the master key of a new data key names it, and stores no secret with an older one.",
      },
      {
        id: "R-922",
        rule: "A secret variable reaches the drivers, and is in no answer, log line, event or row in clear; a restart has it again.",
      },
      {
        id: "R-923",
        rule: "A plan masks secret variables, and its hash changes with them.",
      },
      {
        id: "R-924",
        rule: "Secret variables of a cluster are masked, stay when they are left out, and are not replaced by their mask.",
      },
    ],
  },
  {
    title: "Access",
    rules: [
      {
        id: "R-955",
        rule: "`ostler token create` makes the account with its role if they are missing, and prints the token alone.",
      },
      { id: "R-956", rule: "Over every transport a root field answers exactly those whose roles include its scope." },
      {
        id: "R-957",
        rule: "`force`, chosen steps and steps of `Site.stepScopes` demand their scope, from runbooks too.",
      },
      { id: "R-958", rule: "No mutation of a request is executed if its caller may not send another one of it." },
      { id: "R-960", rule: "A token acts as its account, with the account's roles, and `viewer` says so." },
      {
        id: "R-1361",
        rule: "`GET /auth/session` says whether a caller has to sign in, without a failed login.",
      },
      {
        id: "R-1362",
        rule: "With the settings of a service each command of `ostler` finds it, and trusts its certificate there alone.",
      },
      { id: "R-961", rule: "The lower scope of a token's role and its account's grants counts at any time." },
      {
        id: "R-962",
        rule: "A caller without a role is refused with its principals; only `viewer` and `service` answer.",
      },
      { id: "R-963", rule: "A revoked token, and one of a disabled account, is refused with the reason." },
      { id: "R-964", rule: "A refusal for lack of scope names the field, the scope and the caller's roles." },
      { id: "R-965", rule: "`force` and chosen steps need MANAGE, in a dry run too." },
      { id: "R-966", rule: "`Node.verbs` and `Node.actions` report FORBIDDEN for what the caller may not request." },
      { id: "R-967", rule: "A role that a principal or a token has is not deleted." },
      { id: "R-968", rule: "The last lasting grant of ADMIN is neither removed, limited nor disabled." },
      {
        id: "R-969",
        rule: "After 20 failed logins of an address in a second further ones get 429, and known tokens of it are served.",
      },
      {
        id: "R-970",
        rule: "A stream whose caller's access changes, less or more, ends with ACCESS_CHANGED and its last cursor, after which nothing is missing; those of other callers continue.",
      },
      {
        id: "R-971",
        rule: "When a grant expires or a token ends, its streams end on every replica, and the sockets of an ended token close with 4403 and the reason.",
      },
      {
        id: "R-972",
        rule: "A stream that ends within its snapshot names the cursor before everything, one that ends after it the cursor of the snapshot.",
      },
      {
        id: "R-973",
        rule: "A change of access ends a stream at once, also if its reader does not read, or the database does not answer.",
      },
      {
        id: "R-974",
        rule: "Changes of access in quick succession judge each access four times a second at most, however many streams have it.",
      },
      { id: "R-975", rule: "Items that callers with the same access share name no caller." },
      {
        id: "R-976",
        rule: "No mutation that starts after the answer to a revocation is accepted, by any replica.",
      },
      {
        id: "R-977",
        rule: "`ostler-client` continues after a change of access with a token of the callback, without a gap; a token that is refused again ends its streams with an error.",
      },
      {
        id: "R-980",
        rule: "Each mutation has one row in the audit: who, by which credential, from where, what, on what, and how it ended.",
      },
      { id: "R-981", rule: "Refused and repeated requests have rows; dry runs, plans and reads have none." },
      { id: "R-982", rule: "A denied query, stream, mutation, dry run or plan has a row, within the limit of R-1150." },
      { id: "R-983", rule: "Failed logins have ten rows a minute and address, then one with their number." },
      {
        id: "R-1150",
        rule: "Denials have ten rows a minute and caller, then one with the number of the others, at each replica.",
      },
      { id: "R-1153", rule: "Failed logins at a replica that only runs work have rows too." },
      { id: "R-984", rule: "If the row of a mutation cannot be written, nothing is done and the answer is an error." },
      { id: "R-985", rule: "No row of the audit contains a secret or a control character." },
      { id: "R-986", rule: "An edit records the values that differ, before and after; secrets are `***`." },
      { id: "R-987", rule: "A row has at most 100 targets with the number of all, and at most 16 KiB of edits." },
      { id: "R-988", rule: "Rows of the audit are never changed; only retention deletes them, the oldest first." },
      { id: "R-989", rule: "`auditEntries` has every row once, in commit order, after any cursor." },
      { id: "R-990", rule: "A JWT acts as `user:<issuer>:<sub>`, with its own roles and those of its groups." },
      {
        id: "R-991",
        rule: "A JWT of another issuer, audience, algorithm or kind, without `sub`, `exp` or `iat`, expired, older than a day or from the future is refused, whatever keys its header names.",
      },
      {
        id: "R-1152",
        rule: "Of wrong JWTs of an address that arrive together twenty a second are verified, and good ones are all accepted.",
      },
      {
        id: "R-992",
        rule: "When `revokeTokens` of a subject is answered, JWTs of it that were issued before are refused.",
      },
      { id: "R-993", rule: "While an issuer is away its JWTs are accepted, for up to a day." },
      {
        id: "R-994",
        rule: "A service starts while an issuer is away, refuses its JWTs with ISSUER_UNAVAILABLE, and accepts them once it is back.",
      },
      {
        id: "R-995",
        rule: "Every flaw of the file of OSTLER_OIDC is named at the start; a secret that every user can read is one.",
      },
      { id: "R-996", rule: "GraphiQL without a session leads to the sign-in, and back to the same page." },
      { id: "R-997", rule: "A session that a token was exchanged for has its rights, and ends with it." },
      {
        id: "R-998",
        rule: "The cookie of a session counts only for pages of the service itself, by POST, GET, stream and socket; never for OSTLER_ORIGINS.",
      },
      {
        id: "R-999",
        rule: "The header decides, then `connection_init`, then the cookie; an invalid credential never gives way to the next.",
      },
      {
        id: "R-1000",
        rule: "A callback of a sign-in counts once, in the browser that began it, within ten minutes.",
      },
      { id: "R-1001", rule: "A sign-in leads to a path of this service and nowhere else." },
      {
        id: "R-1002",
        rule: "A session ends after twelve hours, after one hour without use, and with `revokeTokens`; then it is refused.",
      },
      {
        id: "R-1151",
        rule: "The rows of a sign-in and a sign-out name the token, the session and the request; those of the session name it.",
      },
      { id: "R-1003", rule: "After a sign-out the cookie is refused on every replica." },
      { id: "R-1017", rule: "Failed sign-ins have at most ten rows a minute and address in the audit." },
      { id: "R-1018", rule: "A session ends when its issuer is not configured any more." },
      { id: "R-1019", rule: "A subject has at most twenty sessions; a further one ends the oldest." },
      {
        id: "R-1005",
        rule: "A registered document is sent by `documentId` or `extensions.persistedQuery`, over HTTP, server-sent events and WebSocket.",
      },
      { id: "R-1006", rule: "An unknown id is PERSISTED_QUERY_NOT_IN_LIST, and a request never registers a document." },
      { id: "R-1007", rule: "An id together with another text or another id is a BAD_REQUEST." },
      {
        id: "R-1008",
        rule: "A token that is bound to documents sends only these, by id or exact text; introspection, `/metrics` and `/schema.graphql` are FORBIDDEN.",
      },
      {
        id: "R-1009",
        rule: "A fixed variable with another value, also null and also by a default, is FORBIDDEN; one that is left out has its fixed value.",
      },
      { id: "R-1010", rule: "The role of a token counts beside its documents." },
      {
        id: "R-1015",
        rule: "A document that a bound token is denied has a row in the audit, within the limit of R-1150.",
      },
      { id: "R-1016", rule: "A row of the audit names the registered document that was sent by its id." },
      {
        id: "R-1011",
        rule: "A document that has not one operation, does not fit the schema or a limit, or uses introspection is refused with its path, and nothing is registered.",
      },
      { id: "R-1012", rule: "A document is not removed while a token that can be used is bound to it." },
      {
        id: "R-1013",
        rule: "Documents that the present schema refuses are named with their flaws, and in the log at the start.",
      },
      {
        id: "R-1014",
        rule: "A token is bound only to registered documents, and its fixed variables fit the types of theirs.",
      },
    ],
  },
  {
    title: "Web console",
    rules: [
      {
        id: "R-1170",
        rule: "The files of the console need no token, name no other host and contain no code in the page; no path leads to another file.",
      },
      {
        id: "R-1171",
        rule: "`/` leads browsers to the console, unless `OSTLER_CONSOLE` is off, and programs to the API.",
      },
      {
        id: "R-1172",
        rule: "Without a build `/console/` answers 503 with the command that builds it, and the error of the last build.",
      },
      {
        id: "R-1173",
        rule: "A build of the console that fails breaks neither an installation nor a start, and the last good build stays.",
      },
      { id: "R-1174", rule: "The sentence before a stop or an abort counts every node of the forecast once." },
      {
        id: "R-1335",
        rule: "`npm run console:dev` passes the requests of its own pages on as those of the service, and requests of pages of other origins as they are.",
      },
      {
        id: "R-1175",
        rule: "Texts of machines are shown without commands to terminals, and nothing in them hides or reverses what is shown.",
      },
      { id: "R-1176", rule: "What an address has and a screen does not know is reported, and not used." },
      {
        id: "R-1360",
        rule: "The sign-in of the console shows why a session has ended, and nothing that is for programs.",
      },
      { id: "R-1245", rule: "A request for selected nodes names exactly those that its plan accepted." },
      {
        id: "R-1246",
        rule: "Before several nodes lose data, firmware or power, or are deleted, their number is typed.",
      },
      {
        id: "R-1247",
        rule: "If the plan has changed since it was shown, nothing is done, and the differences are named.",
      },
      { id: "R-1248", rule: "A term that is not valid is refused at its field, before a request." },
      { id: "R-1249", rule: "The columns and the order of a list are in its address; unknown ones are reported." },
      { id: "R-1250", rule: "The order of a list stays while the pointer or the focus is in it." },
      {
        id: "R-1251",
        rule: "The plan of the changes of a cluster has the reason for each node that they change.",
      },
      {
        id: "R-1252",
        rule: "Variables of a cluster are saved for the revision that was read, and only those that were changed.",
      },
      {
        id: "R-1280",
        rule: "An editor of the console sends only what was changed, each label and each variable alone, for the revision that was read.",
      },
      { id: "R-1281", rule: "Each flaw of a change that is refused is shown at its field." },
      {
        id: "R-1282",
        rule: "What another person has changed since an editor was opened is named, and what was typed stays.",
      },
      {
        id: "R-1284",
        rule: "The page of a cluster shows which host group begins after which, with the numbers of nodes that are needed and active.",
      },
      {
        id: "R-1336",
        rule: "The dialog of a verb shows which host group waits for which, with the numbers of active nodes that are needed and present.",
      },
      {
        id: "R-1337",
        rule: "Nodes are added to a cluster from the list of nodes and removed on its page, exactly those that were selected.",
      },
      {
        id: "R-1339",
        rule: "What needs attention begins with nodes that failed. Nodes that only differ from what their cluster wants are a list of their own, which takes no place from it.",
      },
      {
        id: "R-1391",
        rule: "A button whose request the caller's roles do not allow is disabled, with the scope that it needs.",
      },
      {
        id: "R-1392",
        rule: "On the map a node whose last work failed is failed until other work moves it, also after a clean-up, but not in maintenance.",
      },
      { id: "R-1393", rule: "A request for waves that would do nothing is disabled, with the reason." },
      {
        id: "R-1338",
        rule: "After a clean-up that succeeded, the page of a node shows the work that failed, with its log.",
      },
    ],
  },
  {
    title: "Clusters that say what they want",
    rules: [
      {
        id: "R-1045",
        rule: "`applyCluster` deploys the nodes of a cluster that have no system, in one operation, whose failures leave the others alone.",
      },
      { id: "R-1046", rule: "If no node differs, the answer says so, and nothing is stored." },
      {
        id: "R-1047",
        rule: "Other variables, another host group and other steps run the steps after PROVISIONED again; the plan names both values.",
      },
      {
        id: "R-1048",
        rule: "A failure or an abort of steps on a system in service leaves the power as it is, and no restart installs it again.",
      },
      { id: "R-1049", rule: "An input that is not known starts nothing." },
      {
        id: "R-1383",
        rule: "A variable that is an output is compared by value: what the node took, or had in its place, with what it would take now.",
      },
      {
        id: "R-1384",
        rule: "A new value of an output is a change for the nodes that took the old one, when no node of its group has that any longer.",
      },
      { id: "R-1385", rule: "An output that no ACTIVE node has is an input that is not known." },
      { id: "R-1050", rule: "A changed secret is shown as `changed`; neither value is in a plan, a row or an answer." },
      { id: "R-1051", rule: "Stopped and failed nodes continue from the stage reached, and the plan names the step." },
      {
        id: "R-1052",
        rule: "Nodes that are retired, protected, in maintenance, disappeared, faulty or busy are reported and left alone.",
      },
      { id: "R-1053", rule: "Named nodes outside of the cluster are refused by name, and nothing starts." },
      { id: "R-1054", rule: "Of several `applyCluster` at once exactly one starts the work." },
      { id: "R-1055", rule: "The hash of a plan of `applyCluster` holds until an input changes." },
      {
        id: "R-1056",
        rule: "Another image, checksum or user data installs ACTIVE nodes again with `reinstall: true` only.",
      },
      {
        id: "R-1349",
        rule: "The nodes that are named for the reason of a pending change are the first of them by name.",
      },
      {
        id: "R-1058",
        rule: "`clusterChanges` sends a cluster when its pending changes may have changed, at most once a second.",
      },
      { id: "R-1059", rule: "`attention` has the pending changes of each cluster, but no node of another group." },
      { id: "R-1057", rule: "A node that a runbook deployed is compared with the runbook as it is now." },
    ],
  },
  {
    title: "Command line",
    rules: [
      {
        id: "R-1020",
        rule: "A filter as text has the meaning of its `NodeFilter`; a flaw is refused with its position and the nearest known word.",
      },
      {
        id: "R-1021",
        rule: "Ranges multiply and keep leading zeros; a flaw, or more than 10,000 names, is refused with its position before a name is made.",
      },
      { id: "R-1022", rule: "No control character and no change of direction in a text reaches a terminal." },
      {
        id: "R-1023",
        rule: "A verb that touches disks, firmware or power needs an answer or `--yes`; else it starts nothing.",
      },
      { id: "R-1024", rule: "A verb with an unknown name starts nothing, and names it." },
      {
        id: "R-1025",
        rule: "`--wait` ends with a code of its own at the timeout, after a stop, and after Ctrl-C; the operation continues.",
      },
      {
        id: "R-1026",
        rule: "A verb whose answer is lost is repeated with its key until it is answered, and starts one operation.",
      },
      { id: "R-1027", rule: "Streams continue after a loss of the connection without a missing or repeated line." },
      { id: "R-1028", rule: "Completion prints nothing that a shell would run, and nothing without a service." },
      {
        id: "R-1130",
        rule: "The words and the exit codes of the command line are those of [decision 0075](../decisions/0075-stable-words-and-exit-codes.md).",
      },
      { id: "R-1131", rule: "Each command takes `--yes`, also one that never asks." },
      {
        id: "R-1132",
        rule: "Completion ends within half a second, also if the service accepts connections and never answers.",
      },
      {
        id: "R-1133",
        rule: "A subscription of `query` continues after a cut by `$after` and its cursor, without a missing or repeated line; a document without them ends with 69 and says what to add.",
      },
      { id: "R-1134", rule: "With `--json`, what is printed of a list that is cut is a whole document." },
      {
        id: "R-1290",
        rule: "A command about rules or variables of a host group changes what it names alone, and `clusters get` shows the groups and what is pending.",
      },
      {
        id: "R-1351",
        rule: "Completion loads neither a module of the service nor what takes longer than the answer, in a checkout too.",
      },
      {
        id: "R-1352",
        rule: "Completion of more names than it offers inserts no more than all of them have in common.",
      },
      { id: "R-1350", rule: "`site get` and `site set` have the variables of the site." },
      { id: "R-1348", rule: "`clusters create` and `clusters edit` set what the cluster wants: its image, and none." },
      {
        id: "R-1294",
        rule: "While a command waits on a terminal that becomes narrower, no line of its earlier progress stays.",
      },
      { id: "R-1291", rule: "Wrong rules of a host group are refused together: flags with 64, others with 2." },
    ],
  },
  {
    title: "History and monitors",
    rules: [
      {
        id: "R-1200",
        rule: "`stepAttempts` lists each attempt of all runs once, newest start first, over pages in both directions.",
      },
      {
        id: "R-1201",
        rule: "`stepAttempts` of a cluster are those on its members when their operations were accepted; each filter has the same meaning after nodes moved or were deleted.",
      },
      {
        id: "R-1202",
        rule: "A page of `stepAttempts` with one filter reads no more than a page, and so does one of a node's ABORTED attempts.",
      },
      { id: "R-1203", rule: "Outputs in `stepAttempts` contain no secrets." },
      {
        id: "R-1204",
        rule: "A step that waits for a node that has disappeared fails with TIMEOUT after the time that the site sets, without a retry; without one it waits on, and a step that runs is not ended.",
      },
      {
        id: "R-1205",
        rule: "The time for which a step waits for a node that has disappeared begins again when the node is seen; time in maintenance, and before forced work was requested, does not count.",
      },
      {
        id: "R-1206",
        rule: "The example for Serf reports each member once Serf and the service answer, also what happened meanwhile; unknown nodes hinder no other, and a restart of Serf changes nothing.",
      },
      {
        id: "R-1207",
        rule: "The example for Alertmanager reports alerts that fire and are resolved, and Alertmanager tries again until the service has taken them.",
      },
    ],
  },
  {
    title: "Configuration over SSH",
    rules: [
      {
        id: "R-1215",
        rule: "A node whose drivers have no power is verified by a login; its power is UNKNOWN, and is not read in the background.",
      },
      {
        id: "R-1216",
        rule: "A change of the power of such a node is refused with UNSUPPORTED_BY_DRIVER, as a verb and in a list of steps.",
      },
      {
        id: "R-1217",
        rule: "An abort or a failure leaves the power of such a node, and reports no error because of it.",
      },
      {
        id: "R-1218",
        rule: "A plan has the revision of what its steps run; another revision is another plan, and its hash is refused.",
      },
      { id: "R-1219", rule: "A step is refused with STALE_REVISION if what it runs has changed since the plan." },
      {
        id: "R-1220",
        rule: "A play gets its node in the host group, and the effective variables as data that Ansible does not evaluate.",
      },
      { id: "R-1221", rule: "Variables that would lead the login of a node to another machine are refused." },
      {
        id: "R-1222",
        rule: "Private keys, passwords and variables are in no file, argument or environment while a play runs.",
      },
      {
        id: "R-1386",
        rule: "Modules of a play and their arguments reach the node through the connection, and are in no file on either machine, unless `ansible.cfg` decides that.",
      },
      {
        id: "R-1223",
        rule: "The data of `set_stats` is the output of the step, and the step log has plays, tasks and results.",
      },
      {
        id: "R-1224",
        rule: "A play that fails names the cause: the task, the login, the host key, Python, or the place of the error.",
      },
      { id: "R-1225", rule: "An abort ends all processes of a play before the step ends." },
      { id: "R-1226", rule: "A worker that ends, whatever the cause, leaves no process of a play." },
      {
        id: "R-1227",
        rule: "On one machine no process of an earlier run of a node is left when the next one begins, and an earlier run that was paused does not begin.",
      },
      {
        id: "R-1228",
        rule: "A host key is known, or accepted at its first use by choice; after that another one is refused, until a request installs the system again.",
      },
      {
        id: "R-1229",
        rule: "The revision of a project changes with the name, the content and the rights of each of its files.",
      },
      {
        id: "R-1230",
        rule: "A play declares whether it can be interrupted and repeated; by default it is AT_BOUNDARY, and only `configure` is idempotent.",
      },
      {
        id: "R-1231",
        rule: "The steps of several drivers that deploy a node run by priority; a restart keeps the system that one of them has installed.",
      },
    ],
  },
];
