/** Problems, each with a way to go on. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { RequestError } from "../data/request.ts";
import { FLEET } from "../routes.ts";
import { Text } from "./text.tsx";

export function Problem({ error, onAgain }: { readonly error: Error; readonly onAgain?: () => void }) {
  const { code, requestId } = error instanceof RequestError ? error : { code: null, requestId: null };
  // Signed out, also over the socket: the form for that is above.
  if (code === "UNAUTHENTICATED" || ("closeCode" in error && error.closeCode === 4403)) return null;
  return (
    <div role="alert" className="problem">
      <p>
        <Text>{error.message}</Text>
      </p>
      {(code !== null || requestId !== null) && (
        <p className="quiet">
          {code} {requestId !== null && <>Request {requestId}</>}
        </p>
      )}
      {onAgain && (
        <button type="button" onClick={onAgain}>
          Try again
        </button>
      )}
    </div>
  );
}

/** `unknown`: what the address has and the screen does not know. */
export function UnknownParameters({ unknown, path }: { readonly unknown: readonly string[]; readonly path: string }) {
  if (unknown.length === 0) return null;
  return (
    <p role="alert" className="problem">
      The address has what this screen does not know: <Text>{unknown.join(", ")}</Text>.{" "}
      <Link href={path}>Show the screen without it</Link>
    </p>
  );
}

/** The page of an address that leads to nothing. */
export function NotFound({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="screen">
      <h1>
        <Text>{title}</Text>
      </h1>
      {children}
      <p>
        <Link href={FLEET}>Show the fleet</Link>
      </p>
    </div>
  );
}
