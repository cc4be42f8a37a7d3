package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Between tries lie 250 ms, 500 ms, 1 s, 2 s, 4 s and then always 8 s, each
// shortened at random by up to half. With the default of five retries a broker
// that refuses connections is given up after 4 to 8 seconds.
const (
	firstWait = 250 * time.Millisecond
	maxWait   = 8 * time.Second
	// maxRetryAfter limits what a Retry-After header can ask for.
	maxRetryAfter = time.Minute
	// unreachableLimit ends a call that has not got through to a server once,
	// however many retries are left: a host that does not answer at all costs
	// 10 s a try.
	unreachableLimit = 30 * time.Second
	// outageMemory is how long after such an end further calls fail at once.
	// Without it a thousand resources would wait one after the other.
	outageMemory = 5 * time.Second
)

type retryPolicy struct {
	tryTimeout time.Duration
	max        int
}

func newRetryPolicy(cfg Config) retryPolicy {
	p := retryPolicy{tryTimeout: cfg.RequestTimeout, max: cfg.MaxRetries}
	if p.tryTimeout <= 0 {
		p.tryTimeout = DefaultRequestTimeout
	}
	switch {
	case p.max == 0:
		p.max = DefaultMaxRetries
	case p.max < 0:
		p.max = 0
	}
	return p
}

// judge looks at one try: it sets the call's result when the call is over, and
// otherwise says how long to wait before the next try.
func (k *call) judge(request *http.Request, response *http.Response, err error) (wait time.Duration, again bool) {
	if err != nil {
		return k.judgeFailure(err)
	}
	k.reached = true
	k.client.outage.clear()
	k.status = response.StatusCode
	switch {
	case k.status < http.StatusMultipleChoices:
		return k.judgeAnswer(request, response)
	case k.status == http.StatusNotFound && request.Method == http.MethodDelete && isJSON(response):
		return 0, false
	case k.status < http.StatusBadRequest:
		k.err = redirected(k.url(), response)
		return 0, false
	}
	answer := newAPIError(k, response)
	retry, uncertain := temporary(answer)
	k.uncertain = k.uncertain || uncertain
	if !retry || k.exhausted() {
		k.err = k.foreign(request, response, answer)
		return 0, false
	}
	if k.err = k.stalled(k.ctx, answered(answer)); k.err != nil {
		return 0, false
	}
	k.last = answer
	if k.status >= http.StatusInternalServerError {
		k.next()
	}
	return max(backoff(k.tries), retryAfter(response.Header)), true
}

// judgeAnswer asks again when the answer of a read is not JSON: a busy 3.10.8 has
// been seen to send such answers for a moment.
func (k *call) judgeAnswer(request *http.Request, response *http.Response) (wait time.Duration, again bool) {
	if request.Method != http.MethodGet || json.Valid(k.answer) {
		return 0, false
	}
	failure := k.notJSON(nil)
	if isHTML(response) || k.exhausted() {
		k.err = failure
		return 0, false
	}
	k.last = failure
	return backoff(k.tries), true
}

func (k *call) judgeFailure(err error) (wait time.Duration, again bool) {
	var try *tryError
	if errors.As(err, &try) && try.sent {
		k.uncertain, k.reached = true, true
		defer k.next() // what has just failed may be about to end
	}
	if k.ctx.Err() != nil {
		k.err = k.interrupted(err)
		return 0, false
	}
	var down *NodesDownError
	if errors.As(err, &down) {
		k.err = down
		return 0, false
	}
	if k.uncertain {
		if k.err = k.stalled(k.ctx, k.ended(err)); k.err != nil {
			return 0, false
		}
	}
	permanent, failure := k.connectionFailure(err)
	wait = backoff(k.tries)
	lost := !k.reached && time.Since(k.began)+wait > unreachableLimit
	if permanent || lost || k.exhausted() {
		k.err = failure
		if !permanent && !k.reached && !k.once {
			k.client.outage.begin(failure)
		}
		return 0, false
	}
	k.last = failure
	return wait, true
}

// exhausted says whether no retry is left.
func (k *call) exhausted() bool { return k.once || k.tries > k.client.retry.max }

// backoff is the wait after so many tries.
func backoff(tries int) time.Duration {
	wait := min(firstWait<<min(tries-1, 10), maxWait)
	return wait - rand.N(wait/2+1) //nolint:gosec // what spreads tries need not be secret
}

// temporary says whether a later try of the same request may succeed, and
// whether this one may have had its effect all the same.
func temporary(answer *APIError) (retry, uncertain bool) {
	switch status := answer.Status; {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return true, false
	case status >= http.StatusInternalServerError:
		return true, true
	case status == http.StatusBadRequest:
		passing := passingReason(answer.Reason)
		return passing, passing
	default:
		return false, false
	}
}

// RabbitMQ answers 400 to every AMQP error that is neither not_found nor
// access_refused, time-outs of the metadata store and nodes that are away
// included (rabbit_mgmt_util:direct_request/6, 3.10 to 4.3): "Could not declare
// queue 'q' in vhost '/' on node 'n' because the metadata store operation timed
// out", "Node n could not be contacted", "Request to node n failed with …".
var passing = regexp.MustCompile(`(?i)timed out|timeout|metadata store|could not be contacted|^request to node |` +
	notFormed + `$|` + vhostStarting)

// notFormed ends the reason of a node that did not start a quorum queue's Raft
// server in time and has taken the queue back
// (rabbit_quorum_queue:declare_queue_error/4; seen on 4.0.5 and 4.3.6). A node
// starts none while it empties its full write-ahead log into the files of all
// quorum queues (ra_log_segment_writer:my_segments/2), which took it 32 s with
// 400 queues on a slow disk.
const notFormed = ": cluster_not_formed"

// vhostStarting is in the reason of a node of a cluster that has not yet started a virtual
// host which was just made through another one (rabbit_vhost_sup_sup; seen on 3.10.8).
const vhostStarting = `: \{vhost_supervisor_not_running,`

func passingReason(reason string) bool {
	// A refused policy names the key, such as consumer-timeout.
	for _, final := range []string{"inequivalent arg", "invalid arg", "Validation failed"} {
		if strings.HasPrefix(reason, final) {
			return false
		}
	}
	// Names stand between quotes and may hold any word.
	first, last := strings.Index(reason, "'"), strings.LastIndex(reason, "'")
	if first < last && !strings.HasPrefix(reason, "Request to node ") {
		reason = reason[:first] + reason[last+1:]
	}
	return passing.MatchString(reason)
}

// ended words a try without an answer.
func (k *call) ended(err error) string {
	if errors.Is(err, errTryTimeout) {
		return fmt.Sprintf("no answer within %s", k.client.retry.tryTimeout)
	}
	return err.Error()
}

// answered words a refusal.
func answered(answer *APIError) string {
	return fmt.Sprintf("the answer is %d %s: %s", answer.Status, http.StatusText(answer.Status), answer.Reason)
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(seconds, 3600)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// outage remembers that the broker could not be reached.
type outage struct {
	mu    sync.Mutex
	err   error
	until time.Time
}

func (o *outage) begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.until = err, time.Now().Add(outageMemory)
}

func (o *outage) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = nil
}

func (o *outage) current() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && time.Now().Before(o.until) {
		return o.err
	}
	return nil
}

// interrupted is the error of a call whose context has ended.
func (k *call) interrupted(err error) error {
	text := fmt.Sprintf("stopped after %s while trying to %s at %s", time.Since(k.began).Round(time.Millisecond), k.op.text, k.url())
	var also string
	if errors.Is(err, context.DeadlineExceeded) {
		if down := k.client.DownText(k.ctx); down != "" {
			also = "; " + down
		}
	}
	if k.last != nil {
		return fmt.Errorf("%s: %w (the last try failed: %w)%s", text, err, k.last, also)
	}
	return fmt.Errorf("%s: %w%s", text, err, also)
}
