package service

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ostler-agent/internal/session"
)

func TestOnlyTheCertificateOfTheFingerprintIsAccepted(t *testing.T) {
	requests := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		_, _ = w.Write([]byte(`{"do":"wait","seconds":1}`))
	}))
	defer server.Close()
	sum := sha256.Sum256(server.Certificate().Raw)
	other := sha256.Sum256([]byte("another certificate"))
	for fingerprint, accepted := range map[string]bool{hex.EncodeToString(sum[:]): true, hex.EncodeToString(other[:]): false} {
		requests = 0
		document := session.Document{URL: server.URL, Session: "s1", Secret: "geheim", Fingerprint: fingerprint}
		client, err := New(document, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Poll(context.Background(), Report{})
		if accepted != (err == nil) || accepted != (requests == 1) {
			t.Errorf("accepted %v: got %v after %d requests", accepted, err, requests)
		}
		if err != nil && !strings.Contains(err.Error(), "is not the one of the service") {
			t.Errorf("got %v", err)
		}
	}
}

func TestOnlyImagesOfTheServiceHaveItsTrust(t *testing.T) {
	client, err := New(session.Document{URL: "https://h:1", Session: "s1", Secret: "geheim"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	isOwn := func(full, bearer string, trust *tls.Config) bool {
		return full == "https://h:1/images/i" && bearer == "s1.geheim" && trust != nil
	}
	if !isOwn(client.Resolve("/images/i")) {
		t.Error("an image of the service is asked for without its trust")
	}
	if full, bearer, trust := client.Resolve("https://images.example/i"); full != "https://images.example/i" || bearer != "" || trust != nil {
		t.Errorf("got %q, %q, %v", full, bearer, trust)
	}
}
