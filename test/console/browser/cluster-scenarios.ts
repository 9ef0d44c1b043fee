/** The story of a cluster on one page: commissioned, stopped in the middle, changed, deployed again. */
import { script, untilNone } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { judgeLooks } from "./looks.ts";
import type { Service } from "./service.ts";
import { live } from "./tab.ts";

const CLUSTER = "fuel";
const NODES = ["fuel-1", "fuel-2", "fuel-3", "fuel-4"];
const IMAGE = {
  name: "debian-13",
  url: "http://127.0.0.1/debian.raw",
  architecture: "X64",
  format: "RAW",
  sizeBytes: 1,
  checksum: { algorithm: "SHA256", value: "0".repeat(64) },
};
const GATE = { "deploy.write_image": { stuck: true } };

async function prepare(service: Service): Promise<void> {
  await service.ask("mutation($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }", {
    input: { name: CLUSTER, variables: { ntp: "10.0.0.1" } },
  });
  const nodes = NODES.map((name) => ({ name, driver: { fake: { delayMs: 50 } }, cluster: { name: CLUSTER } }));
  await service.ask("mutation($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }", {
    input: { nodes },
  });
  await script(service, NODES.slice(2), GATE);
}

function untilStates(service: Service, wanted: string): Promise<readonly string[]> {
  return untilNone(async () => {
    const rows = await service.sql<{ state: string }[]>`
      select state from nodes where name = any(${NODES}) order by name`;
    // A step that is stuck waits after a while.
    const states = rows.map(({ state }) => state.replace("DEPLOY_WAIT", "DEPLOYING")).join();
    return states === wanted ? [] : [states];
  });
}

export async function deploysChanges(lab: Lab): Promise<void> {
  const { check, service } = lab;
  await prepare(service);
  const path = `/clusters/${encodeURIComponent(CLUSTER)}`;
  await using tab = await lab.open("/clusters");
  const { page } = tab;
  await judgeLooks(lab, tab, "clusters");
  const open = async () => {
    await page.goto(`${lab.proxy.url}/console${path}`);
    await live(page);
  };
  const state = (text: string) => page.getByRole("heading", { level: 1 }).getByText(text).waitFor();
  const dialog = page.getByRole("dialog");
  await page.getByRole("link", { name: CLUSTER }).click();
  await state("New");
  await page.getByRole("button", { name: "Commission…", exact: true }).click();
  await dialog.getByLabel(/^Type 4/).fill("4");
  await dialog.locator('button[type="submit"]').dblclick();
  await page.getByRole("heading", { level: 1, name: `Commission ${CLUSTER}` }).waitFor();
  check(
    "half of the cluster is active, and half is at its gate",
    await untilStates(service, "ACTIVE,ACTIVE,DEPLOYING,DEPLOYING"),
  );
  await open();
  await state("Deploying");
  await judgeLooks(lab, tab, "cluster");
  await page.getByRole("button", { name: "Stop deployment…" }).click();
  await dialog.getByText("2 nodes finish their step first").waitFor();
  const stop = dialog.locator('button[type="submit"]');
  check(
    "the button says how many nodes are stopped",
    /^Stop 2 nodes$/.test((await stop.textContent()) ?? "") ? [] : [String(await stop.textContent())],
  );
  await stop.click();
  await page.getByText("Announced at").waitFor();
  await open();
  await state("Stopping");
  await script(service, NODES.slice(2), null);
  check("the stop lets each step end", await untilStates(service, "ACTIVE,ACTIVE,STOPPED,STOPPED"));
  await state("Partially deployed");

  const variables = page.getByLabel("Variables, as JSON");
  const save = page.getByRole("button", { name: "Save" });
  await variables.fill('{"ntp": ');
  await page.getByText("This is not JSON").waitFor();
  check("text that is not JSON cannot be saved", (await save.isDisabled()) ? [] : ["it can"]);
  await variables.fill('{"ntp": "10.0.0.2\u202e"}');
  await page.getByText("Characters that are not visible: U+202E in line 1").waitFor();
  await variables.fill('{"ntp": "10.0.0.2"}');
  await page.getByRole("link", { name: "Activity" }).click();
  await page.getByRole("heading", { level: 1, name: "Activity" }).waitFor();
  await page.goBack();
  await page.getByText(/^Changed: .*ntp/).waitFor();
  check(
    "what was typed is there after another screen",
    (await variables.inputValue()) === '{"ntp": "10.0.0.2"}' ? [] : [await variables.inputValue()],
  );
  await service.ask("mutation($input: UpdateClusterInput!) { updateCluster(input: $input) { errors { message } } }", {
    input: { cluster: { name: CLUSTER }, variables: { dns: "10.0.0.3" } },
  });
  await page.getByText(/^Changed by another person meanwhile: .*dns/).waitFor();
  await save.click();
  await page.getByText("Read it again").waitFor();
  await judgeLooks(lab, tab, "changed variables");
  check(
    "the variables of another person are named, and what was typed stays",
    (await variables.inputValue()) === '{"ntp": "10.0.0.2"}' ? [] : [await variables.inputValue()],
  );
  await page.getByRole("button", { name: "Compare with the new values" }).click();
  await variables.fill('{"ntp": "10.0.0.2", "dns": "10.0.0.3"}');
  await page.getByText(/^Changed: .*ntp/).waitFor();
  await save.click();
  check(
    "a variable is saved, and those of the other person stay",
    await untilNone(async () => {
      const { cluster } = await service.ask<{ cluster: { variables: object } }>(
        "query($by: ClusterRef!) { cluster(by: $by) { variables } }",
        { by: { name: CLUSTER } },
      );
      const text = JSON.stringify(cluster.variables, ["ntp", "dns"]);
      return text === '{"ntp":"10.0.0.2","dns":"10.0.0.3"}' ? [] : [text];
    }),
  );

  await page.getByRole("button", { name: "Deploy changes…" }).click();
  await dialog.getByText(/^4 nodes accept it/).waitFor();
  const reasons = await dialog.locator(".announced").innerText();
  check("the plan names the variable that differs", /ntp/.test(reasons) ? [] : [reasons]);
  await judgeLooks(lab, tab, "deploy changes");
  const typed = dialog.getByLabel(/^Type/);
  if (await typed.isVisible())
    await typed.fill((/\d+/.exec((await typed.locator("..").textContent()) ?? "") ?? [""])[0]);
  await dialog.locator('button[type="submit"]').dblclick();
  await dialog.waitFor({ state: "detached" });
  await open();
  await state("Operational");
  check("after the changes the whole cluster is active", await untilStates(service, "ACTIVE,ACTIVE,ACTIVE,ACTIVE"));
  const history = page.locator(".history > li").filter({ hasText: "Steps" });
  check(
    "the history has both operations",
    await untilNone(async () => ((await history.count()) === 2 ? [] : [`${await history.count()} operations`])),
  );
  await history.last().locator("summary").click();
  await history.last().getByText("deploy.write_image").waitFor();
  await judgeLooks(lab, tab, "cluster history");
  for (const [screen, text] of [
    ["operations", `Apply ${CLUSTER}`],
    ["activity", NODES[0] ?? ""],
  ] as const) {
    await page.goto(`${lab.proxy.url}/console/${screen}`);
    await page.getByRole("link", { name: text }).first().waitFor();
    await live(page);
    await judgeLooks(lab, tab, screen);
  }
  await page.getByLabel("Text of node, step or reason").fill("fuel-2");
  await page.waitForURL(/text=fuel-2/);
  check(
    "activity is filtered by text",
    await untilNone(async () => {
      const shown = await page.locator(".life a[href*='/nodes/']").allTextContents();
      return shown.length > 0 && shown.every((name) => name === "fuel-2") ? [] : [shown.slice(0, 5).join()];
    }),
  );
  check("nothing is wrong on the way", tab.flaws);
}

/** An image that the cluster wants; nodes that are in no cluster are added, and one of them is removed. */
export async function changesMembers(lab: Lab): Promise<void> {
  const { check, service } = lab;
  const cluster = "members";
  const names = ["member-1", "member-2"];
  await service.ask("mutation($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }", {
    input: { name: cluster },
  });
  await service.ask("mutation($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }", {
    input: { nodes: names.map((name) => ({ name, driver: { fake: {} } })) },
  });
  await service.ask("mutation($input: RegisterImagesInput!) { registerImages(input: $input) { errors { message } } }", {
    input: { images: [IMAGE] },
  });
  const stored = (wanted: string) =>
    untilNone(async () => {
      const answer = await service.ask<{
        cluster: { image: { name: string } | null; nodes: { nodes: readonly { name: string }[] } };
      }>("query($by: ClusterRef!) { cluster(by: $by) { image { name } nodes { nodes { name } } } }", {
        by: { name: cluster },
      });
      const { image, nodes } = answer.cluster;
      const text = [image?.name, ...nodes.nodes.map(({ name }) => name)].join(" ");
      return text === wanted ? [] : [text];
    });
  await using tab = await lab.open(`/clusters/${cluster}`);
  const { page } = tab;
  const dialog = page.getByRole("dialog");
  await page.getByRole("combobox", { name: "Image" }).selectOption("debian-13");
  await page.getByText("Changed: image (debian-13, before as each node has it)").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  check("the image that a cluster wants is saved", await stored("debian-13"));

  await page.getByRole("link", { name: "add nodes that are in no cluster" }).click();
  await page.locator("#filter").fill("cluster:none name^member-");
  await page.waitForURL(/member-/);
  await page.getByRole("status").getByText("2 nodes").waitFor();
  await page.getByRole("checkbox", { name: "Select all" }).click();
  await page.getByText("More verbs").click();
  await page.getByRole("button", { name: "Add to a cluster…" }).click();
  await dialog.getByText("Choose the cluster.").waitFor();
  await dialog.getByLabel("Cluster").selectOption(cluster);
  await dialog.getByText("2 nodes become members of the cluster.").waitFor();
  await judgeLooks(lab, tab, "add members");
  await dialog.locator('button[type="submit"]').click();
  await dialog.waitFor({ state: "detached" });
  check("exactly the selected nodes are members", await stored("debian-13 member-1 member-2"));

  await page.goto(`${lab.proxy.url}/console/clusters/${cluster}`);
  await live(page);
  await page.locator(".row", { hasText: "member-2" }).getByRole("checkbox").click();
  await judgeLooks(lab, tab, "members");
  await page.getByRole("button", { name: "Remove from the cluster…" }).click();
  await dialog.getByText("1 node leaves the cluster.").waitFor();
  await dialog.locator('button[type="submit"]').click();
  await dialog.waitFor({ state: "detached" });
  check("a selected member is removed, and the others stay", await stored("debian-13 member-1"));
  check("nothing is wrong with members", tab.flaws);
}
