/** As redfish-cuts.test.ts, with every answer at every moment. */
import { afterAll, describe, expect, test } from "vitest";
import {
  ANSWERS,
  DONE,
  LEFT_ALONE,
  MOMENTS,
  WORKS,
  WORK_MS,
  closeCutLab,
  meets,
  neverReports,
} from "../support/redfish-cuts.ts";

afterAll(closeCutLab);

describe.each(Object.entries(WORKS))("Redfish step %s", (_name, work) => {
  test.each(Object.keys(MOMENTS))(
    "machine was switched off in its work because something else answered than its task %s",
    async (moment) => {
      const cases = Object.entries(ANSWERS).flatMap(([what, fault]) =>
        [true, false].map((isTaskOnly) => ({ what, fault, moment, isTaskOnly })),
      );
      const found = await Promise.all(cases.map(async (one) => ({ ...one, ...(await meets(work, one)) })));
      expect(found).toEqual(cases.map((one) => ({ ...one, ...DONE })));
    },
    WORK_MS,
  );

  test("machine was switched off in its work because its task was not reported until the timeout", async () => {
    const cases = [...Object.entries(ANSWERS), ["silence", { kind: "silent" } as const] as const];
    const found = await Promise.all(
      cases.map(async ([what, fault]) => ({ what, ...(await neverReports(work, fault)) })),
    );
    expect(found).toEqual(cases.map(([what]) => ({ what, ...LEFT_ALONE })));
  });
});
