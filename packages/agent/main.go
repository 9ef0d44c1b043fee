// Command ostler-agent is the program that a machine runs from a ramdisk while Ostler inspects, cleans or deploys it.
//
//	ostler-agent network   configures all network ports, and keeps doing so
//	ostler-agent run       asks the service for tasks, and does them
package main

import (
	"fmt"
	"os"

	"ostler-agent/internal/agent"
	"ostler-agent/internal/console"
	"ostler-agent/internal/network"
	"ostler-agent/internal/session"
)

// version is set by the linker.
var version = "development"

func main() {
	out := console.Open()
	document, err := session.Read()
	if err != nil {
		out.Printf("the session document cannot be read: %v", err)
	}
	command := "run"
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	switch command {
	case "network":
		network.Run(document, out)
	case "run":
		agent.Run(document, version, out)
	default:
		fmt.Fprintf(os.Stderr, "unknown command %q: use network or run\n", command)
		os.Exit(2)
	}
}
