/** The promises of the console, each as a function that drives it and reports what it saw. */
import { startService, nameOf } from "./service.ts";
import { begin, countsDiffer, differing, runsDiffer, script, untilNone, untilStored } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { ask } from "../../support/ask.ts";
import { startProxy } from "./proxy.ts";
import { live, openTab } from "./tab.ts";
import { changesMembers, deploysChanges } from "./cluster-scenarios.ts";
import { edits, groups } from "./edit-scenarios.ts";
import { worksByKeys } from "./key-scenarios.ts";
import { judgeLooks } from "./looks.ts";
import { survives } from "./tab-scenarios.ts";
import type { Tab } from "./tab.ts";
import { filtersAndSelects, goesAnywhere, plansAndBegins } from "./work-scenarios.ts";

const names = (from: number, count: number) => Array.from({ length: count }, (_, index) => nameOf(from + index));
const HTML = { accept: "text/html" };

async function opens(lab: Lab): Promise<void> {
  const { proxy, service, check, nodes, browser } = lab;
  const answer = await fetch(proxy.url, { headers: HTML, redirect: "manual" });
  check("/ leads to the console", answer.headers.get("location") === "/console/" ? [] : [`status ${answer.status}`]);
  await using tab = await openTab(browser, proxy.url);
  const { page } = tab;
  await page.goto(proxy.url);
  await live(page);
  await page.getByText(`${nodes.toLocaleString("en")} in all`).waitFor();
  check("the fleet has the counts of the database", await untilNone(() => countsDiffer(tab, service)));
  const { http, sockets } = proxy.counts;
  await page.waitForTimeout(3_000);
  check(
    "an idle page sends no request, and has one socket",
    proxy.counts.http === http && proxy.counts.sockets === sockets && sockets === 1
      ? []
      : [`${proxy.counts.http - http} requests, ${proxy.counts.sockets} sockets`],
  );
  await judgeLooks(lab, tab, "fleet");
  check("nothing is wrong on the fleet", tab.flaws);
}

/** A stop while nodes are queued, in a step, and at their end: what was announced is what happens. */
async function stops(lab: Lab): Promise<void> {
  const { service, check } = lab;
  const nodes = names(0, 8);
  await script(service, nodes, { "clean.erase_disks": { stuck: true } });
  const uuid = await begin(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { names: nodes },
    onFailure: "LEAVE",
    maxParallel: 5,
  });
  await using tab = await lab.open(`/operations/${uuid}`);
  const { page } = tab;
  // Five are at the gate, three wait for a slot.
  await page.getByRole("region", { name: "At which step" }).getByText("clean.erase_disks").waitFor();
  await untilNone(async () => {
    const [row] = await service.sql<{ count: number }[]>`
      select count(*)::int as count from nodes where state like 'CLEAN%'`;
    return row?.count === 5 ? [] : [`${row?.count} of 5 nodes are cleaned`];
  });
  check("the operation has the runs of the database", await untilNone(() => runsDiffer(tab, service, uuid)));
  await judgeLooks(lab, tab, "operation");
  await page.getByRole("button", { name: "Stop…" }).click();
  const dialog = page.getByRole("dialog");
  const sentence = await dialog.locator(".sentence").textContent();
  check(
    "a stop announces how many nodes finish their step, and how many have not begun",
    /^5 nodes finish their step first.*; 3 nodes have not begun and stay as they are\. Nothing is undone\.$/.test(
      sentence ?? "",
    )
      ? []
      : [String(sentence)],
  );
  await judgeLooks(lab, tab, "stop dialog");
  await dialog.getByLabel("Reason").fill("a check");
  await dialog.getByRole("button", { name: "Stop 8 nodes" }).dblclick();
  await page.getByText("Announced at").waitFor();
  const after = (await page.locator(".after").textContent()) ?? "";
  check(
    "the sentence stays after the stop",
    /Announced at .*: 5 nodes finish their step first.*3 nodes have not begun and stay as they are/.test(after)
      ? []
      : [after],
  );
  await script(service, nodes, null);
  await untilStored(service, uuid, "STOPPED");
  check("the stopped operation has the runs of the database", await untilNone(() => runsDiffer(tab, service, uuid)));
  const rows = await service.sql<{ state: string; steps: boolean; count: number }[]>`
    select state, started_at is not null as steps, count(*)::int as count from runs where operation_id = ${uuid} group by 1, 2`;
  const stopped = rows.filter(({ state }) => state === "STOPPED").reduce((sum, { count }) => sum + count, 0);
  check("all nodes of the stop are stopped", stopped === 8 ? [] : [JSON.stringify(rows)]);
  await page.getByRole("button", { name: "Restart…" }).click();
  await dialog.getByText("8 nodes continue").waitFor();
  await judgeLooks(lab, tab, "restart dialog");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  check("nothing is wrong on the operation", tab.flaws);
}

/** From the fleet to the line of the log with the cause, and to the restart, without GraphQL. */
async function finds(lab: Lab): Promise<void> {
  const { service, check } = lab;
  const broken = names(10, 2);
  await script(service, broken, {
    "clean.erase_disks": { says: ["\u001b[31mreading <b>sector</b> 7\u001b[0m"], fail: "the disk is worn out" },
  });
  const uuid = await begin(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { names: broken },
    onFailure: "LEAVE",
  });
  await untilStored(service, uuid, "FAILED");
  await using tab = await lab.open("/");
  const { page } = tab;
  const group = page.locator('.groups > li[data-kind="FAILED"]');
  await group.getByText("the disk is worn out").waitFor();
  await judgeLooks(lab, tab, "attention");
  await group.locator("summary").click();
  await group.getByRole("link", { name: broken[0] ?? "" }).click();
  await page.getByRole("log").getByText("reading <b>sector</b> 7").waitFor();
  check("two clicks lead to the line of the log, as text and without colors", []);
  await page.getByRole("heading", { name: "Life line" }).waitFor();
  await judgeLooks(lab, tab, "node");
  await page.goBack();
  await script(service, broken, null);
  await group.getByRole("button", { name: "Restart…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("2 nodes continue").waitFor();
  const typed = dialog.getByLabel(/^Type 2/);
  if (await typed.isVisible()) await typed.fill("2");
  await dialog.getByRole("button", { name: "Restart 2 nodes" }).dblclick();
  await page.getByRole("heading", { level: 1, name: "Commission" }).waitFor();
  const [row] = await service.sql<{ count: number }[]>`
    select count(distinct operation_id)::int as count from runs where node_name = ${broken[0] ?? ""}`;
  check("a double click on the restart begins one operation", row?.count === 2 ? [] : [`${row?.count} operations`]);
  await page.getByRole("heading", { level: 1 }).getByText("Succeeded").waitFor();
  check("nothing is wrong on the way", tab.flaws);
}

/** More runs than a page of the service has: all of them are read, and followed. */
async function manyRuns(lab: Lab): Promise<void> {
  const { service, check } = lab;
  const nodes = names(20, 120);
  await script(service, nodes, { "clean.erase_disks": { stuck: true } });
  const uuid = await begin(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { names: nodes },
    onFailure: "LEAVE",
    maxParallel: 2,
  });
  await using tab = await lab.open(`/operations/${uuid}`);
  const { page } = tab;
  await page.locator('[role="grid"][aria-rowcount="121"][aria-busy="false"]').waitFor();
  check(
    "an operation has all of its runs, of which only those in view are in the document",
    await rowsInView(tab, 120),
  );
  check("a large operation has the runs of the database", await untilNone(() => runsDiffer(tab, service, uuid)));
  await page.getByRole("button", { name: /^Queued/ }).click();
  await page.locator('[role="grid"][aria-rowcount="119"]').waitFor();
  check("a number shows its runs alone, by the address", page.url().endsWith("?runs=QUEUED") ? [] : [page.url()]);
  const grid = page.getByRole("grid");
  await grid.press("End");
  await grid.getByText(nodes.at(-1) ?? "").waitFor();
  await page.getByRole("button", { name: "Abort…" }).click();
  const dialog = page.getByRole("dialog");
  const before = /^2 nodes end now.*118 nodes have not begun and stay as they are\./;
  await dialog.locator(".sentence").getByText(before).waitFor();
  const send = dialog.getByRole("button", { name: "Abort 120 nodes" });
  check("an abort that powers off several nodes needs their number", (await send.isDisabled()) ? [] : ["it does not"]);
  await dialog.getByLabel(/^Type 2/).fill("2");
  await send.click();
  await untilStored(service, uuid, "ABORTED");
  await page.getByText("120 aborted. None is left.").waitFor();
  check("the aborted operation has the runs of the database", await untilNone(() => runsDiffer(tab, service, uuid)));
  const [row] = await service.sql<{ enrolled: number; failed: number }[]>`
    select count(*) filter (where state = 'ENROLLED')::int as enrolled,
      count(*) filter (where state = 'CLEAN_FAILED')::int as failed from nodes where name = any(${nodes})`;
  check(
    "the announced numbers are what happened",
    row?.enrolled === 118 && row.failed === 2 ? [] : [JSON.stringify(row)],
  );
  check("nothing is wrong on a large operation", tab.flaws);
}

async function rowsInView({ page }: Tab, all: number): Promise<readonly string[]> {
  const rows = await page.locator("[data-id]").count();
  return rows > 0 && rows < all / 2 ? [] : [`${rows} rows`];
}

const DAY_MS = 86_400_000;
const REFUSAL = '{"errors":[{"message":"Wrong token.","extensions":{"code":"UNAUTHENTICATED"}}]}';

async function outage(lab: Lab): Promise<void> {
  const { service, proxy, check } = lab;
  await using tab = await lab.open("/");
  tab.expectsFailures = true;
  const { page } = tab;
  // Else it may be live again before the next frame.
  proxy.refusesSockets = true;
  try {
    proxy.cut();
    await page.getByText(/^Reconnecting, as of \d\d:\d\d:\d\d$|^Catching up$/).waitFor();
  } finally {
    proxy.refusesSockets = false;
  }
  check("a page without its connection keeps its nodes", await untilNone(() => countsDiffer(tab, service)));
  await live(page);
  await service.kill();
  await page.getByText("Reconnecting, as of").waitFor();
  await service.start();
  await live(page);
  check("after a kill of the service the counts equal the database", await untilNone(() => countsDiffer(tab, service)));
  proxy.refusesSockets = true;
  await using other = await openTab(lab.browser, proxy.url);
  other.expectsFailures = true;
  await other.page.goto(`${proxy.url}/console/`);
  await other.page.getByText("WebSocket is refused").waitFor();
  check("a proxy that lets no WebSocket pass is named within seconds", []);
  proxy.refusesSockets = false;
  await live(other.page);
  proxy.replacement = { status: 502, type: "text/html", body: "<h1>Bad gateway</h1>" };
  await other.page.goto(`${proxy.url}/console/nodes/${nameOf(0)}`);
  await other.page.getByText("a proxy between may have sent it").first().waitFor({ timeout: 60_000 });
  proxy.replacement = null;
  check("an answer of a proxy is named as one", []);
  proxy.replacement = { status: 401, type: "text/html", body: "<h1>Who are you?</h1>" };
  await page.getByRole("link", { name: "Activity" }).click();
  await page.getByText("Signed out").waitFor();
  proxy.replacement = null;
  check(
    "a login of a proxy leaves the page",
    (await page.getByRole("heading", { name: "Activity" }).count()) === 1 ? [] : ["it is gone"],
  );
  await page.getByText("Signed out").waitFor({ state: "hidden" });
  await live(page);
  check("and it recovers without a click", []);
  proxy.replacement = { status: 401, type: "application/json", body: REFUSAL };
  await other.page.goto(`${proxy.url}/console/activity`);
  await other.page.getByRole("heading", { name: "Sign in to Ostler" }).waitFor();
  proxy.replacement = { status: 403, type: "text/html", body: "<h1>Forbidden</h1>" };
  await page.getByRole("link", { name: "Operations" }).click();
  await page.getByText("(status 403) is not one of the service").first().waitFor();
  proxy.replacement = null;
  await live(other.page);
  check("a page that was refused when it was opened recovers too", []);
  await page.getByText("(status 403)").first().waitFor({ state: "hidden" });
  check("and so does one that was forbidden to read", []);
  await page.goto(`${proxy.url}/console/nodes/${nameOf(1)}`);
  await live(page);
  // The second click is outside of the dialog that the first one opens.
  await page.getByRole("button", { name: "Commission…" }).dblclick({ delay: 50 });
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("spring");
  proxy.replacement = { status: 401, type: "application/json", body: REFUSAL };
  // The page reads the node again.
  await service.ask(
    `mutation { updateNodes(input: { nodes: { names: ["${nameOf(1)}"] }, description: "moved" }) { changedCount } }`,
  );
  await dialog.getByText("Wrong token.").waitFor();
  proxy.replacement = null;
  await dialog.getByText("Wrong token.").waitFor({ state: "hidden" });
  await dialog.getByText(/^As of /).waitFor();
  const kept = await dialog.getByLabel("Reason").inputValue();
  check("a dialog outlasts a 401, with what was typed", kept === "spring" ? [] : [kept]);
  await using late = await openTab(lab.browser, proxy.url);
  await late.page.clock.setFixedTime(Date.now() + DAY_MS);
  await late.page.goto(`${proxy.url}/console/nodes?filter=changed:1h`);
  await late.page.getByText(/^[1-9][\d,]* nodes?$/).waitFor();
  check("a computer whose clock is a day ahead shows the changes of the last hour", []);
  check("nothing else is wrong during an outage", [...tab.flaws, ...other.flaws, ...late.flaws]);
}

/** Addresses that people mistype, and that others make. */
async function addresses(lab: Lab): Promise<void> {
  const { check, proxy } = lab;
  await using tab = await lab.open("/");
  tab.expectsFailures = true;
  const { page } = tab;
  const cases: readonly (readonly [string, RegExp])[] = [
    ["/?show=bogus", /The address has what this screen does not know: show=bogus/],
    ["/?//evil.example=javascript:alert(1)", /does not know/],
    ["/nodes/node-0000x", /Node node-0000x does not exist/],
    ["/nodes/%00", /does not exist|cannot|not valid|Invalid/],
    ["/nodes/%zz", /not valid/],
    ["/nodes/%3Cscript%3Ealert(1)%3C%2Fscript%3E", /Node <script>alert\(1\)<\/script> does not exist/],
    ["/operations/7f2", /Operation 7f2 does not exist/],
    ["/operations/..%2F..%2Fx", /Operation .* does not exist/],
    ["/nodes?columns=bogus&sort=-x", /does not know: columns=bogus, sort=-x/],
    ["/nodes?filter=javascript:alert(1)&x=//evil.example", /there is no field "javascript"/],
    ['/nodes?sort=x&filter="open', /the quote is not closed/],
    [`/nodes?sort=x&filter=${"x".repeat(5_000)}`, /use at most 4,000/],
    ["/clusters/bogus", /Cluster bogus does not exist/],
    ["/clusters/%3Cb%3E?x=javascript:alert(1)", /Cluster <b> does not exist/],
    ["/operations?kind=BOGUS&period=century", /does not know: kind=BOGUS, period=century/],
    ["/activity?kind=//evil.example", /does not know: kind=\/\/evil.example/],
    ["/bogus", /This screen does not exist/],
    [`/nodes/${"x".repeat(2_000)}`, /Node x{60} does not exist/],
  ];
  for (const [path, text] of cases) {
    await page.goto(`${proxy.url}/console${path}`);
    // A page that reads again when the fleet has come shows its answer twice.
    const flaws = await untilNone(async () => {
      const shown = await page
        .locator("main")
        .innerText()
        .catch(() => "no page");
      const leaves = await page.getByRole("link", { name: /Show the (fleet|screen)/ }).count();
      return text.test(shown) && leaves > 0 ? [] : [shown.slice(0, 300)];
    });
    check(`the address ${path.slice(0, 50)} is answered with a way out`, flaws);
  }
  check("no address leads to another host or an error", tab.flaws);
}

async function signsIn({ browser, check, pictures }: Lab): Promise<void> {
  const token = "correct-horse-battery-staple";
  await using service = await startService("--token", token);
  await using proxy = await startProxy(service.url);
  await using tab = await openTab(browser, proxy.url);
  tab.expectsFailures = true;
  const { page } = tab;
  await page.goto(`${proxy.url}/console/nodes/none?run=1`);
  const field = page.getByLabel("Token");
  await field.waitFor();
  await judgeLooks({ check, pictures }, tab, "sign-in");
  // With keys alone; the field is the first stop.
  await page.keyboard.press("Tab");
  await page.keyboard.type("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  check(
    "a wrong token is refused, and can be corrected",
    (await field.inputValue()) === "wrong" ? [] : ["the field is empty"],
  );
  await page.keyboard.press("Control+a");
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
  await page.getByText("Node none does not exist").waitFor();
  check(
    "after the sign-in the page is that of the address",
    new URL(page.url()).search === "?run=1" ? [] : [page.url()],
  );
  const kept = await page.evaluate(() => JSON.stringify([localStorage, document.cookie, location.href]));
  check("the token is in no address and no lasting storage", kept.includes(token) ? [kept] : []);
  const user = page.getByRole("button", { name: /token/ });
  await user.click();
  await judgeLooks({ check, pictures }, tab, "user");
  await page.getByRole("button", { name: "Keys" }).click();
  await page.getByRole("dialog").getByText("Filter the nodes").waitFor();
  await page.keyboard.press("Escape");
  check(
    "the focus returns from the keys to the menu of the user",
    await untilNone(async () =>
      (await user.evaluate((button) => button === document.activeElement)) ? [] : ["it is elsewhere"],
    ),
  );
  await user.click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  const left = await page.evaluate(() => sessionStorage.length);
  check("a sign-out leaves nothing of the fleet", left === 0 ? [] : [`${left} values`]);
  check("nothing else is wrong with the sign-in", tab.flaws);
}

/** An open page follows the rights of its caller, without a new load. */
async function losesRights({ browser, check }: Lab): Promise<void> {
  const token = "correct-horse-battery-staple";
  await using service = await startService("--token", token);
  await using tab = await openTab(browser, service.url);
  tab.expectsFailures = true;
  const { page } = tab;
  const mutate = async (text: string) => {
    const { answer } = await ask<{ readonly answer: { readonly secret?: string } }>(service.url, text, { token });
    return answer.secret ?? "";
  };
  const roles = (...granted: readonly string[]) =>
    mutate(
      `mutation { answer: setRoles(input: { principal: "account:otto", roles: [${granted
        .map((name) => `{ role: "${name}" }`)
        .join()}] }) { errors { message } } }`,
    );
  await mutate(
    'mutation { answer: registerNodes(input: { nodes: [{ name: "n-1", driver: { fake: {} } }] }) { errors { message } } }',
  );
  await mutate('mutation { answer: createAccount(input: { name: "otto" }) { errors { message } } }');
  await roles("operator");
  const newToken = () =>
    mutate('mutation { answer: createToken(input: { account: "otto" }) { secret errors { message } } }');
  const revoke = () =>
    mutate('mutation { answer: revokeTokens(input: { tokens: { account: "otto" } }) { errors { message } } }');
  await page.goto(`${service.url}/console/nodes/n-1`);
  await page.getByLabel("Token").fill(await newToken());
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Commission…" }).and(page.locator(":enabled")).waitFor();
  await roles("viewer");
  const isShown = (text: string | RegExp) =>
    page
      .getByText(text)
      .first()
      .waitFor()
      .then(
        () => [],
        () => [`${text} is not shown`],
      );
  check("a page whose caller loses a role shows it", await isShown("It requires OPERATE; you have READ."));
  await mutate('mutation { answer: createCluster(input: { name: "lab" }) { errors { message } } }');
  const enabled = async () => {
    await page.getByRole("button", { name: "Edit host groups…" }).waitFor();
    return page.getByRole("button", { name: /…$/ }).and(page.locator("main button:enabled")).allTextContents();
  };
  await page.goto(`${service.url}/console/clusters/lab`);
  check(
    "no button of a cluster is enabled for a viewer",
    await untilNone(async () => ((await enabled()).length === 0 ? [] : enabled())),
  );
  await roles("operator");
  check(
    "an operator may deploy the cluster, and not change it",
    await untilNone(async () => {
      const shown = await enabled();
      return shown.includes("Deploy changes…") && !shown.includes("Edit host groups…")
        ? []
        : [`enabled: ${shown.join(", ")}`];
    }),
  );
  await roles("viewer");
  await page.goto(`${service.url}/console/nodes/n-1`);
  // A page that is still reading nodes tries again, and needs no button.
  await live(page);
  await roles();
  check("one whose caller loses the last role shows who has none", await isShown("Nothing is shown to you"));
  check("and nothing of the fleet", (await page.getByText("n-1").count()) === 0 ? [] : ["n-1 is shown"]);
  await roles("viewer");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "n-1" }).waitFor();
  const denied = await service.sql`select from audit where action = 'LOGIN_FAILED'`;
  check("no page has made a failed login", denied.length === 0 ? [] : [`${denied.length} rows`]);
  await roles("operator");
  await page.goto(`${service.url}/console/nodes`);
  await live(page);
  await page.getByRole("checkbox", { name: "Select all" }).check();
  await page.getByLabel("Filter").fill("name:n");
  await page.getByRole("button", { name: "Commission…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("spring");
  await revoke();
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Token").fill("ключ");
  await page.keyboard.press("Enter");
  check("other text than a token is named", await isShown("This is not a token"));
  await page.getByLabel("Token").fill(token);
  const planned = page.waitForRequest((request) => (request.postData() ?? "").includes('"dryRun":true'));
  await page.keyboard.press("Enter");
  await live(page);
  await (await planned).response();
  await dialog.getByText(/^As of /).waitFor();
  const reason = await dialog.getByLabel("Reason").inputValue();
  await page.keyboard.press("Escape");
  const kept = [reason, await page.getByLabel("Filter").inputValue(), await page.getByText("1 selected").count()];
  check(
    "after another sign-in typed text and selection are there",
    differing("kept", ["spring", "name:n", "1"], kept.map(String)),
  );
  await page.getByRole("button", { name: /token/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.evaluate((text) => sessionStorage.setItem("ostler-token", text), await newToken());
  await page.reload();
  await live(page);
  await revoke();
  await page.getByText("Signed out").waitFor();
  await page.request.post(`${service.url}/auth/session`, { data: { token } });
  await live(page);
  check("a session that began elsewhere counts in place of a token that was revoked", []);
  check("nothing else is wrong with changed rights", tab.flaws);
}

async function wall(lab: Lab): Promise<void> {
  const { check, service } = lab;
  await using tab = await lab.open("/wall", { viewport: { width: 1920, height: 1080 } });
  const { page } = tab;
  check("the wall has the counts of the database", await untilNone(() => countsDiffer(tab, service)));
  const operable = await page.locator("button, a[href], input, select").filter({ visible: true }).count();
  check("nothing on the wall can be operated", operable === 0 ? [] : [`${operable} elements`]);
  await judgeLooks(lab, tab, "wall");
  check("nothing is wrong on the wall", tab.flaws);
}

/** At 320 pixels, and with text of twice the size, no screen is wider than the window. */
async function narrow(lab: Lab): Promise<void> {
  const { check } = lab;
  const screens = ["/", "/nodes", "/clusters", "/clusters/berlin", "/operations", "/activity", `/nodes/${nameOf(10)}`];
  for (const [width, size] of [
    [320, 16],
    [640, 32],
  ] as const) {
    await using tab = await lab.open("/", { viewport: { width, height: 700 } });
    const { page } = tab;
    const session = await page.context().newCDPSession(page);
    await session.send("Page.setFontSizes", { fontSizes: { standard: size } });
    for (const path of screens) {
      await page.goto(`${lab.proxy.url}/console${path}`);
      await live(page);
      await page.getByRole("heading", { level: 1 }).waitFor();
      const { wide, text } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - innerWidth,
        text: parseFloat(getComputedStyle(document.querySelector("main") ?? document.body).fontSize),
      }));
      const flaws = [
        ...(wide <= 0 ? [] : [`${wide} pixels too wide`]),
        ...(text === size * 0.875 ? [] : [`the text has ${text} pixels`]),
      ];
      check(`${path} fits into ${width} pixels with text of ${size}`, flaws);
    }
    check(`nothing is wrong in a window of ${width} pixels`, tab.flaws);
  }
}

export const SCENARIOS: Readonly<Record<string, (lab: Lab) => Promise<void>>> = {
  opens,
  stops,
  finds,
  "many-runs": manyRuns,
  list: filtersAndSelects,
  verb: plansAndBegins,
  palette: goesAnywhere,
  narrow,
  wall,
  addresses,
  "sign-in": signsIn,
  rights: losesRights,
  outage,
  keys: worksByKeys,
  edit: edits,
  tabs: survives,
  // Last: they register further nodes.
  groups,
  members: changesMembers,
  cluster: deploysChanges,
};
