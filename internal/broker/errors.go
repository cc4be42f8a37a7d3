package broker

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// ConnectionError says that the broker could not be reached, or that the
// connection broke before an answer had come.
type ConnectionError struct {
	Endpoint string
	// Problem is what went wrong, such as "connection refused".
	Problem string
	// Advice is what to do next.
	Advice string
	// Sent says that the request may have reached the broker.
	Sent    bool
	Tries   int
	Elapsed time.Duration
	Err     error
}

func (e *ConnectionError) Error() string {
	tries := "1 try"
	if e.Tries != 1 {
		tries = fmt.Sprintf("%d tries", e.Tries)
	}
	what := "cannot connect to"
	if e.Sent {
		what = "lost the connection to"
	}
	return fmt.Sprintf("%s %s: %s (%s in %s); %s", what, e.Endpoint, e.Problem, tries, e.Elapsed.Round(100*time.Millisecond), e.Advice)
}

func (e *ConnectionError) Unwrap() error { return e.Err }

// TLSError says that no TLS connection came about.
type TLSError struct {
	Endpoint string
	Problem  string
	Advice   string
	Err      error
}

func (e *TLSError) Error() string {
	return fmt.Sprintf("no TLS connection to %s: %s; %s", e.Endpoint, e.Problem, e.Advice)
}

func (e *TLSError) Unwrap() error { return e.Err }

// EndpointError says that something else than RabbitMQ's management API
// answers at the endpoint.
type EndpointError struct {
	Endpoint string
	// Found is what answers there.
	Found  string
	Advice string
	Err    error
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("%s is not the URL of RabbitMQ's management API: %s; %s", e.Endpoint, e.Found, e.Advice)
}

func (e *EndpointError) Unwrap() error { return e.Err }

// CredentialsError says that the broker does not let the user in.
type CredentialsError struct {
	// Endpoint is the URL of the management API, or the AMQP address.
	Endpoint string
	Username string
	// Reason is the broker's own: "Login failed", "Not management user".
	Reason string
}

func (e *CredentialsError) Error() string {
	advice := "check username and password"
	if strings.Contains(strings.ToLower(e.Reason), "management") {
		advice = fmt.Sprintf("give the user a tag that admits it to the management API: rabbitmqctl set_user_tags %s management", e.Username)
	}
	return fmt.Sprintf("RabbitMQ at %s refuses the user %q: %s; %s", e.Endpoint, e.Username, e.Reason, advice)
}

// PermissionError says that the user lacks a permission on an object, or a tag.
type PermissionError struct {
	// Operation continues "could not …".
	Operation string
	Username  string
	Vhost     string
	// Object is the queue, exchange or policy, such as `queue "orders"`.
	Object string
	// Needs are the permissions RabbitMQ asks for.
	Needs string
	// Tag is the tag that would do, "" when permissions are needed.
	Tag string
	// Has are the user's permissions in the virtual host, "" when they cannot
	// be read.
	Has    string
	Reason string
}

func (e *PermissionError) Error() string {
	text := fmt.Sprintf("RabbitMQ does not let the user %q %s", e.Username, e.Operation)
	if e.Needs != "" {
		text += ": this needs " + e.Needs
	}
	if e.Has != "" {
		text += ", and the user has " + e.Has
	}
	text += fmt.Sprintf(" (the broker says %q)", e.Reason)
	if e.Tag != "" {
		return text + fmt.Sprintf("; add the tag to those that the user has: rabbitmqctl set_user_tags %s %s", e.Username, e.Tag)
	}
	if strings.Contains(e.Object, ` "amq.`) {
		return text + `; names that begin with "amq." belong to RabbitMQ: choose another name`
	}
	return text + fmt.Sprintf("; grant it with: rabbitmqctl set_permissions -p %q %s CONFIGURE WRITE READ", e.Vhost, e.Username)
}

// VhostError says that a virtual host does not exist or that the user has no
// access to it.
type VhostError struct {
	Endpoint string
	Username string
	Vhost    string
	// Exists is true when the virtual host is known to exist. When it is
	// false, All says whether that is certain.
	Exists bool
	// All says that the user sees every virtual host of the broker, so that
	// one it does not see does not exist.
	All bool
}

func (e *VhostError) Error() string {
	grant := fmt.Sprintf("rabbitmqctl set_permissions -p %q %s CONFIGURE WRITE READ", e.Vhost, e.Username)
	switch {
	case e.Exists:
		return fmt.Sprintf("the user %q has no access to the virtual host %q at %s; grant it with: %s", e.Username, e.Vhost, e.Endpoint, grant)
	case e.All:
		return fmt.Sprintf("there is no virtual host %q at %s; create it or correct the name", e.Vhost, e.Endpoint)
	default:
		return fmt.Sprintf("there is no virtual host %q at %s, or the user %q has no access to it; correct the name, create it, or grant access with: %s",
			e.Vhost, e.Endpoint, e.Username, grant)
	}
}

// NotFoundError says that an object which a request needs is not there, such
// as the source of a binding.
type NotFoundError struct {
	Operation string
	Reason    string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("could not %s: %s; create it first", e.Operation, e.Reason)
}

// InequivalentError says that an object of the name exists with other
// properties. RabbitMQ cannot change them in place.
type InequivalentError struct {
	Operation string
	Vhost     string
	Object    string
	// Reason is the broker's own, such as "inequivalent arg 'x-message-ttl'
	// for queue 'q' in vhost '/': received '60000' but current is '30000'".
	Reason string
}

func (e *InequivalentError) Error() string {
	return fmt.Sprintf("%s exists in vhost %q with other properties: %s; import it as it is, delete it first, or choose another name", e.Object, e.Vhost, e.Reason)
}

// InUseError says that a queue was not deleted because it holds messages or
// has consumers.
type InUseError struct {
	Vhost string
	Queue string
	// Reason is what was found, such as "3 messages are ready".
	Reason string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("queue %q in vhost %q was not deleted: %s; stop its consumers and empty it first, or set deletion_policy to \"delete\" to give up its messages, or to \"retain\" to leave the queue", e.Queue, e.Vhost, e.Reason)
}

// FedError says that an exchange was not deleted, because a queue exists whose
// messages leave through it.
type FedError struct {
	Vhost    string
	Exchange string
	Queue    string
}

func (e *FedError) Error() string {
	return fmt.Sprintf("exchange %q in vhost %q was not deleted: queue %q, whose messages leave through it, was declared meanwhile, perhaps by another apply; apply again", e.Exchange, e.Vhost, e.Queue)
}

// MessagesLostError says that messages which came while their queue was being
// deleted are lost: the queue could not be put back with them.
type MessagesLostError struct {
	Vhost string
	Queue string
	// Count is the number of messages, 0 when it is not known whether any came.
	Count int
	// IDs are the ids of those messages that have one.
	IDs []string
	Err error
}

func (e *MessagesLostError) Error() string {
	if e.Count == 0 {
		return fmt.Sprintf("queue %q in vhost %q was deleted, and messages that came at that moment may be lost: %v", e.Queue, e.Vhost, e.Err)
	}
	count := "1 message that came at that moment is"
	if e.Count != 1 {
		count = fmt.Sprintf("%d messages that came at that moment are", e.Count)
	}
	text := fmt.Sprintf("queue %q in vhost %q was deleted, and %s lost, because the queue could not be put back: %v", e.Queue, e.Vhost, count, e.Err)
	if len(e.IDs) > 0 {
		text += fmt.Sprintf(" (message ids: %q)", e.IDs)
	}
	return text
}

func (e *MessagesLostError) Unwrap() error { return e.Err }

// AMQPError says that the broker could not be asked over AMQP, without which
// no queue can be proved empty.
type AMQPError struct {
	Address string
	Problem string
	Err     error
}

func (e *AMQPError) Error() string {
	var answered *messages.BrokerError
	if errors.As(e.Err, &answered) {
		return fmt.Sprintf("RabbitMQ at %s did not say over AMQP whether queues are empty: %s; something else may be deleting them: try again", e.Address, e.Problem)
	}
	return fmt.Sprintf("cannot ask RabbitMQ over AMQP at %s whether queues are empty: %s; "+
		"set the provider's amqp_endpoint (or RABBITMQ_AMQP_ENDPOINT) to an address that can be reached from here, "+
		"or set deletion_policy to \"delete\" to give up messages, or to \"retain\" to leave the queues", e.Address, e.Problem)
}

func (e *AMQPError) Unwrap() error { return e.Err }

// APIError is any other refusal by the management API.
type APIError struct {
	// Operation continues "could not …".
	Operation string
	Endpoint  string
	// Status is the HTTP status, 0 when no request was made.
	Status int
	// Reason is the broker's own.
	Reason string
}

func (e *APIError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("could not %s: %s", e.Operation, e.Reason)
	}
	text := fmt.Sprintf("could not %s: %s answers %d %s: %s", e.Operation, e.Endpoint, e.Status, http.StatusText(e.Status), e.Reason)
	switch {
	case e.Status == http.StatusForbidden:
		text += "; RabbitMQ itself does not answer 403 here: check the gateway or proxy in front of it"
	case e.Status == http.StatusTooManyRequests:
		text += "; lower the number of parallel requests, or raise the number of retries"
	case strings.HasSuffix(e.Reason, notFormed):
		text += "; the broker did not start the queue's Raft server in time, because it is busy or its disk is slow: look into its log, and try again later"
	case e.Status >= http.StatusInternalServerError:
		text += "; look into the log of the broker (or of the gateway in front of it), and try again when it is healthy"
	}
	return text
}

// StatsError says that the broker keeps no counts of messages, without which
// no queue can be proved empty.
type StatsError struct{ Endpoint string }

func (e *StatsError) Error() string {
	return fmt.Sprintf("RabbitMQ at %s keeps no counts of messages (management.disable_stats = true), so no queue can be proved empty; "+
		"switch the counts on, or set deletion_policy to \"delete\" to give up messages, or to \"retain\" to leave the queues", e.Endpoint)
}
