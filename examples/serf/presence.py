#!/usr/bin/env python3
"""Reports the members of a Serf cluster to Ostler, as the presence of the nodes of the same names.

    serf agent -event-handler=member-join,member-leave,member-failed,member-update,member-reap=/usr/local/bin/presence.py
    presence.py watch

As Serf's event handler it reports the members of one event. `watch` runs beside the agent: it reports all members when
it starts, and then every OSTLER_SERF_SECONDS what is not reported yet: what happened while the agent was down, and what
Ostler did not receive. A report that is repeated changes nothing. Neither program reports anything while Serf is down.

Reads OSTLER_URL, OSTLER_TOKEN, OSTLER_SERF_FILE, OSTLER_SERF_SECONDS and, as `serf members` does, SERF_RPC_ADDR.
"""
import fcntl, http.client, json, os, subprocess, sys, time, urllib.error, urllib.request

URL = os.environ.get("OSTLER_URL", "http://127.0.0.1:4000/graphql")
TOKEN = os.environ.get("OSTLER_TOKEN")
FILE = os.environ.get("OSTLER_SERF_FILE", "/var/lib/ostler-serf/members.json")
EVERY = float(os.environ.get("OSTLER_SERF_SECONDS", "60"))
SETTLE = min(2.0, EVERY)  # Members that join an agent after its start are listed by and by.
BATCH = 500
# The document that the token is bound to. Changing a space changes its hash.
REPORT = "mutation Presence($event: PresenceEvent!, $nodes: [ReportedNodeInput!]!) { reportPresence(input: { event: $event, nodes: $nodes }) { results { ref error { message } } errors { message } } }"


def log(text):
    print(text, file=sys.stderr, flush=True)


def send(event, names):
    """Reports nodes. Raises OSError if Ostler did not take the report; nodes that it does not know are logged."""
    body = {"query": REPORT, "variables": {"event": event, "nodes": [{"name": name} for name in names]}}
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(URL, json.dumps(body).encode(), headers), timeout=10) as answer:
            answer = json.load(answer)
    except urllib.error.HTTPError as error:
        raise OSError(f"{error}: {error.read(1000).decode(errors='replace')}") from None
    except (ValueError, http.client.HTTPException) as error:
        raise OSError(f"no answer of Ostler: {error}") from None
    report = (answer.get("data") or {}).get("reportPresence") or {"errors": [], "results": []}
    problems = (answer.get("errors") or []) + report["errors"]
    if problems:
        raise OSError("; ".join(problem["message"] for problem in problems))
    for result in report["results"]:
        if result["error"]:
            log(result["error"]["message"])


def report(change):
    """Changes the stored members, and reports those that are not reported. One process at a time."""
    os.makedirs(os.path.dirname(FILE) or ".", exist_ok=True)
    with open(f"{FILE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(FILE) as file:
                known = json.load(file)  # Name: [event, whether it is reported].
        except (FileNotFoundError, ValueError):
            known = {}
        for name, event in change(known).items():
            if known.get(name, [None])[0] != event:
                known[name] = [event, False]
        write(known)  # What Ostler does not take now is reported later.
        for event in ("DISCOVERED", "DISAPPEARED"):
            names = [name for name, (last, done) in known.items() if last == event and not done]
            for batch in (names[i : i + BATCH] for i in range(0, len(names), BATCH)):
                send(event, batch)
                known.update((name, [event, True]) for name in batch)
                write(known)


def write(known):
    with open(f"{FILE}.new", "w") as file:
        json.dump(known, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{FILE}.new", FILE)


def handle(event):
    seen = "DISCOVERED" if event in ("member-join", "member-update") else "DISAPPEARED"
    names = [line.split("\t")[0] for line in sys.stdin.read().splitlines() if line]
    report(lambda _known: {name: seen for name in names})


def members():
    """All members and how they are; None while Serf does not answer."""
    try:
        command = ["serf", "members", "-format=json"]
        answer = subprocess.run(command, capture_output=True, check=True, timeout=10).stdout
        listed = json.loads(answer)["members"] or []
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None
    return {one["name"]: "DISCOVERED" if one["status"] == "alive" else "DISAPPEARED" for one in listed}


def watch():
    before, repeats, was_down = None, True, False
    while True:
        now = members()
        if (now is None) != was_down:
            log("Serf does not answer" if now is None else "Serf answers again")
            was_down = now is None
        # An agent that has not joined yet lists itself alone. A member that it forgot while it was down is not listed.
        is_settled = now is not None and now == before and list(now.values()).count("DISCOVERED") > 1

        def change(known):
            if repeats:
                known.update((name, [event, False]) for name, (event, _done) in known.items())
            gone = {name: "DISAPPEARED" for name in known if is_settled and name not in now}
            return {**gone, **now}

        try:
            if now is not None:
                report(change)
                repeats = False
        except OSError as error:
            log(f"not reported, trying again: {error}")
        time.sleep(EVERY if now == before else SETTLE)
        before = now


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["document"]:
            sys.stdout.write(REPORT)
        elif sys.argv[1:] == ["watch"]:
            watch()
        elif os.environ.get("SERF_EVENT", "").startswith("member-"):
            handle(os.environ["SERF_EVENT"])
        elif "SERF_EVENT" not in os.environ:
            sys.exit(__doc__)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"not reported: {error}. A running `presence.py watch` tries again.")
