/** A button that leads to a request. If it is disabled, it says why: what the caller's roles lack comes first. */
import { useId } from "react";
import type { ReactNode } from "react";
import { useRequest } from "../data/queries.ts";
import { lackOf } from "../words/verbs.ts";
import { Text } from "./text.tsx";

/** Why the caller may not send a mutation; null if it may, and as long as its roles are not known. */
export function useLack(): (mutation: string) => string | null {
  const scope = useRequest("viewer", {}).data?.viewer.scope ?? null;
  return (mutation) => lackOf(mutation, scope);
}

interface WorkButtonProps {
  readonly mutation: string;
  /** Why it cannot be requested now; null if it can. */
  readonly refusal?: string | null;
  /** Of an element that has the reason, in place of a line below the button. */
  readonly reasonId?: string | undefined;
  readonly isDangerous?: boolean;
  readonly onClick: () => void;
  readonly children: ReactNode;
}

export function WorkButton(props: WorkButtonProps) {
  const { mutation, refusal = null, reasonId, isDangerous = false, onClick, children } = props;
  const id = useId();
  const reason = useLack()(mutation) ?? refusal;
  return (
    <span className="with-reason">
      <button
        type="button"
        className={isDangerous ? "danger" : undefined}
        disabled={reason !== null}
        aria-describedby={reason === null ? undefined : (reasonId ?? id)}
        onClick={onClick}
      >
        {children}
      </button>
      {reason !== null && reasonId === undefined && (
        <small id={id} className="quiet">
          <Text>{reason}</Text>
        </small>
      )}
    </span>
  );
}
