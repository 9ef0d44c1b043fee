/** The frame of every screen: what is signed in, whether the data are live, and the screen of the address. */
import { WatchError } from "ostler-client";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { Route, Switch, useLocation } from "wouter";
import { awaitRights, noteLive } from "./data/await-rights.ts";
import { signedOut } from "./data/session.ts";
import { connection, fleet, usePart, useStore } from "./data/streams.ts";
import { Header } from "./parts/header.tsx";
import { KeyTable } from "./parts/key-table.tsx";
import { overlay, useKeys } from "./parts/keys.ts";
import { NotFound, Problem } from "./parts/notices.tsx";
import { Palette } from "./parts/palette.tsx";
import { Text } from "./parts/text.tsx";
import { partOfPath } from "./parameters.ts";
import { ACTIVITY, CLUSTERS, FLEET, NODES, OPERATIONS, WALL, titleOf } from "./routes.ts";
import { ActivityScreen } from "./screens/activity.tsx";
import { ClusterScreen } from "./screens/cluster.tsx";
import { ClustersScreen } from "./screens/clusters.tsx";
import { FleetScreen } from "./screens/fleet.tsx";
import { NodeScreen } from "./screens/node.tsx";
import { NodesScreen } from "./screens/nodes.tsx";
import { OperationsScreen } from "./screens/operations.tsx";
import { OperationScreen } from "./screens/operation.tsx";
import { SignInBanner, SignInScreen } from "./parts/sign-in.tsx";
import { WallScreen } from "./screens/wall.tsx";
import { unseen } from "./work/announcements.ts";
import type { Proposal } from "./work/outlook.ts";
import { WorkDialog } from "./work/work-dialog.tsx";

export function App() {
  const reason = useSyncExternalStore(signedOut.subscribe, signedOut.get);
  const { state, why } = useStore(connection);
  const [wasIn, setIn] = useState(false);
  useEffect(() => {
    if (state === "refused") signedOut.set(why ?? "The service asks who you are.");
    if (state === "connected") setIn(true);
  }, [state]);
  if (reason !== null && !wasIn) return <SignInScreen reason={reason} />;
  // What is shown and typed stays: a proxy may have answered in place of the service.
  return (
    <>
      <SignInBanner />
      <SignedIn />
    </>
  );
}

function SignedIn() {
  // Followed as long as the page is open: each screen needs nodes.
  const lack = usePart(fleet, lackOf);
  const isOut = useSyncExternalStore(signedOut.subscribe, signedOut.get) !== null;
  const isLive = usePart(fleet, (view) => view.isLive);
  const hasEnded = usePart(fleet, ({ error }) => error instanceof WatchError);
  useEffect(() => {
    if (isLive) noteLive();
    return isOut || hasEnded ? awaitRights() : undefined;
  }, [isOut || hasEnded, isLive]);
  const [path] = useLocation();
  const main = useRef<HTMLElement>(null);
  const opened = useRef(path);
  useEffect(() => {
    document.title = titleOf(path);
    if (opened.current === path) return;
    opened.current = path;
    // A dialog or a row that led here took the focus with it.
    const frame = requestAnimationFrame(() => {
      if (document.activeElement === document.body) main.current?.focus({ preventScroll: true });
    });
    return () => cancelAnimationFrame(frame);
  }, [path]);
  return (
    <>
      {path !== WALL && <Header />}
      {path !== WALL && <Overlays />}
      <Unseen />
      <main id="main" ref={main} tabIndex={-1}>
        <Switch>
          {lack && <Route>{() => <NoRights lack={lack} />}</Route>}
          <Route path={FLEET} component={FleetScreen} />
          <Route path={WALL} component={WallScreen} />
          <Route path={NODES} component={NodesScreen} />
          <Route path="/nodes/:name">
            {({ name }) => named(name, (text) => <NodeScreen key={text} name={text} />)}
          </Route>
          <Route path={CLUSTERS} component={ClustersScreen} />
          <Route path="/clusters/:name">
            {({ name }) => named(name, (text) => <ClusterScreen key={text} name={text} />)}
          </Route>
          <Route path={ACTIVITY} component={ActivityScreen} />
          <Route path={OPERATIONS} component={OperationsScreen} />
          <Route path="/operations/:id">
            {({ id }) => named(id, (text) => <OperationScreen key={text} id={text} />)}
          </Route>
          <Route>
            <NotFound title="This screen does not exist" />
          </Route>
        </Switch>
      </main>
    </>
  );
}

function Unseen() {
  const text = useSyncExternalStore(unseen.subscribe, unseen.get);
  return (
    text !== null && (
      <p role="alert" className="problem">
        <Text>{text}</Text>{" "}
        <button type="button" onClick={() => unseen.set(null)}>
          Close
        </button>
      </p>
    )
  );
}

/** The error that leaves nothing to show: the caller may not read. */
const lackOf = ({ error }: { readonly error: Error | null }) =>
  error && "code" in error && error.code === "FORBIDDEN" ? error : null;

function NoRights({ lack }: { readonly lack: Error }) {
  return (
    <div className="screen">
      <h1>Nothing is shown to you</h1>
      <Problem error={lack} onAgain={() => location.reload()} />
    </div>
  );
}

/** The palette, the table of keys, and a dialog that the palette proposes. */
function Overlays() {
  useKeys();
  const open = useSyncExternalStore(overlay.subscribe, overlay.get);
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const close = () => overlay.set(null);
  return (
    <>
      {open === "palette" && <Palette onClose={close} onPropose={setProposal} />}
      {open === "keys" && <KeyTable onClose={close} />}
      {proposal && <WorkDialog proposal={proposal} onClose={() => setProposal(null)} />}
    </>
  );
}

/** wouter has decoded a part of the path if it could. */
function named(part: string, screen: (text: string) => React.ReactNode) {
  const text = part.includes("%") ? partOfPath(part) : part;
  return text === null ? <NotFound title="This address is not valid" /> : screen(text);
}
