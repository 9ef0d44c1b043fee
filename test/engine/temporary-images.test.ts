import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { deleteAbandonedFiles, temporaryImageName } from "../../src/engine/images/temporary-images.ts";
import { createLog } from "../../src/log.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-temporary-images-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HOUR_SECONDS = 3_600;

function aFile(name: string, hoursOld: number): string {
  const path = join(folder, name);
  writeFileSync(path, "some of an image");
  const time = Date.now() / 1000 - hoursOld * HOUR_SECONDS;
  utimesSync(path, time, time);
  return name;
}

test("a start deletes temporary files of images that nothing has written to for a day, and no others [R-681]", async () => {
  const abandoned = (["part", "raw", "qcow2"] as const).map((suffix) => aFile(temporaryImageName(suffix), 25));
  const kept = [
    aFile(temporaryImageName("part"), 23),
    aFile(`sha256-${"0".repeat(64)}`, 1_000),
    aFile(".notes.part", 1_000),
    aFile(temporaryImageName("part").slice(1), 1_000),
    aFile(`${temporaryImageName("part")}.old`, 1_000),
  ];
  expect(readdirSync(folder).toSorted()).toEqual([...abandoned, ...kept].toSorted());
  const lines: string[] = [];
  const log = createLog("info", { write: (line: string) => void lines.push(line) });
  await deleteAbandonedFiles(folder, log);
  expect(readdirSync(folder).toSorted()).toEqual(kept.toSorted());
  expect(lines).toHaveLength(abandoned.length);
  await deleteAbandonedFiles(folder, log);
  expect(lines).toHaveLength(abandoned.length);
});

test("a service without an image folder starts, and one that cannot read it logs why", async () => {
  const lines: string[] = [];
  const log = createLog("info", { write: (line: string) => void lines.push(line) });
  await deleteAbandonedFiles(join(folder, "missing"), log);
  expect(lines).toEqual([]);
  await deleteAbandonedFiles(join(folder, aFile("a-file", 0)), log);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("temporary files in the image folder could not be deleted");
});
