/** Why a person has to sign in. */
import { withLocalTimes } from "./numbers.ts";

/** The sentence of the service without what is for programs; null if only the sign-in is missing. */
export function signInReason(reason: string): string | null {
  const [sentence = ""] = reason.replace(/^the socket was closed with \d+: /, "").split(/(?:^| )Send /);
  return sentence === "" || sentence === "Missing token." ? null : withLocalTimes(sentence);
}
