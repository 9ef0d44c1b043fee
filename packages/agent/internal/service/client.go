// Package service speaks with Ostler: it asks what to do, and reports results.
package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"ostler-agent/internal/session"
	"ostler-agent/internal/task"
)

const (
	requestTimeout = 15 * time.Second
	answerBytes    = 8 << 20
)

// Report is what the agent says with each question.
type Report struct {
	Instance     string    `json:"instance"`
	Version      string    `json:"version"`
	Protocol     int       `json:"protocol"`
	Architecture string    `json:"architecture"`
	BootMode     string    `json:"bootMode"`
	Address      string    `json:"address,omitempty"`
	MACs         []string  `json:"macs"`
	Disks        int       `json:"disks"`
	Task         *Activity `json:"task,omitempty"`
}

// Activity is how far the running task is.
type Activity struct {
	ID      string `json:"id"`
	Percent int    `json:"percent"`
	Message string `json:"message"`
}

// Order is the answer.
type Order struct {
	Do      string     `json:"do"`
	Seconds float64    `json:"seconds"`
	Task    *task.Task `json:"task"`
}

// Result is the end of a task.
type Result struct {
	Instance string          `json:"instance"`
	Task     string          `json:"task"`
	OK       bool            `json:"ok"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    *task.Error     `json:"error,omitempty"`
}

// StatusError is an answer that is not a success.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the service answered with status %d", e.Status)
}

// Client keeps one connection to the service.
type Client struct {
	document session.Document
	base     *url.URL
	http     *http.Client
	// The clock is compared once.
	onDate   sync.Once
	setClock func(time.Time)

	mutex   sync.Mutex
	address string
}

// New fails if the address of the service is none.
func New(document session.Document, setClock func(time.Time)) (*Client, error) {
	base, err := url.Parse(document.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("the address of the service must begin with http:// or https://: %q", document.URL)
	}
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:       document.TLS(),
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: requestTimeout,
		IdleConnTimeout:       30 * time.Second,
	}
	// The service has no reason to redirect, and a redirected request would carry the secret elsewhere.
	client := &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &Client{document: document, base: base, http: client, setClock: setClock}, nil
}

// Address is the machine's own address in the connection to the service, or empty.
func (c *Client) Address() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.address
}

// Poll asks what to do.
func (c *Client) Poll(ctx context.Context, report Report) (Order, error) {
	report.Address = c.Address()
	var order Order
	answer, err := c.post(ctx, "/agent/v1/poll", report)
	if err != nil {
		return order, err
	}
	if err := json.Unmarshal(answer, &order); err != nil || order.Do == "" {
		return order, fmt.Errorf("the answer of the service is not an order")
	}
	return order, nil
}

// Deliver reports a result once.
func (c *Client) Deliver(ctx context.Context, result Result) error {
	_, err := c.post(ctx, "/agent/v1/result", result)
	return err
}

func (c *Client) post(ctx context.Context, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { c.noteAddress(info.Conn.LocalAddr()) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, c.document.URL+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+c.document.Bearer())
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerBytes))
	if response.StatusCode/100 != 2 {
		return nil, &StatusError{response.StatusCode}
	}
	if date, dateErr := http.ParseTime(response.Header.Get("Date")); dateErr == nil && c.setClock != nil {
		c.onDate.Do(func() { c.setClock(date) })
	}
	return answer, err
}

func (c *Client) noteAddress(address net.Addr) {
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		c.mutex.Lock()
		c.address = host
		c.mutex.Unlock()
	}
}

// Resolve makes an image's address complete. A relative one belongs to the service: it is asked for with the bearer, and
// only the service's certificate is accepted.
func (c *Client) Resolve(address string) (full string, bearer string, trust *tls.Config) {
	if strings.HasPrefix(address, "/") {
		return c.document.URL + address, c.document.Bearer(), c.document.TLS()
	}
	return address, "", nil
}
