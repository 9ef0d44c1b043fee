#!/usr/bin/env python3
"""Receives notifications of Alertmanager, and reports them to Ostler as the presence of nodes.

    presence.py

A firing alert is a node that has disappeared, a resolved one a node that is seen. The node is in the label `node` of the
alert, or the one that ALERT_LABEL names. Alertmanager gets an error and tries again while Ostler does not answer, and
repeats what still fires: a report that is repeated changes nothing.

Reads OSTLER_URL, OSTLER_TOKEN, ALERT_LABEL and LISTEN (default 127.0.0.1:9095).
"""
import http.client, json, os, sys, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

URL = os.environ.get("OSTLER_URL", "http://127.0.0.1:4000/graphql")
TOKEN = os.environ.get("OSTLER_TOKEN")
LABEL = os.environ.get("ALERT_LABEL", "node")
BODY_MAX = 10_000_000
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


def presence(notification):
    """The nodes of a notification, and how they are: a node with a firing alert has disappeared."""
    found = {}
    for alert in notification["alerts"]:
        name = alert["labels"].get(LABEL)
        if not name:
            log(f"an alert has no label {LABEL}: {json.dumps(alert['labels'])}")
        elif alert["status"] == "firing":
            found[name] = "DISAPPEARED"
        else:
            found.setdefault(name, "DISCOVERED")
    return found


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # Seconds in which a notification has to arrive: they are taken one after the other, in their order.

    def do_POST(self):
        try:
            length = int(self.headers.get("content-length", "-1"))
            if not 0 <= length <= BODY_MAX:
                return self.answer(413, f"a notification of 0 to {BODY_MAX} bytes is expected")
            found = presence(json.loads(self.rfile.read(length)))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return self.answer(400, f"not a notification of Alertmanager: {error!r}")
        try:
            for event in ("DISCOVERED", "DISAPPEARED"):
                names = [name for name, seen in found.items() if seen == event]
                for i in range(0, len(names), BATCH):
                    send(event, names[i : i + BATCH])
        except OSError as error:
            return self.answer(503, f"not reported: {error}")
        self.answer(200, "")

    def answer(self, status, text):
        if text:
            log(text)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_args):
        pass


if __name__ == "__main__":
    if sys.argv[1:] == ["document"]:
        sys.stdout.write(REPORT)
        sys.exit()
    host, port = os.environ.get("LISTEN", "127.0.0.1:9095").rsplit(":", 1)
    server = HTTPServer((host, int(port)), Receiver)
    log(f"listening on {host}:{server.server_port}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
