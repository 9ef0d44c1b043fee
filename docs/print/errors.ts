/** docs/errors.md: every code. */
import { ERROR_MEANING, ERROR_STATUS, REQUEST_ERRORS } from "../../src/errors.ts";
import type { ErrorCode } from "../../src/errors.ts";
import { code, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";

export const ERRORS_PAGE: Page = { file: "errors.md", source: "src/errors.ts", text: errorsPage };

function errorsPage(): string {
  return paragraphs(
    "# Errors",
    "What is refused is data, not an exception: payloads carry `errors` (the request as a whole) and `results[].error` (one node), each with a `code`, a `status` like HTTP's, a `message` that says what happened, to which node, and what to do, and the `path` of the input it is about. A failed step, run or operation carries the same codes. Codes are permanent; new ones may come.",
    table(
      ["code", "status", "meaning"],
      (Object.entries(ERROR_STATUS) as [ErrorCode, number][]).map(([name, status]) => [
        code(name),
        String(status),
        meaningOf(name),
      ]),
    ),
    "A request that is no valid GraphQL, presents no good token, asks for [more than is allowed](limits.md), or meets a fault of ours is answered in GraphQL's own `errors`, with an `extensions.code` of this list. Faults of ours are masked: `INTERNAL` with a request id, under which the log has the cause.",
    table(
      ["`extensions.code`", "meaning"],
      Object.entries(REQUEST_ERRORS).map(([name, meaning]) => [code(name), meaning]),
    ),
  );
}

/** The meaning as the schema says it, less the status that it begins with. */
function meaningOf(name: ErrorCode): string {
  const text = ERROR_MEANING[name].replace(/^\d{3}: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
