// Package agent asks the service what to do, does one task at a time, and reports its result until the service has it.
//
// Modes: idle (no task), working (a task runs; the service is asked every second and can cancel it) and reporting (the
// task has ended; its result is sent until the service answers 202, 401 or 409).
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"ostler-agent/internal/console"
	"ostler-agent/internal/disk"
	"ostler-agent/internal/network"
	"ostler-agent/internal/service"
	"ostler-agent/internal/session"
	"ostler-agent/internal/task"
)

const (
	protocol       = 2
	pollEvery      = time.Second
	countEvery     = 10 * time.Second
	longestIdle    = 60 * time.Second
	longestBackoff = 5 * time.Second
	// unknownLimit is how long the service may answer that it does not know the session: it can have been restored.
	unknownLimit = 10 * time.Minute
	resultBytes  = 1 << 20
)

// Agent is the state of the program.
type Agent struct {
	client  *service.Client
	tasks   Tasks
	report  service.Report
	out     Printer
	power   func()
	running *work
	// disks is the number of disks that was counted last.
	disks   atomic.Int64
	backoff time.Duration
	// unknownSince is the first of a row of answers that the session is unknown.
	unknownSince time.Time
	printed      string
	// finished is the task whose result the service has.
	finished string
	now      func() time.Time
	sleep    func(time.Duration)
}

// Printer prints lines for people.
type Printer interface {
	Printf(format string, values ...any)
}

// Run ends only with the machine.
func Run(document *session.Document, version string, out *console.Console) {
	out.Printf("version %s, %s, boot mode %s", version, architecture(), bootMode())
	if document == nil {
		out.Printf("this medium has no session: start the machine through Ostler. Power off in 10 minutes")
		time.Sleep(unknownLimit)
		powerOff()
	}
	client, err := service.New(*document, setClock)
	if err != nil {
		out.Printf("%v. Power off in 10 minutes", err)
		time.Sleep(unknownLimit)
		powerOff()
	}
	out.Printf("session %s, service %s", document.Session, document.URL)
	agent := &Agent{
		client: client,
		tasks:  Machine(client),
		report: service.Report{
			Instance: session.Instance(), Version: version, Protocol: protocol,
			Architecture: architecture(), BootMode: bootMode(),
		},
		out:   out,
		power: powerOff,
		now:   time.Now,
		sleep: time.Sleep,
	}
	go agent.countDisks()
	agent.deliverKept()
	for agent.step() {
	}
}

// countDisks is beside the loop that shows that the agent is alive: a read from a stuck adapter can block forever.
// Adapters may find their disks late, so it counts again.
func (a *Agent) countDisks() {
	for {
		a.disks.Store(int64(len(disk.BuiltIn())))
		time.Sleep(countEvery)
	}
}

// step asks once and obeys. It returns false when the machine is to be switched off, which ends a test.
func (a *Agent) step() bool {
	a.report.MACs = addresses()
	a.report.Disks = int(a.disks.Load())
	a.report.Task = nil
	if a.running != nil {
		if result := a.running.result(); result != nil {
			a.running = nil
			return a.deliver(*result)
		}
		a.report.Task = a.running.activity()
	}
	order, err := a.client.Poll(context.Background(), a.report)
	if err != nil {
		return a.failed(err)
	}
	a.backoff, a.unknownSince = 0, time.Time{}
	a.say("in contact with the service")
	return a.obey(order)
}

func (a *Agent) obey(order service.Order) bool {
	switch {
	case order.Do == "power_off":
		a.out.Printf("the service asks for power off")
		a.stop()
		a.power()
		return false
	case order.Do == "cancel":
		a.stop()
		if a.running == nil {
			a.sleep(pollEvery)
		}
	case order.Do == "task" && order.Task != nil && order.Task.ID == a.finished:
		// The answer to its result was lost on the way here.
		a.wait(pollEvery)
	case order.Do == "task" && order.Task != nil:
		if a.running != nil && a.running.task.ID != order.Task.ID {
			a.stop()
			return true
		}
		if a.running == nil {
			a.out.Printf("task %s %s begins", order.Task.Kind, order.Task.ID)
			a.running = begin(a.tasks, *order.Task)
		}
		a.wait(pollEvery)
	default:
		a.wait(idleTime(order.Seconds, a.running != nil))
	}
	return true
}

func idleTime(seconds float64, working bool) time.Duration {
	wait := time.Duration(seconds * float64(time.Second))
	if working || wait < pollEvery {
		return pollEvery
	}
	if wait > longestIdle {
		return longestIdle
	}
	return wait
}

// wait ends early when the running task ends, so that its result is reported at once.
func (a *Agent) wait(limit time.Duration) {
	if a.running == nil {
		a.sleep(limit)
		return
	}
	select {
	case <-a.running.done:
	case <-time.After(limit):
	}
}

func (a *Agent) stop() {
	if a.running == nil {
		return
	}
	a.out.Printf("task %s is cancelled", a.running.task.Kind)
	a.running.cancel()
	select {
	case <-a.running.done:
	case <-time.After(cancelWait):
		// A drive that erases itself cannot be stopped. The service hears that the task has ended.
		a.running.abandon()
	}
}

func (a *Agent) failed(err error) bool {
	var status *service.StatusError
	if errors.As(err, &status) {
		switch status.Status {
		case 401:
			if a.unknownSince.IsZero() {
				a.unknownSince = a.now()
			}
			if a.now().Sub(a.unknownSince) >= unknownLimit {
				a.out.Printf("the service has not known this session for %v: power off", unknownLimit)
				a.stop()
				a.power()
				return false
			}
		case 409:
			a.out.Printf("another machine has used this session: power off")
			a.stop()
			a.power()
			return false
		}
	}
	a.say("no answer: " + masked(err.Error()))
	a.wait(a.nextBackoff())
	return true
}

func (a *Agent) nextBackoff() time.Duration {
	a.backoff = a.backoff*2 + 500*time.Millisecond
	if a.backoff > longestBackoff {
		a.backoff = longestBackoff
	}
	return a.backoff
}

// say prints a line that differs from the last.
func (a *Agent) say(line string) {
	if line != a.printed {
		a.out.Printf("%s", line)
		a.printed = line
	}
}

// deliver sends a result until the service has taken or refused it. The result is kept: the program may be killed.
func (a *Agent) deliver(result service.Result) bool {
	result.Instance = a.report.Instance
	if text, err := json.Marshal(result); err == nil {
		if len(text) > resultBytes {
			result = service.Result{Instance: result.Instance, Task: result.Task, Error: &task.Error{
				Code: task.Internal, Message: "The result of the task is larger than 1 MiB.",
			}}
		} else {
			_ = session.Keep("result", text)
		}
	}
	if result.OK {
		a.out.Printf("task %s is done", result.Task)
	} else {
		a.out.Printf("task %s failed: %v", result.Task, result.Error)
	}
	for {
		err := a.client.Deliver(context.Background(), result)
		var status *service.StatusError
		if err == nil || errors.As(err, &status) && (status.Status == 409 || status.Status == 401 || status.Status == 413 || status.Status == 400) {
			session.Forget("result")
			a.backoff, a.finished = 0, result.Task
			return true
		}
		a.say("the result is not delivered yet: " + masked(err.Error()))
		a.sleep(a.nextBackoff())
	}
}

func (a *Agent) deliverKept() {
	var result service.Result
	if text := session.Kept("result"); text != nil && json.Unmarshal(text, &result) == nil {
		a.deliver(result)
	}
}

// masked removes addresses of requests, which Go puts into its errors, from what is printed.
func masked(text string) string {
	if index := strings.LastIndex(text, ": "); strings.HasPrefix(text, "Post ") && index > 0 {
		return text[index+2:]
	}
	return text
}

func architecture() string {
	if runtime.GOARCH == "arm64" {
		return "ARM64"
	}
	return "X64"
}

func bootMode() string {
	if _, err := os.Stat("/sys/firmware/efi"); err == nil {
		return "UEFI"
	}
	return "BIOS"
}

func addresses() []string {
	list := []string{}
	for _, port := range network.Ports() {
		list = append(list, port.MAC)
	}
	return list
}
