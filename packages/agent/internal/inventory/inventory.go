// Package inventory describes the machine from inside, in the terms of docs/drivers.md.
package inventory

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"time"

	"ostler-agent/internal/lldp"
	"ostler-agent/internal/task"
)

type request struct {
	LLDPSeconds int `json:"lldpSeconds"`
}

// Collector has what is heard from the start of the agent.
type Collector struct{ neighbours *lldp.Listener }

// New begins to listen.
func New() *Collector { return &Collector{lldp.Listen()} }

// Run is the task inventory.
func (c *Collector) Run(ctx context.Context, args json.RawMessage, progress task.Progress) (any, error) {
	var wanted request
	if err := task.Decode(args, &wanted); err != nil {
		return nil, err
	}
	progress(10, "hardware")
	machine := map[string]any{}
	fromSMBIOS(readSMBIOS(), machine)
	if machine["processors"] == nil {
		machine["processors"] = processorsFromKernel()
	}
	architecture := map[string]string{"amd64": "X64", "arm64": "ARM64"}[runtime.GOARCH]
	if list, ok := machine["processors"].([]any); ok {
		for _, each := range list {
			each.(map[string]any)["architecture"] = architecture
		}
	}
	machine["memoryBytes"] = memoryBytes(readText("/proc/meminfo"))
	machine["bootMode"] = "BIOS"
	if _, err := os.Stat("/sys/firmware/efi"); err == nil {
		machine["bootMode"] = "UEFI"
	}
	if value := secureBoot(); value != nil {
		machine["secureBoot"] = value
	}
	progress(30, "disks")
	machine["disks"] = disks(ctx)
	machine["networkInterfaces"] = networkInterfaces()
	machine["pciDevices"] = pciDevices("/sys/bus/pci/devices")
	progress(60, "BMC")
	if view := bmc(); view != nil {
		machine["bmc"] = view
	}
	progress(70, "LLDP")
	machine["lldp"] = c.neighbours.Neighbours(time.Duration(wanted.LLDPSeconds)*time.Second, ctx.Done())
	return machine, ctx.Err()
}
