package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"ostler-agent/internal/command"
	"ostler-agent/internal/disk"
	"ostler-agent/internal/network"
)

func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", ""))
}

func readNumber(path string) uint64 {
	value, err := strconv.ParseInt(readText(path), 0, 64)
	if err != nil || value < 0 {
		return 0
	}
	return uint64(value)
}

// memoryBytes is what the kernel has, which is a little less than the modules.
func memoryBytes(meminfo string) uint64 {
	for _, line := range strings.Split(meminfo, "\n") {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kibibytes, _ := strconv.ParseUint(fields[1], 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}

// processorsFromKernel is for machines whose firmware has no table of processors.
func processorsFromKernel() []any {
	model := ""
	for _, line := range strings.Split(readText("/proc/cpuinfo"), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return []any{compact(map[string]any{"id": "0", "model": model, "threads": uint64(runtime.NumCPU())})}
}

func disks(ctx context.Context) []any {
	list := []any{}
	for _, each := range disk.BuiltIn() {
		view := each.View()
		if each.Kind != disk.Virtual {
			result, err := command.Output(ctx, "smartctl", "--json", "--health", each.Path)
			if passed, known := parseHealth(result.Stdout); err == nil && known {
				view["failurePredicted"] = !passed
				view["health"] = map[bool]string{true: "OK", false: "CRITICAL"}[passed]
			}
		}
		list = append(list, view)
	}
	return list
}

// parseHealth reads the output of smartctl --json.
func parseHealth(output []byte) (passed, known bool) {
	var parsed struct {
		Status *struct {
			Passed bool `json:"passed"`
		} `json:"smart_status"`
	}
	if json.Unmarshal(output, &parsed) != nil || parsed.Status == nil {
		return false, false
	}
	return parsed.Status.Passed, true
}

func networkInterfaces() []any {
	list := []any{}
	for _, port := range network.Ports() {
		folder := filepath.Join("/sys/class/net", port.Name)
		link := "DOWN"
		if readText(filepath.Join(folder, "carrier")) == "1" {
			link = "UP"
		}
		driver, _ := filepath.EvalSymlinks(filepath.Join(folder, "device/driver"))
		slot, _ := filepath.EvalSymlinks(filepath.Join(folder, "device"))
		speed := readNumber(filepath.Join(folder, "speed"))
		if speed > 1<<31 {
			speed = 0
		}
		list = append(list, compact(map[string]any{
			"id": port.Name, "name": port.Name, "mac": port.MAC, "link": link, "speedMbps": speed,
			"driver": base(driver), "slot": base(slot),
		}))
	}
	return list
}

func base(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}

// classes are the kinds of PCI devices that are listed: bridges and controllers of the board itself are not.
var classes = map[string]string{"01": "STORAGE", "02": "NETWORK", "03": "DISPLAY", "0b": "PROCESSOR", "12": "ACCELERATOR"}

func pciDevices(root string) []any {
	entries, _ := os.ReadDir(root)
	list := []any{}
	for _, entry := range entries {
		folder := filepath.Join(root, entry.Name())
		class := strings.TrimPrefix(readText(filepath.Join(folder, "class")), "0x")
		if len(class) < 2 || classes[class[:2]] == "" {
			continue
		}
		vendor, device := readText(filepath.Join(folder, "vendor")), readText(filepath.Join(folder, "device"))
		list = append(list, map[string]any{
			"id": entry.Name(), "type": classes[class[:2]],
			"manufacturer": vendor, "model": fmt.Sprintf("%s:%s", strings.TrimPrefix(vendor, "0x"), strings.TrimPrefix(device, "0x")),
		})
	}
	return list
}

// secureBoot reads a variable of the firmware: four bytes of attributes, then the value.
func secureBoot() any {
	found, _ := filepath.Glob("/sys/firmware/efi/efivars/SecureBoot-*")
	if len(found) == 0 {
		return nil
	}
	data, err := os.ReadFile(found[0])
	if err != nil || len(data) < 5 {
		return nil
	}
	return data[4] == 1
}
