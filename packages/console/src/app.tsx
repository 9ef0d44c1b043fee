/** The frame of every screen: what is signed in, whether the data are live, and the screen of the address. */
import { useEffect, useSyncExternalStore } from "react";
import { Route, Switch, useLocation } from "wouter";
import { signedOut } from "./data/session.ts";
import { connection, fleet, useStore } from "./data/streams.ts";
import { Header } from "./parts/header.tsx";
import { NotFound } from "./parts/notices.tsx";
import { partOfPath } from "./parameters.ts";
import { FLEET, WALL } from "./routes.ts";
import { FleetScreen } from "./screens/fleet.tsx";
import { NodeScreen } from "./screens/node.tsx";
import { OperationScreen } from "./screens/operation.tsx";
import { SignInScreen } from "./screens/sign-in.tsx";
import { WallScreen } from "./screens/wall.tsx";

export function App() {
  const reason = useSyncExternalStore(signedOut.subscribe, signedOut.get);
  const { state, why } = useStore(connection);
  useEffect(() => {
    if (state === "refused") signedOut.set(why ?? "The service asks who you are.");
  }, [state]);
  return reason === null ? <SignedIn /> : <SignInScreen reason={reason} />;
}

function SignedIn() {
  // Followed as long as the page is open: each screen needs nodes.
  useEffect(() => fleet.subscribe(() => {}), []);
  const [path] = useLocation();
  return (
    <>
      {path !== WALL && <Header />}
      <Switch>
        <Route path={FLEET} component={FleetScreen} />
        <Route path={WALL} component={WallScreen} />
        <Route path="/nodes/:name">{({ name }) => named(name, (text) => <NodeScreen key={text} name={text} />)}</Route>
        <Route path="/operations/:id">
          {({ id }) => named(id, (text) => <OperationScreen key={text} id={text} />)}
        </Route>
        <Route>
          <NotFound title="There is no such screen" />
        </Route>
      </Switch>
    </>
  );
}

/** wouter has decoded a part of the path if it could. */
function named(part: string, screen: (text: string) => React.ReactNode) {
  const text = part.includes("%") ? partOfPath(part) : part;
  return text === null ? <NotFound title="This address is not valid" /> : screen(text);
}
