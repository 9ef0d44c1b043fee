/**
 * A machine is not cut while it writes its firmware or its drives are erased, whatever answers in place of its
 * task. All answers at all moments: redfish-cuts.long.test.ts.
 */
import { afterAll, expect, test } from "vitest";
import {
  ANSWERS,
  DONE,
  LEFT_ALONE,
  MOMENTS,
  WORKS,
  closeCutLab,
  meets,
  meetsRestart,
  neverReports,
} from "../support/redfish-cuts.ts";

afterAll(closeCutLab);

const moments = Object.keys(MOMENTS);

test.each(Object.values(WORKS).map((work, index) => [Object.keys(WORKS)[index], work, index] as const))(
  "machine was switched off during %s because something else answered than its task at one poll [R-770]",
  async (_name, work, place) => {
    // Neighbours share the answers.
    const chosen = Object.entries(ANSWERS).filter((_, index) => (index + place) % 2 === 0);
    const cases = chosen.map(([what, fault], index) => {
      const moment = moments[index % moments.length] ?? "";
      return { what, moment, fault, isTaskOnly: index % 2 === 0 };
    });
    const found = await Promise.all(cases.map(async (one) => ({ ...one, ...(await meets(work, one)) })));
    expect(found).toEqual(cases.map((one) => ({ ...one, ...DONE })));
  },
);

test("machine was switched off during its work because the task was not reported until the timeout [R-770]", async () => {
  const chosen = ["a gateway's 502", "a refused login", "status 404", "a page with status 200"];
  // Neighbours share the answers.
  const cases = Object.entries(WORKS).flatMap(([name, work], place) =>
    chosen.filter((_, index) => (index + place) % 2 === 0).map((what) => ({ name, what, work })),
  );
  const found = await Promise.all(
    cases.map(async ({ name, what, work }) => ({
      name,
      what,
      ...(await neverReports(work, ANSWERS[what] ?? { kind: "reset" })),
    })),
  );
  expect(found).toEqual(cases.map(({ name, what }) => ({ name, what, ...LEFT_ALONE })));
});

test("machine was switched off during its work because its BMC restarted [R-770]", async () => {
  const cases = Object.entries(WORKS).flatMap(([name, work]) =>
    (["kept", "forgotten", "moved"] as const).map((tasks) => ({ name, tasks, work })),
  );
  const found = await Promise.all(
    cases.map(async ({ name, tasks, work }) => ({ name, tasks, ...(await meetsRestart(work, tasks)) })),
  );
  expect(found).toEqual(cases.map(({ name, tasks }) => ({ name, tasks, ...DONE })));
});
