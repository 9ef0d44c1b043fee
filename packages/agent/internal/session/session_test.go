package session

import (
	"encoding/base64"
	"strings"
	"testing"
)

const document = `{"url":"http://10.0.0.1:4010/","session":"s1","secret":"abc","network":{"mac":"52:54:00:00:00:01","address":"10.0.0.9/24"}}`

func TestDocumentOfTheMediumIsPaddedWithSpaces(t *testing.T) {
	got, err := Parse([]byte(document+strings.Repeat(" ", 3000)), "quiet panic=30")
	if err != nil || got == nil {
		t.Fatalf("got %v, %v", got, err)
	}
	if got.URL != "http://10.0.0.1:4010" || got.Bearer() != "s1.abc" || got.Network.Address != "10.0.0.9/24" {
		t.Errorf("got %+v", got)
	}
}

func TestKernelArgumentsComeBeforeTheMedium(t *testing.T) {
	network := base64.RawURLEncoding.EncodeToString([]byte(`{"mac":"aa","address":"10.1.0.2/16","dns":["10.1.0.1"]}`))
	got, err := Parse([]byte(document), "quiet ostler.url=http://h:1 ostler.session=s2 ostler.secret=def ostler.network="+network)
	if err != nil || got.Bearer() != "s2.def" || got.URL != "http://h:1" || got.Network.DNS[0] != "10.1.0.1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNoSession(t *testing.T) {
	for _, file := range []string{"", "ostler.slot=session      ", "   "} {
		if got, err := Parse([]byte(file), "quiet"); got != nil || err != nil {
			t.Errorf("%q: got %v, %v", file, got, err)
		}
	}
}

func TestTheFingerprintIsReadAndNeededForHttps(t *testing.T) {
	sum := strings.Repeat("Ab", 32)
	arguments := "ostler.url=https://h:1 ostler.session=s2 ostler.secret=def"
	got, err := Parse(nil, arguments+" ostler.fingerprint="+sum)
	if err != nil || got.Fingerprint != strings.ToLower(sum) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, wrong := range []string{"", " ostler.fingerprint=", " ostler.fingerprint=abcd", " ostler.fingerprint=" + strings.Repeat("x", 64)} {
		if got, err := Parse(nil, arguments+wrong); got != nil || err == nil {
			t.Errorf("%q: got %v, %v", wrong, got, err)
		}
	}
}

func TestErrorsDoNotRepeatTheSecret(t *testing.T) {
	for _, text := range []string{`{"url":"","session":"s","secret":"geheim"}`, `{"secret":"geheim"`} {
		if _, err := Parse([]byte(text), ""); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
