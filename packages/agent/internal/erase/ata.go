package erase

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"

	"ostler-agent/internal/command"
	"ostler-agent/internal/disk"
)

// password locks the drive only while it erases itself. It is documented, so that an operator can unlock a drive whose
// power failed in the middle.
const password = "ostler"

// security is the state of the ATA security feature set.
type security struct {
	supported, enabled, locked, frozen, enhanced bool
}

// parseSecurity reads the section Security of `hdparm -I`. Nil: the drive has none.
func parseSecurity(output []byte) *security {
	var state *security
	scanner := bufio.NewScanner(bytes.NewReader(output))
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, "Security:") {
			state = &security{}
			continue
		}
		if state == nil {
			continue
		}
		if !strings.HasPrefix(line, "\t") {
			break
		}
		words := strings.Join(strings.Fields(line), " ")
		negated := strings.HasPrefix(words, "not ")
		switch strings.TrimPrefix(words, "not ") {
		case "supported":
			state.supported = !negated
		case "enabled":
			state.enabled = !negated
		case "locked":
			state.locked = !negated
		case "frozen":
			state.frozen = !negated
		case "supported: enhanced erase":
			state.enhanced = !negated
		}
	}
	return state
}

func readSecurity(ctx context.Context, d disk.Disk) (*security, error) {
	result, err := command.Output(ctx, "hdparm", "-I", d.Path)
	if err != nil {
		return nil, err
	}
	return parseSecurity(result.Stdout), nil
}

// secureErase reads the state back after each command: hdparm exits with 0 when the drive has refused.
func secureErase(ctx context.Context, d disk.Disk, before security) error {
	if _, err := hdparm(ctx, d, "--security-set-pass"); err != nil {
		return err
	}
	state, err := readSecurity(ctx, d)
	if err != nil {
		return err
	}
	if state == nil || !state.enabled {
		return fmt.Errorf("the drive did not take the password that a secure erase needs")
	}
	option := "--security-erase"
	if before.enhanced {
		option = "--security-erase-enhanced"
	}
	printed, err := hdparm(ctx, d, option)
	if err != nil {
		return err
	}
	if state, err = readSecurity(ctx, d); err != nil {
		return err
	}
	if state != nil && state.enabled {
		_, _ = hdparm(ctx, d, "--security-disable")
		return fmt.Errorf("the drive refused: %s", printed)
	}
	return nil
}

func hdparm(ctx context.Context, d disk.Disk, option string) (string, error) {
	result, err := command.Output(ctx, "hdparm", "--user-master", "u", option, password, d.Path)
	if err != nil {
		return "", err
	}
	if result.Status != 0 {
		return "", fmt.Errorf("hdparm %s ended with status %d: %s", option, result.Status, result.Message())
	}
	return result.Message(), nil
}
