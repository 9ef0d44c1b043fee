/** docs/errors.md: every code. */
import { ERROR_MEANING, ERROR_STATUS, REQUEST_ERRORS } from "../../src/errors.ts";
import type { ErrorCode } from "../../src/errors.ts";
import { code, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";

export const ERRORS_PAGE: Page = { file: "errors.md", source: "src/errors.ts", text: errorsPage };

function errorsPage(): string {
  return paragraphs(
    "# Errors",
    "This page is for client developers: it lists every error code of the API. A refusal is data, not an exception: payloads carry `errors` (the request as a whole) and `results[].error` (one node). Each has a `code`, a `status` with the meaning of the HTTP status, a `message` with what happened, to which node, and what to do, and the `path` of the input in question.",
    "A failed step, run or operation carries the same codes. Codes are permanent; new ones may be added.",
    table(
      ["code", "status", "meaning"],
      (Object.entries(ERROR_STATUS) as [ErrorCode, number][]).map(([name, status]) => [
        code(name),
        String(status),
        meaningOf(name),
      ]),
    ),
    "GraphQL's own `errors` report a request that is not valid GraphQL, has no valid token, exceeds a [limit](limits.md), or runs into a fault of the service; their `extensions.code` is one of this list. Faults of the service are masked as `INTERNAL` with a request id; the log has the cause under that id.",
    table(
      ["`extensions.code`", "meaning"],
      Object.entries(REQUEST_ERRORS).map(([name, meaning]) => [code(name), meaning]),
    ),
  );
}

/** The meaning from the schema without its leading status. */
function meaningOf(name: ErrorCode): string {
  const text = ERROR_MEANING[name].replace(/^\d{3}: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
