package broker

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	portAdvice = "check host and port, that RabbitMQ runs there and that its management plugin is enabled (it listens on port 15672, or " +
		"on 15671 with TLS, unless it is configured otherwise)"
	urlAdvice = "set the endpoint to the URL of the management API, such as http://host:15672, with the path prefix if the broker has one"
)

// connectionFailure turns a try without an answer into an error, and says
// whether further tries are pointless. Of several addresses that did not take the
// request it tells all.
func (k *call) connectionFailure(err error) (permanent bool, failure error) {
	var other *ClusterError
	if errors.As(err, &other) {
		return true, other
	}
	if len(k.missed) < 2 {
		return k.connectionFailureAt(k.url().String(), err)
	}
	permanent = true
	var failures []error
	var endpoints []string
	for _, m := range k.missed {
		final, failure := k.connectionFailureAt(m.endpoint, m.err)
		permanent = permanent && final
		failures, endpoints = append(failures, failure), append(endpoints, m.endpoint)
	}
	f := &ConnectionError{Tries: k.tries, Elapsed: time.Since(k.began), Advice: portAdvice, Sent: k.reached, Err: errors.Join(failures...)}
	f.Endpoint, f.Problem = eachProblem(failures, endpoints, shortProblem)
	return permanent, f
}

func (k *call) connectionFailureAt(endpoint string, err error) (permanent bool, failure error) {
	if typed(err) { // of the look at an address, see belongs
		return is[*TLSError](err) || is[*EndpointError](err), err
	}
	if f := protocolFailure(endpoint, err); f != nil {
		return true, f
	}
	if f := tlsFailure(endpoint, err); f != nil {
		return true, f
	}
	if strings.Contains(err.Error(), http.StatusText(http.StatusProxyAuthRequired)) {
		return true, k.proxyLogin()
	}
	f := &ConnectionError{
		Endpoint: endpoint,
		Sent:     k.reached,
		Tries:    k.tries,
		Elapsed:  time.Since(k.began),
		Problem:  err.Error(),
		Advice:   portAdvice,
		Err:      err,
	}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect", strings.Contains(err.Error(), "socks connect"):
		f.Problem, f.Advice = "the proxy does not connect",
			"check the proxy setting, or HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the environment"
	case errors.As(err, &dns) && dns.IsNotFound:
		f.Problem, f.Advice = fmt.Sprintf("the host name %q is not known", dns.Name), "check the endpoint and the name server"
		return true, f
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Problem = "connection refused"
	case errors.Is(err, errTryTimeout):
		f.Problem = fmt.Sprintf("no answer within %s", k.client.retry.tryTimeout)
		f.Advice = "look whether the broker is overloaded, or raise the request timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.Problem = "the connection was cut before the answer was complete"
		f.Advice = "look into the log of the broker, and of a proxy or load balancer in front of it"
	}
	return false, f
}

func tlsFailure(endpoint string, err error) error {
	f := &TLSError{Endpoint: endpoint, Problem: err.Error(), Err: err}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &authority):
		f.Problem = "the broker's certificate is signed by an authority that this machine does not trust"
		f.Advice = "set cacert_file to the certificate of that authority"
	case errors.As(err, &host):
		f.Problem = "the broker's certificate is for another host name: " + host.Error()
		f.Advice = "use a host name that the certificate names, or have a certificate made for this one"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		f.Problem = "the broker's certificate, or one of its authorities', has expired or is not valid yet: " + invalid.Error()
		f.Advice = "renew the certificate, and check this machine's clock"
	case errors.As(err, &verification):
		f.Advice = "check the broker's certificate"
	case strings.Contains(err.Error(), "remote error: tls: "):
		return remoteTLSFailure(f, err)
	case strings.Contains(err.Error(), "tls: ") && !isTimeout(err):
		f.Advice = "check the TLS settings of the broker and of the provider"
	default:
		return nil
	}
	return f
}

// remoteTLSFailure explains an alert that the broker sent. With TLS 1.3 it
// comes with the first answer, after the handshake.
func remoteTLSFailure(f *TLSError, err error) error {
	_, alert, _ := strings.Cut(err.Error(), "remote error: tls: ")
	f.Problem = fmt.Sprintf("the broker refuses the connection (TLS alert %q)", alert)
	switch alert {
	case "certificate required", "bad certificate", "handshake failure":
		f.Problem += ", as it does when it asks for a client certificate and gets none, or none from an authority it trusts"
		f.Advice = "set clientcert_file and clientkey_file"
	case "unknown certificate authority", "unknown certificate", "expired certificate", "revoked certificate", "unsupported certificate":
		f.Problem += ", as it does when it does not accept the client certificate"
		f.Advice = "use a client certificate that is valid and signed by an authority the broker trusts"
	default:
		f.Advice = "check which TLS versions and cipher suites the broker allows"
	}
	return f
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// protocolFailure recognizes servers that do not speak HTTP, or not the kind
// that the endpoint says.
func protocolFailure(endpoint string, err error) error {
	f := &EndpointError{Endpoint: endpoint, Err: err}
	var record tls.RecordHeaderError
	text := err.Error()
	malformed := strings.Contains(text, "malformed HTTP")
	switch {
	case malformed && strings.Contains(text, `"AMQP`), errors.As(err, &record) && bytes.HasPrefix(record.RecordHeader[:], []byte("AMQP")):
		f.Found = "an AMQP port answers there"
		f.Advice = "use the port of the management API (15672, or 15671 with TLS, unless it is configured otherwise)"
	case malformed && strings.Contains(text, `"\x15\x03`):
		f.Found = "a TLS server answers there"
		f.Advice = "begin the endpoint with https://"
	case errors.As(err, &record):
		f.Found = "a server without TLS answers there"
		f.Advice = "begin the endpoint with http://, or use the TLS port"
	case malformed:
		f.Found = "a server answers there that does not speak HTTP"
		f.Advice = urlAdvice
	default:
		return nil
	}
	return f
}

// redirected is the error for an answer that sends us elsewhere. Following it
// would turn a PUT into a GET and could carry the password to another host.
func redirected(endpoint *url.URL, response *http.Response) error {
	f := &EndpointError{
		Endpoint: endpoint.String(),
		Found:    fmt.Sprintf("the server there redirects (%d)", response.StatusCode),
		Advice:   "set the endpoint to the URL of the management API itself",
	}
	if to, err := response.Location(); err == nil {
		f.Found += fmt.Sprintf(" to %s://%s%s", to.Scheme, to.Host, to.EscapedPath())
	}
	return f
}

// newAPIError reads the broker's reason from an answer of status 400 or above.
func newAPIError(k *call, response *http.Response) *APIError {
	e := &APIError{Operation: k.op.text, Endpoint: k.url().String(), Status: response.StatusCode}
	var body struct {
		Error  json.RawMessage `json:"error"`
		Reason json.RawMessage `json:"reason"`
	}
	if isJSON(response) && json.Unmarshal(k.answer, &body) == nil {
		// 3.10 and 4.0 write reasons for HTML: "&lt;&lt;\"x\"&gt;&gt; is not a valid
		// message TTL".
		e.Reason = html.UnescapeString(cmp.Or(plain(body.Reason), plain(body.Error)))
	}
	switch {
	case e.Reason != "":
	case isHTML(response):
		e.Reason = "a web page instead of a reason"
	default:
		e.Reason = "no reason given"
	}
	return e
}

// plain makes text of a reason: RabbitMQ sends a string, or in some places of
// 4.3 a list of strings, and other JSON where an Erlang term slipped through.
func plain(reason json.RawMessage) string {
	var text string
	if json.Unmarshal(reason, &text) == nil {
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(reason, &list) == nil {
		texts := make([]string, 0, len(list))
		for _, element := range list {
			texts = append(texts, plain(element))
		}
		return strings.Join(texts, "; ")
	}
	return string(reason)
}

// foreign returns an EndpointError when the refusal does not look like
// RabbitMQ's, and otherwise the answer.
func (k *call) foreign(request *http.Request, response *http.Response, answer *APIError) error {
	switch {
	case response.StatusCode == http.StatusProxyAuthRequired:
		return k.proxyLogin()
	case isHTML(response) && response.StatusCode < http.StatusInternalServerError:
		return k.webPage(response)
	case response.StatusCode == http.StatusNotFound && !isJSON(response):
		return k.nothingThere()
	}
	if response.StatusCode == http.StatusNotFound && k.op.vhost == "" && strings.HasSuffix(request.URL.Path, "/overview") {
		return k.nothingThere()
	}
	return answer
}

func (k *call) proxyLogin() error {
	return &ConnectionError{
		Endpoint: k.url().String(),
		Tries:    k.tries,
		Elapsed:  time.Since(k.began),
		Problem:  "the proxy asks for a user name and a password",
		Advice:   "put them into the URL of the proxy",
	}
}

func (k *call) nothingThere() error {
	f := &EndpointError{
		Endpoint: k.url().String(),
		Found:    "a web server answers there, but has no management API under that path (404)",
		Advice:   urlAdvice,
	}
	if strings.HasSuffix(k.url().Path, "/api") {
		f.Advice = `leave out "/api" at the end of the endpoint`
	}
	return f
}

func (k *call) webPage(response *http.Response) error {
	return &EndpointError{
		Endpoint: k.url().String(),
		Found:    fmt.Sprintf("a web page comes back (%d)", response.StatusCode),
		Advice:   urlAdvice,
	}
}

// decode reads the answer of a call that succeeded.
func (k *call) decode(into any) error {
	if err := json.Unmarshal(k.answer, into); err != nil {
		return k.notJSON(err)
	}
	return nil
}

// notJSON is the error for an answer that cannot be read.
func (k *call) notJSON(err error) error {
	found := fmt.Sprintf("the answer to a request to %s is not the JSON that RabbitMQ sends", k.op.text)
	if bytes.HasPrefix(bytes.TrimSpace(k.answer), []byte("<")) {
		found = "a web page comes back"
	}
	return &EndpointError{Endpoint: k.url().String(), Found: found, Advice: urlAdvice, Err: err}
}

func isJSON(response *http.Response) bool { return mediaType(response) == "application/json" }
func isHTML(response *http.Response) bool { return mediaType(response) == "text/html" }

func mediaType(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind
}
