package rabbit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// API returns a client of the management API for tests, which are about the
// provider: what a busy node refuses for the moment is asked again, for about
// ten seconds.
func (b *Broker) API() (*rabbithole.Client, error) {
	patient := retryablehttp.NewClient()
	patient.Logger = nil
	patient.RetryMax = 6
	patient.RetryWaitMin, patient.RetryWaitMax = 200*time.Millisecond, 4*time.Second
	patient.CheckRetry = busy
	patient.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return rabbithole.NewTLSClient(b.Endpoint, b.Username, b.Password, &retryablehttp.RoundTripper{Client: patient})
}

// busy says whether the node may answer better later: 3.10.8 has been seen to
// answer 500 without a reason, and 4.0.5 not to start the Raft server of a quorum
// queue in time. A node that does not answer at all is for the caller.
func busy(_ context.Context, resp *http.Response, err error) (bool, error) {
	switch {
	case err != nil:
		return false, err
	case resp.StatusCode >= http.StatusInternalServerError:
		return true, nil
	case resp.StatusCode != http.StatusBadRequest:
		return false, nil
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return bytes.Contains(answer, []byte("cluster_not_formed")), err
}
