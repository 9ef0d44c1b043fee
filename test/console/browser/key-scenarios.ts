/** The main way through the console with keys alone. At each stop of Tab the focus is visible. */
import type { Page } from "playwright-core";
import { nameOf } from "./service.ts";
import { script, untilNone, untilStored } from "./lab.ts";
import type { Lab } from "./lab.ts";
import { live } from "./tab.ts";

const STOPS_MAX = 80;

interface Stop {
  readonly name: string;
  /** It has a ring, or marks a part of itself, and is within the window. */
  readonly isVisible: boolean;
  readonly isInDialog: boolean;
}

/** Through the debugger: the policy of the page lets no script of ours in. */
function focused(page: Page): Promise<Stop> {
  return page.evaluate(async () => {
    // The ends of a dialog pass the focus on in the next frame.
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    const element = document.activeElement ?? document.body;
    const label = element.closest("label")?.textContent ?? "";
    const name = element.getAttribute("aria-label") ?? (element.textContent?.trim() || label);
    const current = element.querySelector('[data-current="true"]');
    const ringOf = (one: Element | null) => one !== null && getComputedStyle(one).outlineStyle !== "none";
    const { top, bottom, left, right } = element.getBoundingClientRect();
    const isInside = bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
    return {
      name: element === document.body ? "" : name.replaceAll(/\s+/g, " "),
      isVisible: (ringOf(element) || ringOf(current)) && isInside,
      isInDialog: element.closest('[role="dialog"]') !== null,
    };
  });
}

/** Presses Tab until an element of this name has the focus; returns what is wrong on the way. */
async function tabTo(page: Page, name: RegExp): Promise<readonly string[]> {
  const flaws: string[] = [];
  const passed: string[] = [];
  for (let stops = 0; stops < STOPS_MAX; stops += 1) {
    await page.keyboard.press("Tab");
    const stop = await focused(page);
    if (stop.name !== "" && !stop.isVisible) flaws.push(`the focus is not visible on ${stop.name.slice(0, 60)}`);
    if (name.test(stop.name)) return flaws;
    passed.push(stop.name.slice(0, 30));
  }
  return [...flaws, `Tab does not come to ${String(name)}: ${passed.join(" | ")}`];
}

export async function worksByKeys(lab: Lab): Promise<void> {
  const { check, service } = lab;
  const nodes = [nameOf(143), nameOf(144), nameOf(145)];
  await script(service, nodes, { "clean.erase_disks": { stuck: true } });
  await using tab = await lab.open("/");
  const { page } = tab;
  const { keyboard } = page;
  const focusIs = async (what: RegExp) =>
    untilNone(async () => {
      const { name } = await focused(page);
      return what.test(name) ? [] : [`the focus is on "${name.slice(0, 80)}"`];
    });

  check("Tab comes first to the link that skips the header", await tabTo(page, /^Skip to the content$/));
  await keyboard.press("Enter");
  check("after it the content has the focus", await focusIs(/^Fleet/));
  await page.reload();
  await live(page);
  check("Tab comes to the screens", await tabTo(page, /^Nodes$/));
  await keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
  await keyboard.press("/");
  await keyboard.type(`name:${nodes.join(",")}`);
  await page.getByText("3 nodes", { exact: true }).waitFor();
  check("Tab comes from the filter to the list", await tabTo(page, /^Nodes$/));
  for (const key of ["x", "j", "x", "End", "x"]) await keyboard.press(key);
  await page.getByText("3 selected").waitFor();
  await keyboard.press("Shift+Tab");
  check("the verbs of the selection are reached", await tabTo(page, /^Nodes$/));
  for (let stops = 0; stops < STOPS_MAX && (await focused(page)).name !== "Commission…"; stops += 1)
    await keyboard.press("Shift+Tab");
  check("Shift and Tab come back to a verb", await focusIs(/^Commission…$/));
  await keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("As of").waitFor();
  check("a dialog has the focus", (await focused(page)).isInDialog ? [] : [(await focused(page)).name]);
  const outside: string[] = [];
  for (let index = 0; index < STOPS_MAX; index += 1) {
    await keyboard.press("Tab");
    const { isInDialog, name } = await focused(page);
    if (!isInDialog) outside.push(`it leads to "${name.slice(0, 60)}"`);
  }
  check("Tab stays in a dialog", outside);
  await keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  check("Escape leads back to the verb", await focusIs(/^Commission…$/));
  check("and keeps the selection", (await page.getByText("3 selected").isVisible()) ? [] : ["it is gone"]);
  await keyboard.press("Enter");
  await dialog.getByText("As of").waitFor();
  check("Tab comes to the number that is typed", await tabTo(page, /^Type 3/));
  await keyboard.type("3");
  await keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Commission" }).waitFor();
  const uuid = page.url().split("/").at(-1) ?? "";
  check("after the request the new screen has the focus", await focusIs(/^Commission/));
  check("Tab comes to the abort", await tabTo(page, /^Abort…$/));
  await keyboard.press("Enter");
  await dialog.getByText("As of").waitFor();
  await keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  check("Escape leads back to the abort", await focusIs(/^Abort…$/));
  const atGate = page.locator(".step-counts li", { hasText: "clean.erase_disks" });
  await atGate.getByText("3", { exact: true }).waitFor();
  await keyboard.press("Enter");
  await dialog.getByText("As of").waitFor();
  check("Tab comes to the mode", await tabTo(page, /^Now/));
  await keyboard.press("ArrowDown");
  await keyboard.press("ArrowDown");
  await dialog.getByText("As of").waitFor();
  check("arrows choose a mode", await focusIs(/^Cut/));
  check("Tab comes to the reason", await tabTo(page, /^Reason/));
  await keyboard.type("a check");
  check("Tab comes to the number", await tabTo(page, /^Type 3/));
  await keyboard.type("3");
  check("Tab comes to the button", await tabTo(page, /^Abort 3 nodes$/));
  await keyboard.press("Enter");
  await untilStored(service, uuid, "ABORTED");
  await page.getByRole("heading", { level: 1 }).getByText("Aborted").waitFor();
  check("after the abort the focus is not lost", await focusIs(/./));
  check("Tab comes to the runs", await tabTo(page, /^Runs$/));
  await keyboard.press("ArrowDown");
  await keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^node-0014[345]/ }).waitFor();
  await script(service, nodes, null);
  check("nothing is wrong with keys alone", tab.flaws);
}
