/** The top of each screen: where one is, whether the data are live, and who is signed in. */
import { Menu } from "@base-ui/react/menu";
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
    <Menu.Root modal={false}>
      <Menu.Trigger className="user">
        <Text>{displayName ?? subject}</Text> <span aria-hidden="true">▾</span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} align="end">
          <Menu.Popup className="menu">
            <div className="quiet menu-note">
              <Text>{subject}</Text>, {scope === null ? "no rights" : scope.toLowerCase()}
              <br />
              Ostler {data.service.version}
            </div>
            <Menu.Item onClick={() => overlay.set("keys")}>Keys</Menu.Item>
            <Menu.Item render={<a href="/graphql">GraphiQL</a>} />
            {subject !== "anonymous" && <Menu.Item onClick={() => void signOut()}>Sign out</Menu.Item>}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
