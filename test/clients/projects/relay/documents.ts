/** Documents of the program for relay-compiler. A bundler with Relay's plugin would replace them with the artifacts. */
import { graphql } from "relay-runtime";

export const documents = [
  graphql`
    query documentsFleetQuery($count: Int!, $cursor: String, $filter: NodeFilter) {
      ...documentsFleet @arguments(count: $count, cursor: $cursor, filter: $filter)
    }
  `,
  graphql`
    fragment documentsFleet on Query
    @argumentDefinitions(count: { type: "Int!" }, cursor: { type: "String" }, filter: { type: "NodeFilter" })
    @refetchable(queryName: "documentsFleetPageQuery") {
      nodes(first: $count, after: $cursor, filter: $filter) @connection(key: "documentsFleet_nodes", filters: ["filter"]) {
        totalCount
        edges {
          node {
            id
            ...documentsNode
          }
        }
      }
    }
  `,
  graphql`
    fragment documentsNode on Node @refetchable(queryName: "documentsNodeAgainQuery") {
      id
      name
      state
    }
  `,
  graphql`
    fragment documentsRun on Run @refetchable(queryName: "documentsRunAgainQuery") {
      id
      nodeName
      state
    }
  `,
  graphql`
    mutation documentsRegisterMutation($input: RegisterNodesInput!) {
      registerNodes(input: $input) {
        nodes {
          id
          ...documentsNode
        }
        errors {
          __typename
          code
          path
        }
      }
    }
  `,
  graphql`
    mutation documentsCommissionMutation($input: CommissionNodesInput!) {
      commissionNodes(input: $input) {
        results {
          run {
            id
          }
          error {
            __typename
            code
            ... on ConflictError {
              allowedStates
            }
          }
        }
        errors {
          code
          message
          ... on NotFoundError {
            missing
          }
        }
      }
    }
  `,
  graphql`
    subscription documentsFollowSubscription($filter: NodeFilter, $after: String) {
      nodeTransitions(filter: $filter, after: $after) {
        __typename
        ... on Transition {
          cursor
          to
          sequence
          node {
            id
            state
          }
        }
        ... on StreamBookmark {
          cursor
          caughtUp
        }
        ... on StreamReset {
          cursor
          code
        }
      }
    }
  `,
];
