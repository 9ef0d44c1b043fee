/**
 * `npm run tool -- example-fleet --picture FILE`: the page with the demonstration fleet, in the middle of a
 * commissioning of which one node has failed. Prints the size of the file.
 */
import { statSync } from "node:fs";
import { startFront } from "./front.ts";
import { startService } from "../../../test/console/browser/service.ts";
import type { Service } from "../../../test/console/browser/service.ts";
import { launchBrowser, live, openTab } from "./tab.ts";

const VIEWPORT = { width: 1100, height: 560 };
const BROKEN = { steps: { "clean.erase_disks": { fail: "the disk is worn out" } } };
/** Nodes of the second commissioning that have ended when the picture is taken. */
const ENDED = 5;

export async function takePicture(folder: string, browser: string, file: string): Promise<void> {
  await using service = await startService("--demo");
  await using front = await startFront(folder, service.url);
  await using program = await launchBrowser(browser);
  const { page } = await openTab(program);
  await page.setViewportSize(VIEWPORT);
  await service.ask("mutation($input: UpdateNodesInput!) { updateNodes(input: $input) { changedCount } }", {
    input: { nodes: { names: ["berlin-04"] }, driver: { fake: BROKEN } },
  });
  await commission(service, `cluster: { name: "oslo" }`, "");
  const berlin = await commission(service, `cluster: { name: "berlin" }`, "maxParallel: 5, onFailure: LEAVE");
  await page.goto(`${front.url}/#${berlin}`);
  await live(page);
  await page
    .locator(".operation .runs li", { hasText: "Succeeded" })
    .nth(ENDED - 1)
    .waitFor();
  await page.screenshot({ path: file });
  console.log(`${file}: ${(statSync(file).size / 1000).toFixed(0)} kB`);
}

async function commission(service: Service, nodes: string, options: string): Promise<string> {
  const { commissionNodes } = await service.ask<{ commissionNodes: { operation: { id: string } } }>(
    `mutation { commissionNodes(input: { nodes: { ${nodes} }, ${options} }) { operation { id } } }`,
  );
  return commissionNodes.operation.id;
}
