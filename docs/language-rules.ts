/**
 * The word list of `npm run tool -- language`: words that the project does not use, with what to write
 * (docs/glossary.md). A word that is legitimate more often than not stays out of it.
 */

export interface Rule {
  /** Word or phrase as it is reported. */
  readonly name: string;
  readonly write: string;
  /**
   * `words`: single words in lower case, found in prose and, split at capitals and underscores, in identifiers.
   * `pattern`: anything else. A space stands for any gap, a line break inside a comment included.
   */
  readonly words?: readonly string[];
  readonly pattern?: string;
  /** `pattern` distinguishes capitals. */
  readonly exact?: true;
  /** Where it is legitimate: files, and the lines of them. */
  readonly allowed?: readonly Allowed[];
}

export interface Allowed {
  readonly files: RegExp;
  readonly line: RegExp;
}

/** A driver that rejects unknown settings. */
const DRIVER_UNDER_TEST: Allowed = { files: /^test\/graphql\/driver-settings\.test\.ts$/, line: /\bsealed\b/ };

export const RULES: readonly Rule[] = [
  {
    name: "tell",
    write: "report, return, log, notify, emit, state",
    words: ["tell", "tells", "telling", "told", "untold", "teller", "tellers"],
  },
  { name: "said", write: "logged, reported (step log)", words: ["said"] },
  {
    name: "nobody",
    write: "no caller, no worker, null",
    words: ["nobody"],
    // The user of Unix.
    allowed: [{ files: /^src\/store\/postgres\/embedded(-programs)?\.ts$/, line: /`nobody`|NOBODY_UID/ }],
  },
  { name: "somebody", write: "another caller, another replica, an operator", words: ["somebody"] },
  { name: "anybody", write: "any caller, any client", words: ["anybody"] },
  { name: "everybody", write: "all callers, all replicas", words: ["everybody"] },
  { name: "whoever", write: "the caller, the replica that …", words: ["whoever", "whomever", "whosoever"] },
  { name: "wish", write: "interrupt", words: ["wish", "wishes", "wished", "wishing"] },
  { name: "bell", write: "notifier", words: ["bell", "bells", "doorbell"] },
  { name: "ring", write: "notify, subscribe", pattern: "\\bonRing\\b|\\.ring\\(\\)|\\bring(?:s|ing)? the\\b" },
  { name: "seal", write: "fingerprint", words: ["seal", "seals", "sealed"], allowed: [DRIVER_UNDER_TEST] },
  {
    name: "call-back",
    write: "callback",
    pattern: "[cC]all-[bB]ack|[cC]allBack",
    exact: true,
  },
  { name: "time-out", write: "timeout", pattern: "[tT]ime-[oO]ut|timeOut|TimeOut", exact: true },
  { name: "anew", write: "again", words: ["anew"] },
  { name: "thereof", write: "of it", words: ["thereof", "therein", "whereof", "hereof"] },
  { name: "besides", write: "in addition to, other than, also", words: ["besides"] },
  { name: "house", write: "architecture, project, repository root", words: ["house", "houses"] },
  {
    name: "room",
    write: "layer, directory; capacity",
    pattern: "(?<!\\b(?:no|leave|leaves|make|makes|enough|more) )\\brooms?\\b(?! (?:for|left|to)\\b)",
    allowed: [{ files: /./, line: /\broom: "|"room"|\{ room \}|room: string/ }],
  },
  { name: "stretch", write: "execution, executeRun", words: ["stretch", "stretches"] },
  { name: "let go", write: "release, shut down, disconnect", pattern: "\\b(?:let|lets|letting) go\\b|letGo" },
  { name: "has gone", write: "has disconnected, no longer exists", pattern: "\\b(?:has|have|had) gone\\b" },
  { name: "at work", write: "running, active", pattern: "\\bat work\\b|\\batWork\\b" },
  { name: "in hand", write: "claimed, active", pattern: "\\bin (?:the )?hands? (?:of|by)\\b|\\bin hand\\b" },
  { name: "for ever", write: "forever, indefinitely", pattern: "\\bfor ever\\b" },
  { name: "by itself", write: "automatically; alone", pattern: "\\bby (?:itself|themselves)\\b" },
  { name: "as ever", write: "as usual, as before", pattern: "\\bas ever\\b" },
  { name: "so many", write: "a number, at most n, the maximum", pattern: "\\bso many\\b" },
  { name: "does not do", write: "is invalid: use …", pattern: '\\b(?:does|do|will|would) not do(?= *[:.,;"`])' },
  { name: "does no harm", write: "is harmless", pattern: "\\b(?:does|do) no harm\\b|\\bharms? no\\b" },
  {
    name: "is no X",
    write: "is not a X",
    pattern:
      "(?<!\\b(?:there|here) (?:ever )?)\\b(?:is|are|was|were) no (?!longer\\b|more\\b|less\\b|fewer\\b|older\\b|newer\\b|earlier\\b|later\\b|better\\b|worse\\b|slower\\b|faster\\b|different\\b|doubt\\b)[a-z]+",
  },
  {
    name: "relative clause as subject",
    write: "name the thing: the …, a …",
    pattern: "\\b(?:Those (?:that|who|which)|That which|Whatever)\\b",
    exact: true,
  },
  {
    name: "What … as the subject of a comment",
    write: "name the thing: the …, a …",
    pattern: "/\\*\\* (?:What|Who|Whom) (?!.*\\?)",
    exact: true,
  },
  {
    name: "Of X: …",
    write: "For X: …, or a sentence",
    pattern: '(?:/\\*\\*|description: ["`]) ?Of [^.:"\\n]{1,40}:',
    exact: true,
  },
  {
    name: "place, turn (of a limit)",
    write: "slot; waits for a slot",
    pattern:
      "\\bwait(?:s|ed|ing)? (?:for )?(?:a|its|their) (?:place|turn)\\b|\\bturnOf\\b|\\bgiveTurns\\b|\\bNO_TURN\\b",
  },
  { name: "asked together", write: "batched, batch loader", pattern: "asked[- ]together|askedTogether" },
];
