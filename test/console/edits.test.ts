/** Editors of the console: what a save sends, where a flaw stands, and what another person changed meanwhile. */
import { describe, expect, test } from "vitest";
import {
  NODE_FIELDS,
  differencesOf,
  groupFields,
  groupPlace,
  groupTexts,
  mergedTexts,
  nodePlace,
  nodeTexts,
  readGroups,
  readNode,
  readWanted,
  wantedFields,
  wantedTexts,
  withGroup,
  withoutGroup,
} from "../../packages/console/src/words/edits.ts";

const NODE = {
  name: "n1",
  description: "",
  hostGroup: "workers",
  labels: [
    { key: "rack", value: "r1" },
    { key: "note", value: "a=b" },
    { key: "old", value: "" },
  ],
  macs: ["52:54:00:00:00:01"],
  variables: { ntp: "a", gone: 1 },
  automaticCleaning: null,
  diskless: false,
  sharedController: true,
};

describe("fields of a node", () => {
  const before = nodeTexts(NODE);

  test("without a change nothing is sent", () => {
    expect(readNode(before, before)).toEqual({ input: {}, flaws: {} });
  });

  test("a save sends only what was changed, each label alone [R-1280]", () => {
    const texts = {
      ...before,
      description: " by the door ",
      hostGroup: "",
      labels: "rack = r2\nnote=a=b\n\nnew",
      variables: '{"ntp": "b"}',
      automaticCleaning: "false",
      diskless: "yes",
      settings: '{"fake": {"delayMs": 5}}',
    };
    expect(readNode(texts, before)).toEqual({
      input: {
        description: "by the door",
        hostGroup: null,
        setLabels: [
          { key: "rack", value: "r2" },
          { key: "new", value: "" },
        ],
        removeLabels: ["old"],
        variables: { ntp: "b", gone: null },
        automaticCleaning: false,
        diskless: true,
        settings: [{ fake: { delayMs: 5 } }],
      },
      flaws: {},
    });
  });

  test("text that is not JSON is a flaw of its field", () => {
    const { flaws } = readNode({ ...before, variables: "{", settings: "[]" }, before);
    expect(Object.keys(flaws)).toEqual(["variables", "settings"]);
  });

  test("a flaw that the service names stands at the field of its path [R-1281]", () => {
    expect(nodePlace(["input", "setLabels", "0", "key"])).toBe("labels");
    expect(nodePlace(["input", "description"])).toBe("description");
    expect(nodePlace(["input", "settings", "0", "fake"])).toBe("settings");
    expect(nodePlace(["input", "revisions", "0"])).toBeNull();
  });

  test("what another person changed is named, and joins what was typed [R-1282]", () => {
    const mine = { ...before, description: "mine", labels: `${before["labels"]}\nrow=b` };
    const theirs = { ...before, description: "theirs", hostGroup: "masters", variables: '{"ntp": "c", "gone": 1}' };
    const differences = NODE_FIELDS.map((field) => differencesOf(field, before, theirs)).filter(({ length }) => length);
    expect(differences).toEqual([["theirs, before nothing"], ["masters, before workers"], ["ntp"]]);
    const labels = NODE_FIELDS.filter(({ name }) => name === "labels");
    expect(labels.flatMap((field) => differencesOf(field, mine, before))).toEqual(["without row=b"]);
    expect(mergedTexts(before, mine, theirs)).toEqual({
      ...theirs,
      description: "mine",
      labels: `${before["labels"]}\nrow=b`,
    });
  });
});

describe("what a cluster wants", () => {
  const before = wantedTexts({ image: { name: "debian-13" }, variables: { ntp: "a", gone: 1 } });

  test("a save sends the image and the variables that were changed [R-1280]", () => {
    expect(readWanted(before, before)).toEqual({ input: {}, flaws: {} });
    expect(readWanted({ ...before, image: "" }, before).input).toEqual({ image: null });
    expect(readWanted({ image: "other", variables: '{"ntp": "b"}' }, before).input).toEqual({
      image: { name: "other" },
      variables: { ntp: "b", gone: null },
    });
    expect(Object.keys(readWanted({ ...before, variables: "{" }, before).flaws)).toEqual(["variables"]);
  });

  test("without images there is none to choose", () => {
    expect(wantedFields([]).map(({ name }) => name)).toEqual(["variables"]);
    expect(wantedFields(["debian-13"]).map(({ name }) => name)).toEqual(["image", "variables"]);
  });
});

describe("host groups", () => {
  const before = groupTexts([
    { name: "masters", after: [], tolerates: { count: 0 }, minActive: null, variables: { a: 1 } },
    {
      name: "eu/workers",
      after: [{ group: "masters", share: { percent: 50 } }],
      tolerates: { percent: 2.5 },
      minActive: null,
      variables: {},
    },
  ]);

  test("texts that were not changed are the groups that were read", () => {
    expect(readGroups(before, before)).toEqual({
      input: {
        hostGroups: [
          { name: "masters", tolerates: { count: 0 } },
          {
            name: "eu/workers",
            after: [{ group: "masters", share: { percent: 50 } }],
            tolerates: { percent: 2.5 },
          },
        ],
      },
      flaws: {},
    });
  });

  test("a group is added, removed and changed, with the variables that differ [R-1280]", () => {
    const texts = {
      ...withGroup(withoutGroup(before, "eu/workers")),
      "variables masters": '{"b": 2}',
      "name New group 1": " edge ",
      "after New group 1": "masters 2, storage",
      "minActive New group 1": "5%",
    };
    expect(readGroups(texts, before).input).toEqual({
      hostGroups: [
        { name: "masters", tolerates: { count: 0 }, variables: { b: 2, a: null } },
        {
          name: "edge",
          after: [{ group: "masters", share: { count: 2 } }, { group: "storage" }],
          minActive: { percent: 5 },
        },
      ],
    });
    expect(groupFields(texts).filter(({ group }) => group === "masters")).toHaveLength(4);
    expect(Object.keys(withGroup(texts)).filter((name) => name.endsWith("New group 2"))).toHaveLength(5);
  });

  test("every flaw is named at its field, before a request and after a refusal [R-1281]", () => {
    const texts = {
      ...before,
      "tolerates masters": "many",
      "after eu/workers": "masters x",
      "minActive eu/workers": "1.5",
      "variables eu/workers": "no",
    };
    expect(Object.keys(readGroups(texts, before).flaws).toSorted()).toEqual([
      "after eu/workers",
      "minActive eu/workers",
      "tolerates masters",
      "variables eu/workers",
    ]);
    expect(groupPlace(["input", "hostGroups", "1", "after", "0"], before)).toBe("after eu/workers");
    expect(groupPlace(["input", "hostGroups", "0", "tolerates"], before)).toBe("tolerates masters");
    expect(groupPlace(["input", "hostGroups"], before)).toBeNull();
  });
});
