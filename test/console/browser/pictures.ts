/** The pictures of docs/console.md: the demonstration fleet in the middle of a commission; two nodes failed. */
import type { Browser } from "playwright-core";
import { begin, script } from "./lab.ts";
import { startService } from "./service.ts";
import { live, openTab } from "./tab.ts";

const VIEWPORT = { width: 1180, height: 620 };
const BROKEN = { says: ["writing block 118,240", "I/O error at block 118,241"], fail: "no space left on the device" };

/** `folder`: that of the pages. */
export async function takePictures(browser: Browser, folder: string): Promise<void> {
  await using service = await startService("--demo");
  await script(service, ["berlin-04", "berlin-07"], { "deploy.write_image": { ...BROKEN, retryable: false } });
  const commission = (cluster: string, more: object) =>
    begin(service, "commissionNodes", "CommissionNodesInput!", {
      nodes: { cluster: { name: cluster } },
      onFailure: "LEAVE",
      ...more,
    });
  await commission("oslo", {});
  const berlin = await commission("berlin", { maxParallel: 6 });
  await using light = await openTab(browser, service.url, { viewport: VIEWPORT });
  await using dark = await openTab(browser, service.url, { viewport: VIEWPORT, colorScheme: "dark" });
  await light.page.goto(`${service.url}/console/`);
  await dark.page.goto(`${service.url}/console/operations/${berlin}`);
  await light.page.locator('.groups > li[data-kind="FAILED"]').getByText("2 ×").waitFor();
  await light.page.screenshot({ path: `${folder}console-fleet.png` });
  await live(dark.page);
  await dark.page.getByRole("button", { name: "Stop…" }).click();
  await dark.page.getByRole("dialog").locator(".sentence").waitFor();
  await dark.page.screenshot({ path: `${folder}console-stop.png` });
}
