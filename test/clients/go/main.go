// Command main is a client in Go. Types and calls are generated from the schema of the service; streams are read as
// server-sent events with the standard library. It registers, reads and commissions a node, and follows it with a
// subscription that it cancels half-way and resumes from the last cursor.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"git.sr.ht/~emersion/gqlclient"
)

// Query is a field of every payload. The generator makes no type for it; this program reads with separate requests.
type Query struct{}

// known sends the token with each request, if there is one.
type known struct{ token string }

func (with known) RoundTrip(request *http.Request) (*http.Response, error) {
	if with.token != "" {
		request.Header.Set("Authorization", "Bearer "+with.token)
	}
	return http.DefaultTransport.RoundTrip(request)
}

const follow = `subscription Follow($filter: NodeFilter, $after: String) {
  nodeTransitions(filter: $filter, after: $after) {
    __typename
    ... on Transition { cursor nodeName from to event sequence }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}`

// followUntil passes each transition of the nodes after the cursor to each, until one leads to the state. It returns the
// last cursor.
func followUntil(ctx context.Context, client *http.Client, url string, ids []string, after string, state NodeState, each func(*Transition)) (string, error) {
	body, err := json.Marshal(map[string]interface{}{"query": follow, "variables": map[string]interface{}{"filter": NodeFilter{Ids: ids}, "after": after}})
	if err != nil {
		return after, err
	}
	// Canceling the request ends the subscription.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return after, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	response, err := client.Do(request)
	if err != nil {
		return after, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return after, fmt.Errorf("the service returned %s for the stream", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data := strings.TrimPrefix(lines.Text(), "data: ")
		if data == lines.Text() || data == "" {
			continue
		}
		var answer struct {
			Data   struct{ NodeTransitions NodeStreamItem }
			Errors []struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &answer); err != nil {
			return after, err
		}
		if len(answer.Errors) > 0 {
			return after, fmt.Errorf("%s", answer.Errors[0].Message)
		}
		switch item := answer.Data.NodeTransitions.Value.(type) {
		case *Transition:
			after = item.Cursor
			each(item)
			if item.To != nil && *item.To == state {
				return after, nil
			}
		case *StreamBookmark:
			after = item.Cursor
		case *StreamReset:
			return item.Cursor, fmt.Errorf("the stream ended: %s", item.Code)
		}
	}
	return after, fmt.Errorf("the stream ended without a completion: %w", lines.Err())
}

func try() error {
	url := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	httpClient := &http.Client{Transport: known{os.Getenv("OSTLER_TOKEN")}}
	client := gqlclient.New(url, httpClient)

	name := fmt.Sprintf("go-%d", time.Now().UnixNano())
	// The generated types send every field, so fields with a default need a value.
	registered, err := Register(client, ctx, RegisterNodesInput{Nodes: []RegisterNodeInput{{Name: name, Driver: DriverSettingsInput{Fake: &FakeSettingsInput{}}}}})
	if err != nil {
		return err
	}
	if len(registered.Nodes) != 1 {
		return fmt.Errorf("%s was not registered: %s", name, registered.Errors[0].Message)
	}
	ids := []string{registered.Nodes[0].Id}
	page, err := NodesPage(client, ctx, 10, nil, &NodeFilter{Ids: ids})
	if err != nil {
		return err
	}
	fmt.Printf("%s is %s\n", page.Edges[0].Node.Name, page.Edges[0].Node.State)

	commission := func(nodes NodeSelector) (*CommissionNodesPayload, error) {
		return Commission(client, ctx, CommissionNodesInput{Nodes: nodes, Acceptance: AcceptanceAllOrNothing, From: CommissionFromStage, Until: UntilActive})
	}
	refused, err := commission(NodeSelector{Names: []string{"missing-1", "missing-2"}})
	if err != nil {
		return err
	}
	// One refusal stands for all nodes that are refused with the same code.
	for _, refusal := range refused.Errors {
		fmt.Printf("%s, %d nodes (%s): %s\n", refusal.Code, refusal.Count, strings.Join(refusal.Refs, ", "), refusal.Message)
	}
	if len(refused.Errors) != 1 || refused.Errors[0].Count != 2 || len(refused.Errors[0].Refs) != 2 {
		return fmt.Errorf("the refusal has not the count and the names of the missing nodes")
	}
	accepted, err := commission(NodeSelector{Ids: ids})
	if err != nil {
		return err
	}
	if accepted.Operation == nil {
		return fmt.Errorf("the commission was refused: %s", accepted.Errors[0].Message)
	}

	sequence := int32(0)
	each := func(transition *Transition) {
		fmt.Printf("%s %d %s\n", transition.Cursor, transition.Sequence, transition.Event)
		sequence++
		if transition.Sequence != sequence {
			panic(fmt.Sprintf("received transition %d, expected %d", transition.Sequence, sequence))
		}
	}
	cursor, err := followUntil(ctx, httpClient, url, ids, "0", NodeStateManageable, each)
	if err != nil {
		return err
	}
	if _, err = followUntil(ctx, httpClient, url, ids, cursor, NodeStateActive, each); err != nil {
		return err
	}
	fmt.Printf("%s is ACTIVE after %d transitions\n", name, sequence)
	return nil
}

func main() {
	if err := try(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
