/** The editors of a node and of host groups, and the modes of an abort. */
import { nameOf } from "./service.ts";
import { begin, script, untilNone, untilStored } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { judgeLooks } from "./looks.ts";

const NODE = nameOf(140);
const CLUSTER = "groups";

const is = (shown: unknown, wanted: unknown) =>
  String(shown) === String(wanted) ? [] : [`shown ${String(shown)}, and not ${String(wanted)}`];

export async function edits(lab: Lab): Promise<void> {
  const { check, service } = lab;
  await using tab = await lab.open(`/nodes/${NODE}`);
  const { page } = tab;
  const dialog = page.getByRole("dialog");
  const save = dialog.getByRole("button", { name: "Save" });
  await page.getByRole("button", { name: "Edit…" }).click();
  await dialog.getByLabel("Description").fill("x".repeat(1_001));
  await dialog.getByLabel("Host group").fill("no group!");
  await dialog.getByLabel("Labels").fill("rack=r3\nbad key!=1");
  await save.click();
  const flaws = dialog.locator(".field", { has: page.locator(".failure") });
  await flaws.first().waitFor();
  check("every flaw of a refused change is at its field", is(await flaws.count(), 3));
  await judgeLooks(lab, tab, "edit node");
  await dialog.getByLabel("Description").fill("by the door");
  await dialog.getByLabel("Host group").fill("workers");
  await dialog.getByLabel("Labels").fill("rack=r3\nrow=b");
  const theirs = async (input: object) =>
    service.ask("mutation($input: UpdateNodesInput!) { updateNodes(input: $input) { changedCount } }", {
      input: { nodes: { names: [NODE] }, ...input },
    });
  await theirs({ description: "theirs", protected: true });
  await save.click();
  await dialog.getByText("Changed by another person meanwhile: description (theirs, before nothing)").waitFor();
  await dialog.getByRole("button", { name: "Compare with the new values" }).click();
  // Another field than those of the editor: the save is sent again for the new revision.
  await theirs({ protected: false });
  await save.click();
  await dialog.waitFor({ state: "detached" });
  const { node } = await service.ask<{ node: object }>(
    `{ node(by: { name: "${NODE}" }) { description hostGroup protected labels { key value } } }`,
  );
  check(
    "what was typed is saved over what was compared",
    is(
      JSON.stringify(node),
      '{"description":"by the door","hostGroup":"workers","protected":false,"labels":[{"key":"rack","value":"r3"},{"key":"row","value":"b"}]}',
    ),
  );
  check(
    "the focus is back where the dialog was opened",
    is(await page.evaluate(() => document.activeElement?.textContent), "Edit…"),
  );
  await page.getByText("rack=r3, row=b").waitFor();
  check("nothing is wrong with the editor of a node", tab.flaws);
}

/** Workers begin after all masters, one of which is held at a gate. */
export async function groups(lab: Lab): Promise<void> {
  const { check, service } = lab;
  await service.ask("mutation($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }", {
    input: { name: CLUSTER },
  });
  const nodes = ["group-m1", "group-m2", "group-w1"].map((name) => ({
    name,
    driver: { fake: { delayMs: 50 } },
    cluster: { name: CLUSTER },
    hostGroup: name.includes("-m") ? "masters" : "workers",
  }));
  await service.ask("mutation($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }", {
    input: { nodes },
  });
  await using tab = await lab.open("/");
  const { page } = tab;
  await page.getByRole("heading", { name: CLUSTER }).getByRole("link").click();
  await page.getByRole("heading", { level: 1, name: CLUSTER }).waitFor();
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Edit host groups…" }).click();
  for (const [index, name, after] of [
    [0, "masters", "workers"],
    [1, "workers", "masters, ghosts"],
  ] as const) {
    await dialog.getByRole("button", { name: "Add a host group" }).click();
    await dialog.getByLabel("Name").nth(index).fill(name);
    await dialog.getByLabel("Begins after").nth(index).fill(after);
  }
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("masters → workers → masters wait for each other").waitFor();
  await dialog.getByText("comes after ghosts, which the cluster does not have").waitFor();
  await judgeLooks(lab, tab, "host groups");
  await dialog.getByLabel("Begins after").first().fill("");
  await dialog.getByLabel("Begins after").last().fill("masters");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  const workers = page.locator(".history-line", { hasText: "workers" });
  await workers.getByText("After masters: 0 of 2 needed nodes active, 2 missing.").waitFor();
  await page.getByRole("button", { name: "Deploy changes…" }).click();
  await dialog.getByText("masters: 2 nodes begin at once.").waitFor();
  await dialog.getByText("workers: 1 node begins when masters has 2 active nodes (now 0).").waitFor();
  check("the plan says which group waits for which, with the numbers", []);
  await judgeLooks(lab, tab, "group plan");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await script(service, ["group-m2"], { "deploy.write_image": { stuck: true } });
  const uuid = await begin(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { cluster: { name: CLUSTER } },
    onFailure: "LEAVE",
  });
  await workers.getByText("1 node waits for masters.").waitFor();
  await workers.getByText("After masters: 1 of 2 needed nodes active, 1 missing.").waitFor();
  await page.goto(`${lab.proxy.url}/console/operations/${uuid}`);
  await page.getByRole("button", { name: "Abort…" }).click();
  await dialog.getByText("Asking what it would do…").first().waitFor({ state: "detached" });
  const forced = dialog.locator(".modes label", { hasText: "By force" });
  await forced.getByText("The condition of 1 node is unknown afterwards.").waitFor();
  check("each mode of an abort has its forecast", is(await dialog.locator(".modes small").count(), 4));
  await judgeLooks(lab, tab, "abort dialog");
  await forced.click();
  await dialog.getByText("As of").waitFor();
  const send = dialog.locator('button[type="submit"]');
  check("an abort by force needs a reason", is(await send.isDisabled(), true));
  await dialog.getByLabel("Reason").fill("a check");
  await send.click();
  await untilStored(service, uuid, "ABORTED");
  check(
    "a cluster shows what waits for what, until it is aborted by force",
    await untilNone(async () => {
      const [row] = await service.sql<{ count: number }[]>`
        select count(*)::int as count from runs where operation_id = ${uuid} and finished_at is null`;
      return is(row?.count, 0);
    }),
  );
  check("nothing is wrong with host groups and modes", tab.flaws);
}
