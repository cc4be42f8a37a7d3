package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

const (
	dialTimeout = 10 * time.Second
	// dialTimeoutOfMany is for each of several addresses: the next one may answer.
	dialTimeoutOfMany = 4 * time.Second
	// idleTimeout is below the 5 s after which RabbitMQ closes a connection
	// without requests (seen on 4.0 and 4.3; 60 s on 3.10), so that a request
	// seldom meets a connection that is closing.
	idleTimeout = 4 * time.Second
)

// operation says what a call is for, in errors and when they are explained.
type operation struct {
	// text continues "could not …".
	text string
	// vhost is empty for calls outside a virtual host.
	vhost string
	// object is the queue, exchange or policy that is read or written, such as
	// `queue "orders"`.
	object string
	// needs are the permissions that RabbitMQ checks.
	needs string
	// tag is the one that RabbitMQ asks for instead of permissions.
	tag string
}

// call is one of rabbit-hole's calls and the transport below it: it sends the
// request until there is an answer or no hope, and keeps the answer.
type call struct {
	client *Client
	ctx    context.Context
	op     operation
	// query replaces the request's, for parameters rabbit-hole does not offer.
	query url.Values
	// body replaces the request's, for fields rabbit-hole does not know.
	body []byte
	// path replaces the request's, for resources rabbit-hole does not know. It follows
	// "/api/" and is escaped.
	path string
	// once leaves out retries.
	once bool
	// at is the index of the address to try, and pinned keeps the call there.
	at     int
	pinned bool
	// missed are the addresses that did not take the request in the last round.
	missed []missed

	// status and answer are what the broker said.
	status int
	answer []byte
	// uncertain says that a try may have had its effect without our learning
	// of it, whatever became of later tries.
	uncertain bool
	err       error
	// last is why the latest try that was followed by another failed.
	last  error
	tries int
	began time.Time
	// reached says that some try got through to a server.
	reached bool
}

func (c *Client) newCall(ctx context.Context, op operation) *call {
	return &call{client: c, ctx: ctx, op: op, at: c.addresses.current()}
}

// run makes the call. Its errors are those of this package, but not yet
// explained, see [Client.explain].
func (k *call) run(send func(*rabbithole.Client) error) error {
	c := k.client
	rh, err := rabbithole.NewTLSClient(base, c.username, c.password, k)
	if err != nil {
		return err
	}
	err = send(rh)
	switch {
	case k.err != nil:
		return k.err
	case err != nil:
		// The request was never sent: an argument that JSON cannot express.
		return &APIError{Operation: k.op.text, Endpoint: c.Endpoint(), Reason: err.Error()}
	}
	if k.op.vhost != "" && k.status < http.StatusMultipleChoices {
		c.access.note(k.op.vhost)
	}
	return nil
}

// RoundTrip implements http.RoundTripper for rabbit-hole.
func (k *call) RoundTrip(request *http.Request) (*http.Response, error) {
	k.began = time.Now()
	if err := k.client.outage.current(); err != nil {
		k.err = err
		return nil, err
	}
	changes := request.Method != http.MethodGet
	if err := k.client.minority.current(); err != nil && changes {
		k.err = err
		return nil, err
	}
	for {
		k.tries++
		response, err := k.tryEach(request)
		wait, again := k.judge(request, response, err)
		if !again {
			break
		}
		if err := k.client.sleep(k.ctx, wait); err != nil {
			k.err = k.interrupted(err)
			break
		}
	}
	var down *NodesDownError
	switch {
	case errors.As(k.err, &down) && down.minority():
		k.client.minority.begin(k.err)
	case changes && k.err == nil:
		k.client.minority.clear()
	}
	if k.err != nil {
		return nil, k.err
	}
	// rabbit-hole's own decoding would fail on arguments that are lists, so it
	// gets a null to decode, and a DELETE's 404 is not its concern.
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{},
		Body:       io.NopCloser(strings.NewReader("null")),
		Request:    request,
	}, nil
}

// try sends the request once and reads the whole answer.
func (k *call) try(request *http.Request) (*http.Response, error) {
	c := k.client
	if err := k.belongs(); err != nil {
		return nil, &tryError{err: err}
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-k.ctx.Done():
		return nil, &tryError{err: context.Cause(k.ctx)}
	}
	ctx, cancel := context.WithTimeoutCause(k.ctx, c.retry.tryTimeout, errTryTimeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if !k.once {
		go k.watchNodes(ctx, end)
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	outgoing, err := k.outgoing(ctx, request)
	if err != nil {
		return nil, &tryError{err: err}
	}
	response, err := c.transport.RoundTrip(outgoing)
	if err != nil {
		return nil, &tryError{err: cause(ctx, err), sent: sent.Load()}
	}
	defer response.Body.Close()
	k.answer, err = io.ReadAll(response.Body)
	if err != nil {
		return nil, &tryError{err: cause(ctx, err), sent: true}
	}
	return response, nil
}

// outgoing is the request as it goes out for one try.
func (k *call) outgoing(ctx context.Context, request *http.Request) (*http.Request, error) {
	r := request.Clone(ctx)
	r.Close = false
	if k.path != "" {
		var err error
		if r.URL, err = url.Parse(base + "/api/" + k.path); err != nil {
			return nil, err
		}
	}
	k.address(r)
	if k.query != nil {
		r.URL.RawQuery = k.query.Encode()
	}
	for name, values := range k.client.headers {
		if name == "Host" {
			r.Host = values[0]
			continue
		}
		r.Header[name] = values
	}
	switch {
	case k.body != nil:
		r.Body = io.NopCloser(bytes.NewReader(k.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(k.body)), nil }
		r.ContentLength = int64(len(k.body))
	case request.GetBody != nil:
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	return r, nil
}

// closed ends what rabbit-hole returns of a write; the answer is the call's.
func closed(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	return response.Body.Close()
}

var errTryTimeout = errors.New("no answer in time")

// tryError is a try without an answer.
type tryError struct {
	err error
	// sent says that the broker may have got the request.
	sent bool
}

func (e *tryError) Error() string { return e.err.Error() }
func (e *tryError) Unwrap() error { return e.err }

// cause prefers the reason why ctx ended to what net/http makes of it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
