/** Two pages show the same, whatever other clients do, and whatever happens to the connections and to the service. */
import { begin, untilQuiet } from "./changes.ts";
import { countsEqual, nodeCount, tableEquals } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { operationEquals } from "./operation-view.ts";
import { nameOf } from "../../../test/console/browser/service.ts";
import { live, openTab, whole } from "./tab.ts";

const NODES = 40;

export async function pagesAgree(lab: Lab): Promise<void> {
  const { front, program, check, service, changes, nodes, folder } = lab;
  const first = lab.tab.page;
  const { page: second } = await openTab(program);
  const pages = [first, second];
  await whole(first, await nodeCount(service));
  const id = await begin(service, "commissionNodes", "CommissionNodesInput!", {
    nodes: { names: Array.from({ length: NODES }, (_, index) => nameOf(Math.floor(nodes * 0.75) + index)) },
    acceptance: "BEST_EFFORT",
  });
  await first.getByRole("button", { name: new RegExp(`^Commission ${NODES}`) }).click();
  await second.goto(`${front.url}/#${id}`);
  await whole(second, await nodeCount(service));
  await Promise.all(pages.map((page) => page.locator(".operation .runs li").first().waitFor()));
  const requests = front.counts.http;

  await changes.makeDuring(async () => {
    await changes.further(2);
    front.cut();
    await Promise.all(pages.map((page) => page.locator('.status[data-live="false"]').waitFor()));
    await changes.further(2);
    await Promise.all(pages.map(live));
    await service.kill();
    await Promise.all(pages.map((page) => page.getByText("Reconnecting – as of").waitFor()));
    await service.start();
    await changes.further(2);
    await Promise.all(pages.map(live));
    // Each kind.
    await changes.further(8);
  });
  await untilQuiet(service);

  for (const [name, page] of [
    ["first", first],
    ["second", second],
  ] as const) {
    await tableEquals(page, lab, `after a cut and a kill under load the table of the ${name} page equals the database`);
    await countsEqual(page, lab, `so do the counts of the ${name} page`);
    await operationEquals(page, lab, id, `so does the operation on the ${name} page, with its runs`);
    const strip = page.getByRole("navigation", { name: "Running operations" }).getByRole("button");
    check(`no operation runs on the ${name} page`, (await strip.count()) === 0);
  }
  check("neither page requests anything over HTTP", front.counts.http === requests);
  await second.screenshot({ path: `${folder}screenshots/agreement.png` });
  await second.context().close();
  await first.getByLabel("Close the operation").click();
}
