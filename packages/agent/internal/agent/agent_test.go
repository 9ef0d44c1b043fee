package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ostler-agent/internal/service"
	"ostler-agent/internal/session"
	"ostler-agent/internal/task"
)

// lines is a console.
type lines struct{ text strings.Builder }

func (l *lines) Printf(format string, values ...any) { fmt.Fprintf(&l.text, format+"\n", values...) }

// answer is what the service replies to one request.
type answer struct {
	status int
	order  string
}

// played runs an agent against answers, the last of which is repeated, and returns what it sent.
type played struct {
	agent   *Agent
	out     *lines
	off     bool
	polls   []service.Report
	results []service.Result
	slept   time.Duration
}

func play(t *testing.T, tasks Tasks, polls, results []answer) *played {
	t.Helper()
	session.StatePath = t.TempDir()
	p := &played{out: &lines{}}
	next := func(list []answer, index int) answer {
		if index >= len(list) {
			return list[len(list)-1]
		}
		return list[index]
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s1.geheim" {
			t.Errorf("bearer %q", r.Header.Get("Authorization"))
		}
		var reply answer
		if r.URL.Path == "/agent/v1/poll" {
			var report service.Report
			_ = json.NewDecoder(r.Body).Decode(&report)
			reply = next(polls, len(p.polls))
			p.polls = append(p.polls, report)
		} else {
			var result service.Result
			_ = json.NewDecoder(r.Body).Decode(&result)
			reply = next(results, len(p.results))
			p.results = append(p.results, result)
		}
		w.WriteHeader(reply.status)
		_, _ = w.Write([]byte(reply.order))
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(server.Certificate().Raw)
	document := session.Document{URL: server.URL, Session: "s1", Secret: "geheim", Fingerprint: hex.EncodeToString(sum[:])}
	client, err := service.New(document, nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(0, 0)
	p.agent = &Agent{
		client: client, tasks: tasks, report: service.Report{Instance: "i1", Protocol: protocol}, out: p.out,
		power: func() { p.off = true },
		now:   func() time.Time { return clock },
		sleep: func(wait time.Duration) { clock = clock.Add(wait); p.slept += wait },
	}
	return p
}

func (p *played) run() {
	for p.agent.step() {
	}
}

var (
	wait     = answer{200, `{"do":"wait","seconds":5}`}
	off      = answer{200, `{"do":"power_off"}`}
	working  = answer{200, `{"do":"continue"}`}
	cancel   = answer{200, `{"do":"cancel"}`}
	taken    = answer{202, `{}`}
	echoTask = answer{200, `{"do":"task","task":{"id":"t1","kind":"echo","args":{"value":7}}}`}
	longTask = answer{200, `{"do":"task","task":{"id":"t2","kind":"long"}}`}
)

var sampleTasks = Tasks{
	"echo": func(_ context.Context, args json.RawMessage, _ task.Progress) (any, error) { return args, nil },
	"long": func(ctx context.Context, _ json.RawMessage, progress task.Progress) (any, error) {
		progress(40, "running")
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"broken": func(context.Context, json.RawMessage, task.Progress) (any, error) { panic("a bug") },
}

func TestResultIsRepeatedUntilTheServiceHasIt(t *testing.T) {
	p := play(t, sampleTasks, []answer{wait, echoTask, off}, []answer{{503, ""}, {500, ""}, taken})
	p.run()
	if len(p.results) != 3 || !p.results[2].OK || string(p.results[2].Output) != `{"value":7}` || p.results[2].Instance != "i1" {
		t.Errorf("got %+v", p.results)
	}
	if session.Kept("result") != nil {
		t.Error("a delivered result is kept")
	}
}

func TestResultOfAKilledAgentIsDeliveredByTheNext(t *testing.T) {
	p := play(t, sampleTasks, []answer{off}, []answer{taken})
	_ = session.Keep("result", []byte(`{"task":"t9","ok":true,"output":{}}`))
	p.agent.deliverKept()
	if len(p.results) != 1 || p.results[0].Task != "t9" {
		t.Errorf("got %+v", p.results)
	}
}

func TestTaskWhoseResultWasTakenIsNotDoneAgain(t *testing.T) {
	p := play(t, sampleTasks, []answer{echoTask, echoTask, echoTask, off}, []answer{taken})
	p.run()
	if len(p.results) != 1 {
		t.Errorf("got %+v", p.results)
	}
}

func TestCancelEndsTheTaskWithinASecond(t *testing.T) {
	p := play(t, sampleTasks, []answer{longTask, working, cancel, wait, off}, []answer{taken})
	p.run()
	if len(p.results) != 1 || p.results[0].Error == nil || p.results[0].Error.Code != task.Cancelled {
		t.Fatalf("got %+v", p.results)
	}
	if report := p.polls[1].Task; report == nil || report.ID != "t2" || report.Percent != 40 || report.Message != "running" {
		t.Errorf("got %+v", report)
	}
}

func TestTaskThatFailsInAnUnforeseenWay(t *testing.T) {
	for kind, code := range map[string]string{"broken": task.Internal, "dance": task.Unsupported} {
		order := answer{200, `{"do":"task","task":{"id":"t3","kind":"` + kind + `"}}`}
		p := play(t, sampleTasks, []answer{order, off}, []answer{taken})
		p.run()
		if len(p.results) != 1 || p.results[0].Error.Code != code {
			t.Errorf("%s: got %+v", kind, p.results)
		}
	}
}

func TestAnotherMachineWithTheSameSecretPowersOff(t *testing.T) {
	p := play(t, sampleTasks, []answer{{409, ""}}, nil)
	p.run()
	if !p.off || len(p.polls) != 1 {
		t.Errorf("off %v after %d polls", p.off, len(p.polls))
	}
}

func TestUnknownSessionPowersOffAfterTenMinutes(t *testing.T) {
	p := play(t, sampleTasks, []answer{{401, ""}}, nil)
	p.run()
	if !p.off || p.slept < unknownLimit || p.slept > unknownLimit+longestBackoff {
		t.Errorf("off %v after %v", p.off, p.slept)
	}
}

func TestServiceThatIsAwayIsAskedAgainWithoutEnd(t *testing.T) {
	polls := make([]answer, 0, 101)
	for len(polls) < 100 {
		polls = append(polls, answer{503, ""})
	}
	p := play(t, sampleTasks, append(polls, off), nil)
	p.run()
	if !p.off || len(p.polls) != 101 || p.slept > 100*longestBackoff {
		t.Errorf("%d polls in %v", len(p.polls), p.slept)
	}
	if strings.Contains(p.out.text.String(), "geheim") {
		t.Error("the console shows the secret")
	}
}
