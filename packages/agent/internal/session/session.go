// Package session reads the address and the secret of the agent: from a file on the ISO, or from the kernel's arguments
// after a boot from the network.
package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	documentPath = "/etc/ostler/session.json"
	cmdlinePath  = "/proc/cmdline"
)

// StatePath is in memory: what is kept there ends with this boot. Tests have another.
var StatePath = "/run/ostler"

// Document is one boot of the agent, as the service prepared it.
type Document struct {
	URL     string `json:"url"`
	Session string `json:"session"`
	Secret  string `json:"secret"`
	// Fingerprint is the SHA-256 of the service's certificate, in hexadecimal. An address of https has one.
	Fingerprint string   `json:"fingerprint"`
	Network     *Network `json:"network"`
}

// Network is a static configuration of one port.
type Network struct {
	MAC     string   `json:"mac"`
	Address string   `json:"address"`
	Gateway string   `json:"gateway"`
	DNS     []string `json:"dns"`
}

// Bearer is what the agent proves itself with.
func (d Document) Bearer() string { return d.Session + "." + d.Secret }

// TLS accepts the certificate of the fingerprint only, whatever its name, issuer and dates: the clock may be wrong.
func (d Document) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			sum := sha256.Sum256(state.PeerCertificates[0].Raw)
			if hex.EncodeToString(sum[:]) != d.Fingerprint {
				return errors.New("the certificate is not the one of the service that started this boot")
			}
			return nil
		},
	}
}

// Read returns nil if the machine was started without a session.
func Read() (*Document, error) {
	file, _ := os.ReadFile(documentPath)
	cmdline, _ := os.ReadFile(cmdlinePath)
	return Parse(file, string(cmdline))
}

// Parse takes the kernel's arguments first: they are of this boot, and the file may be an empty slot.
func Parse(file []byte, cmdline string) (*Document, error) {
	if document, err := fromArguments(cmdline); document != nil || err != nil {
		return document, err
	}
	text := strings.TrimSpace(string(file))
	if !strings.HasPrefix(text, "{") {
		return nil, nil
	}
	var document Document
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("the session document on the medium is not JSON")
	}
	return checked(&document)
}

func fromArguments(cmdline string) (*Document, error) {
	values := map[string]string{}
	for _, argument := range strings.Fields(cmdline) {
		if name, value, ok := strings.Cut(argument, "="); ok && strings.HasPrefix(name, "ostler.") {
			values[strings.TrimPrefix(name, "ostler.")] = value
		}
	}
	if values["session"] == "" {
		return nil, nil
	}
	document := &Document{URL: values["url"], Session: values["session"], Secret: values["secret"], Fingerprint: values["fingerprint"]}
	if encoded := strings.TrimRight(values["network"], "="); encoded != "" {
		text, err := base64.RawURLEncoding.DecodeString(encoded)
		if err == nil {
			err = json.Unmarshal(text, &document.Network)
		}
		if err != nil {
			return nil, fmt.Errorf("the kernel argument ostler.network cannot be read: %v", err)
		}
	}
	return checked(document)
}

func checked(document *Document) (*Document, error) {
	document.URL = strings.TrimRight(document.URL, "/")
	if document.URL == "" || document.Session == "" || document.Secret == "" {
		return nil, fmt.Errorf("the session has no address, no ID or no secret")
	}
	document.Fingerprint = strings.ToLower(document.Fingerprint)
	if sum, err := hex.DecodeString(document.Fingerprint); strings.HasPrefix(document.URL, "https:") && (err != nil || len(sum) != sha256.Size) {
		return nil, fmt.Errorf("the session has no fingerprint of the service's certificate")
	}
	return document, nil
}

// Instance identifies this boot. It is random, and kept in memory, so that an agent that was started again is the same.
func Instance() string {
	path := filepath.Join(StatePath, "instance")
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
		return string(text)
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
	instance := hex.EncodeToString(random)
	_ = Keep("instance", []byte(instance))
	return instance
}

// Keep stores a value until the machine is switched off.
func Keep(name string, value []byte) error {
	if err := os.MkdirAll(StatePath, 0o700); err != nil {
		return err
	}
	path := filepath.Join(StatePath, name)
	if err := os.WriteFile(path+".new", value, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Kept returns what Keep stored, or nil.
func Kept(name string) []byte {
	value, err := os.ReadFile(filepath.Join(StatePath, name))
	if err != nil {
		return nil
	}
	return value
}

// Forget removes what Keep stored.
func Forget(name string) { _ = os.Remove(filepath.Join(StatePath, name)) }
