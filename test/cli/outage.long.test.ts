/** The command line while the service does not answer for long. */
import { afterAll, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { cutter } from "../support/cutter.ts";
import { registeredNode, serviceUnderTest } from "../support/service.ts";
import { onTerminalOf } from "./run-cli.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

/** Attempts after the report of the outage, in which a second stream would report it too. */
const MORE_ATTEMPTS = 6;

test("--wait on a terminal reports a long outage once, though it follows the operation and its runs", async () => {
  const gate = aGate();
  const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
  let left: number | null = null;
  let isReported = false;
  await using way = await cutter(ostler.url, () => {
    if (left === null || left === 0) return;
    if (isReported) left -= 1;
    way.cut();
  });
  const fall = () => {
    left = MORE_ATTEMPTS;
    way.cut();
    return "";
  };
  const report = () => {
    isReported = true;
    return "";
  };
  const rise = () => {
    gate.open();
    return "";
  };
  const { code, screen } = await onTerminalOf(way.url, `nodes deploy ${name} --wait --yes`, [
    ["RUNNING  write_image", fall],
    ["has not answered", report],
    ["answers again", rise],
  ]);
  expect(code).toBe(0);
  expect(screen.match(/has not answered/g)).toHaveLength(1);
  expect(screen.match(/answers again/g)).toHaveLength(1);
});
