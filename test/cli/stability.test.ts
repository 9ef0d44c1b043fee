/** The words and the codes that scripts depend on: docs/decisions/0075-stable-words-and-exit-codes.md. */
import { expect, test } from "vitest";
import { COMMANDS, GLOBAL_FLAGS } from "../../packages/cli/src/commands.ts";
import { EXIT } from "../../packages/cli/src/exit.ts";

test("the exit codes of the command line are those of decision 0075 [R-1130]", () => {
  expect(EXIT).toEqual({
    done: 0,
    failed: 1,
    refused: 2,
    ended: 3,
    usage: 64,
    unreachable: 69,
    timeout: 75,
    forbidden: 77,
    interrupted: 130,
  });
});

test("the commands of the command line are those of decision 0075 [R-1130]", () => {
  const paths = COMMANDS.map(({ path }) => path).filter((path) => !path.startsWith("plan "));
  const words = new Map<string, string[]>();
  for (const path of paths) {
    const at = path.lastIndexOf(" ");
    const group = at < 0 ? "" : path.slice(0, at);
    words.set(group, [...(words.get(group) ?? []), path.slice(at + 1)]);
  }
  expect(Object.fromEntries([...words].map(([group, of]) => [group, of.join(" ")]))).toEqual({
    nodes:
      "get show why watch register manage inspect provide clean commission deploy redeploy undeploy decommission power boot-device edit set-maintenance clear-maintenance set-retired clear-retired protect unprotect delete",
    operations: "get watch log abort stop withdraw-abort release-holds restart halt resume advance",
    clusters: "get create edit add remove apply delete",
    "clusters vars": "get set unset",
    "clusters groups": "get set unset",
    site: "get set",
    context: "list add use remove show",
    "": "discover query login completion",
  });
});

test("each command takes --yes [R-1131]", () => {
  expect(GLOBAL_FLAGS.map(({ form }) => form)).toContain("--yes");
});
