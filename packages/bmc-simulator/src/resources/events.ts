/** EventService: subscriptions by POST, and test events. The stream itself is served in serve.ts. */
import { record } from "../journal.ts";
import type { Subscription } from "../event-hub.ts";
import { ENABLED, ROOT, action, collection, done, link, notFound, refuse, resource, textAt } from "../resource.ts";
import type { Answer, Body, Call, Route } from "../resource.ts";

const E = "/EventService";
const SUBSCRIPTIONS = `${E}/Subscriptions`;

export const EVENT_ROUTES: readonly Route[] = [
  { path: E, get: eventService },
  {
    path: `${E}/Actions/EventService.SubmitTestEvent`,
    post: ({ bmc }) => {
      record(bmc, { message: "This is a test event.", messageId: "ResourceEvent.1.3.TestMessage", origin: E });
      return done(bmc);
    },
  },
  {
    path: SUBSCRIPTIONS,
    offered: ({ events }) => events.push,
    get: ({ bmc }) =>
      collection(
        "EventDestination",
        SUBSCRIPTIONS,
        bmc.events.subscriptions().map(({ id }) => id),
      ),
    post: subscribe,
  },
  {
    path: `${SUBSCRIPTIONS}/*`,
    offered: ({ events }) => events.push,
    get: ({ bmc, params }) => {
      const found = bmc.events.subscriptions().find(({ id }) => id === params[0]);
      return found === undefined ? null : subscription(found);
    },
    delete: ({ bmc, params, path }) => (bmc.events.unsubscribe(params[0] ?? "") ? { status: 204 } : notFound(path)),
  },
];

function eventService({ bmc: { traits }, path }: Call): Body {
  const { stream, push } = traits.events;
  return resource("EventService.v1_8_0", path, {
    Id: "EventService",
    Name: "Event Service",
    Status: ENABLED,
    ServiceEnabled: true,
    EventFormatTypes: ["Event"],
    ...(stream === null ? {} : { ServerSentEventUri: ROOT + stream }),
    ...(push ? { Subscriptions: link(SUBSCRIPTIONS) } : {}),
    Actions: { "#EventService.SubmitTestEvent": action(path, "EventService.SubmitTestEvent") },
  });
}

function subscribe({ bmc, body }: Call): Answer {
  const destination = textAt(body, "Destination");
  if (destination === null || !URL.canParse(destination) || !/^https?:$/.test(new URL(destination).protocol))
    return refuse(400, "PropertyValueFormatError", "Destination takes an HTTP or HTTPS address.", "Destination");
  const made = bmc.events.subscribe(destination, textAt(body, "Context") ?? "");
  if (made === null) return refuse(400, "EventSubscriptionLimitExceeded", "The limit of subscriptions is reached.");
  return { status: 201, body: subscription(made), headers: { Location: `${ROOT}${SUBSCRIPTIONS}/${made.id}` } };
}

function subscription({ id, destination, context }: Subscription): Body {
  return resource("EventDestination.v1_12_0", `${SUBSCRIPTIONS}/${id}`, {
    Id: id,
    Name: "Event Subscription",
    Destination: destination,
    Context: context,
    Protocol: "Redfish",
    SubscriptionType: "RedfishEvent",
  });
}
