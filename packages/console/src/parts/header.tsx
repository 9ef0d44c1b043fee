/** The top of each screen: where one is, whether the data are live, and who is signed in. */
import { Link, useLocation } from "wouter";
import { useRequest } from "../data/queries.ts";
import { signOut } from "../data/session.ts";
import { SCREENS } from "../routes.ts";
import { ConnectionStatus } from "./connection-status.tsx";
import { overlay } from "./keys.ts";
import { Text } from "./text.tsx";

export function Header() {
  const [path] = useLocation();
  return (
    <header className="top">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <b className="brand">Ostler</b>
      <nav aria-label="Screens">
        {SCREENS.map(([to, name]) => (
          <Link key={to} href={to} aria-current={path === to ? "page" : undefined}>
            {name}
          </Link>
        ))}
      </nav>
      <button type="button" className="go-to" aria-keyshortcuts="Control+K" onClick={() => overlay.set("palette")}>
        Go to… <kbd>Ctrl K</kbd>
      </button>
      <ConnectionStatus />
      <User />
    </header>
  );
}

function User() {
  const { data } = useRequest("viewer", {});
  if (!data) return null;
  const { subject, displayName, scope } = data.viewer;
  return (
    <>
      <button type="button" className="user" popoverTarget="user-menu">
        <Text>{displayName ?? subject}</Text> <span aria-hidden="true">▾</span>
      </button>
      <div id="user-menu" popover="auto" className="menu">
        <p className="quiet">
          <Text>{subject}</Text>, {scope === null ? "no rights" : scope.toLowerCase()}
          <br />
          Ostler {data.service.version}
        </p>
        <button
          type="button"
          onClick={({ currentTarget }) => {
            // First, so that the focus returns to the button that stays.
            currentTarget.parentElement?.hidePopover();
            overlay.set("keys");
          }}
        >
          Keys
        </button>
        <a href="/graphql">GraphiQL</a>
        {subject !== "anonymous" && (
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        )}
      </div>
    </>
  );
}
