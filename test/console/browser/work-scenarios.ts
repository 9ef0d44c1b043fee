/** The list of nodes, the dialog of verbs, and the palette: with keys alone where a person can use them. */
import { nameOf } from "./service.ts";
import { begin, script, untilNone } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { judgeLooks } from "./looks.ts";
import type { Tab } from "./tab.ts";

const names = (from: number, count: number) => Array.from({ length: count }, (_, index) => nameOf(from + index));
const is = (shown: unknown, wanted: unknown) =>
  String(shown) === String(wanted) ? [] : [`shown ${String(shown)}, and not ${String(wanted)}`];

const listed = ({ page }: Tab) => page.locator(".list-bar > b");
const grid = ({ page }: Tab) => page.getByRole("grid", { name: "Nodes" });

/** The number of rows of the list, as soon as it is that of the database. */
function untilListed(tab: Tab, { service }: Lab, condition: string): Promise<readonly string[]> {
  return untilNone(async () => {
    const [row] = await service.sql.unsafe<{ count: number }[]>(
      `select count(*)::int as count from nodes where ${condition}`,
    );
    const count = row?.count ?? 0;
    return is(await listed(tab).textContent(), `${count.toLocaleString("en")} ${count === 1 ? "node" : "nodes"}`);
  });
}

export async function filtersAndSelects(lab: Lab): Promise<void> {
  const { check, nodes } = lab;
  await using tab = await lab.open("/nodes");
  const { page } = tab;
  check("the list has every node of the database", await untilListed(tab, lab, "true"));
  const drawn = await page.getByRole("row").count();
  check("only the rows that are visible are in the document", drawn < 60 ? [] : [`${drawn} rows`]);
  await page.keyboard.press("/");
  await page.keyboard.type("name^node-0000 -na");
  await page.getByRole("option", { name: "name:" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type(nameOf(3));
  check("keys alone filter the list", await untilListed(tab, lab, `name like 'node-0000%' and name <> '${nameOf(3)}'`));
  await grid(tab).focus();
  for (const key of ["x", "j", "ArrowDown", "Shift+X"]) await page.keyboard.press(key);
  const selected = page.locator(".selected b");
  check("keys alone select a range", is(await selected.textContent(), "3 selected"));
  await judgeLooks(lab, tab, "nodes");
  await page.locator("#filter").fill(`name:${nameOf(1)}`);
  check("another filter shows other nodes", await untilListed(tab, lab, `name = '${nameOf(1)}'`));
  check(
    "the selection stays, and counts what the filter hides",
    is(await page.locator(".selected p").innerText(), "3 selected (2 not in this filter) Clear the selection"),
  );
  await page.locator("#filter").fill("nme:x");
  await page.getByText("Did you mean name?").waitFor();
  check("a filter with a flaw keeps the rows", is(await listed(tab).textContent(), "1 node"));
  await page.locator("#filter").fill("serial:none");
  await page.getByText("not live").waitFor();
  check("a filter that no stream follows is marked", []);
  await page.locator("#filter").fill("");
  check("without a filter all nodes are back", await untilListed(tab, lab, "true"));
  await grid(tab).focus();
  await page.keyboard.press("Control+a");
  check("all that match are selected", is(await selected.textContent(), `${nodes.toLocaleString("en")} selected`));
  await page.keyboard.press("Escape");
  check("Escape clears the selection", is(await selected.count(), 0));
  await page.getByLabel("Sort").selectOption("-name");
  await page.reload();
  await grid(tab)
    .getByText(nameOf(nodes - 1))
    .waitFor();
  check("the order is in the address", is(new URL(page.url()).search, "?sort=-name"));
  check("nothing is wrong on the list", tab.flaws);
}

/** The node changes after its plan, and the person leaves before the request is refused. */
async function leavesBeforeTheAnswer({ check, proxy, service }: Lab, { page }: Tab, name: string): Promise<void> {
  await page.goto(`${proxy.url}/console/`);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type(name);
  await page.getByRole("option").filter({ hasText: name }).last().waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await page.getByRole("button", { name: "Commission…", exact: true }).click();
  const send = page.getByRole("dialog").getByRole("button", { name: "Commission 1 node" });
  await send.waitFor();
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  await page.route("**/graphql", async (route) => {
    if (route.request().postData()?.includes('"idempotencyKey"')) await answered;
    await route.continue();
  });
  await send.click();
  const maintenance = { nodes: { names: [name] } };
  await service.ask("mutation($input: SetMaintenanceInput!) { setMaintenance(input: $input) { count } }", {
    input: { ...maintenance, reason: "another person" },
  });
  await page.goBack();
  answer();
  await page.getByText(`Commission ${name}: nothing was done.`).waitFor();
  check("a refusal is shown to a person who has left its dialog", []);
  await page.getByRole("button", { name: "Close" }).click();
  await page.unroute("**/graphql");
  await service.ask("mutation($input: ClearMaintenanceInput!) { clearMaintenance(input: $input) { count } }", {
    input: maintenance,
  });
}

/** Four nodes, of which one is in maintenance, and one changes between the plan and the request. */
export async function plansAndBegins(lab: Lab): Promise<void> {
  const { check, service } = lab;
  const [hidden = "", changed = ""] = names(15, 2);
  await service.ask("mutation($input: SetMaintenanceInput!) { setMaintenance(input: $input) { count } }", {
    input: { nodes: { names: [hidden] }, reason: "<b>fan</b>" },
  });
  await using tab = await lab.open(`/nodes?filter=name:${names(14, 4).join(",")}`);
  const { page } = tab;
  check("the list of the address is shown", await untilListed(tab, lab, "name between 'node-00014' and 'node-00017'"));
  await grid(tab).focus();
  await page.keyboard.press("Control+a");
  await page.getByRole("button", { name: "Commission…", exact: true }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 of 4 nodes accept it").waitFor();
  const refused = await dialog.locator(".refusals").innerText();
  check("the plan names the refused node with its reason", refused.includes(hidden) ? [] : [refused]);
  await judgeLooks(lab, tab, "verb dialog");
  await dialog.getByText("At a time, waves").click();
  await dialog.getByLabel("Waves").fill("1, bogus");
  await dialog.getByText("such as 1 %, 10 %, rest").waitFor();
  const send = dialog.locator('button[type="submit"]');
  check("a term with a flaw cannot be sent", is(await send.isDisabled(), true));
  await dialog.getByLabel("Waves").fill("1, rest");
  await dialog.getByLabel("Reason").fill("a check");
  await dialog.getByLabel(/^Type 3/).fill("3");
  await dialog.getByText("As of").waitFor();
  await service.ask("mutation($input: SetMaintenanceInput!) { setMaintenance(input: $input) { count } }", {
    input: { nodes: { names: [changed] }, reason: "another person" },
  });
  await send.click();
  await dialog.getByText("2 nodes accepted, before 3").waitFor();
  const [none] = await service.sql<{ count: number }[]>`
    select count(*)::int as count from runs where node_name = any(${names(14, 4)}) and finished_at is null`;
  check("a node that changes after the plan leads to another plan, and nothing is done", is(none?.count, 0));
  check("the typed reason stays", is(await dialog.getByLabel("Reason").inputValue(), "a check"));
  await judgeLooks(lab, tab, "changed plan");
  const sent: string[] = [];
  page.on("request", (request) => void sent.push(request.postData() ?? ""));
  await dialog.getByLabel(/^Type 2/).fill("2");
  await send.dblclick();
  await page.getByRole("heading", { level: 1, name: "Commission" }).waitFor();
  const rows = await service.sql<{ node_name: string }[]>`
    select node_name from runs where node_name = any(${names(14, 4)}) order by node_name`;
  check(
    "exactly the accepted nodes are in the one operation of a double click",
    is(rows.map((row) => row.node_name).join(), [nameOf(14), nameOf(17)].join()),
  );
  const ids = sent.filter((text) => text.includes("planHash") && text.includes('"idempotencyKey"'));
  check(
    "the request names two nodes, and is sent once",
    is(
      ids.map((text) => text.split("Tm9kZT").length - 1),
      2,
    ),
  );
  // An interrupt from one node, and the end of maintenance from the palette.
  await page.goto(`${lab.proxy.url}/console/nodes/${hidden}`);
  await page.getByRole("heading", { level: 1, name: hidden }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type(`end maintenance ${hidden}`);
  await page.getByRole("option", { name: /^End maintenance/ }).waitFor();
  await page.keyboard.press("Enter");
  await dialog.getByRole("button", { name: "End the maintenance of 1 node" }).click();
  await dialog.waitFor({ state: "detached" });
  check(
    "the palette ends the maintenance of the node of the page",
    await untilNone(async () => {
      const [row] = await service.sql<{ reason: string | null }[]>`
        select maintenance_reason as reason from nodes where name = ${hidden}`;
      return row?.reason === null ? [] : [`${row?.reason}`];
    }),
  );
  await service.ask("mutation($input: ClearMaintenanceInput!) { clearMaintenance(input: $input) { count } }", {
    input: { nodes: { names: [changed] } },
  });
  await leavesBeforeTheAnswer(lab, tab, hidden);
  check("nothing is wrong with the verbs", tab.flaws);
}

/** To a node, an operation and a cluster, and to the table of keys; single letters can be switched off. */
export async function goesAnywhere(lab: Lab): Promise<void> {
  const { check, service } = lab;
  const [stuck = ""] = names(18, 1);
  await script(service, [stuck], { "verify.verify": { stuck: true } });
  const uuid = await begin(service, "manageNodes", "ManageNodesInput!", { nodes: { names: [stuck] } });
  await using tab = await lab.open("/");
  const { page } = tab;
  const go = async (text: string) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type(text);
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("Enter");
  };
  await page.keyboard.press("Control+k");
  await page.getByRole("option").first().waitFor();
  await judgeLooks(lab, tab, "palette");
  await page.keyboard.press("Escape");
  await go(stuck);
  await page.getByRole("heading", { level: 1, name: stuck }).waitFor();
  check("the palette leads to a node", is(new URL(page.url()).pathname, `/console/nodes/${stuck}`));
  await go(uuid);
  await page.getByRole("heading", { level: 1, name: "Manage" }).waitFor();
  check(
    "the palette leads to an operation by its UUID",
    is(new URL(page.url()).pathname, `/console/operations/${uuid}`),
  );
  const { operations } = await service.ask<{ operations: { nodes: readonly [{ readonly uuid: string }] } }>(
    "{ operations(first: 1, filter: { states: [SUCCEEDED] }) { nodes { uuid } } }",
  );
  const [{ uuid: ended }] = operations.nodes;
  await go(ended.slice(0, 8));
  check(
    "the palette leads to an operation that has ended, by the beginning of its UUID",
    await untilNone(async () => is(new URL(page.url()).pathname, `/console/operations/${ended}`)),
  );
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await judgeLooks(lab, tab, "keys");
  await page.getByRole("checkbox").uncheck();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("?");
  check("single letters can be switched off", is(await page.getByRole("dialog").count(), 0));
  await script(service, [stuck], null);
  check("nothing is wrong with the palette", tab.flaws);
}
