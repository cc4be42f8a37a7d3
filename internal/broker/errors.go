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
	what := "cannot connect to"
	if e.Sent {
		what = "lost the connection to"
	}
	return fmt.Sprintf("%s %s: %s (%s); %s", what, e.Endpoint, e.Problem, effort(e.Tries, e.Elapsed), e.Advice)
}

// effort says how often something was tried, and for how long.
func effort(tries int, elapsed time.Duration) string {
	text := "1 try"
	if tries != 1 {
		text = fmt.Sprintf("%d tries", tries)
	}
	return fmt.Sprintf("%s in %s", text, elapsed.Round(100*time.Millisecond))
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
	// Token says that it is a token that the broker refuses, and Expired since when it
	// cannot be used, such as "expired at 2026-01-02T15:04:05Z", "" if it is not that.
	Token   bool
	Expired string
}

func (e *CredentialsError) Error() string {
	if e.Token {
		return e.tokenProblem()
	}
	advice := "check username and password"
	if strings.Contains(strings.ToLower(e.Reason), "management") {
		advice = "give the user a tag that admits it to the management API: " + tagCommand(e.Username, "management")
	}
	return fmt.Sprintf("RabbitMQ at %s refuses the user %q: %s; %s", e.Endpoint, e.Username, e.Reason, advice)
}

// PermissionError says that the user lacks a permission on an object, or a tag.
type PermissionError struct {
	// Operation continues "could not …".
	Operation string
	Username  string
	// Token says that the user is one of a token.
	Token bool
	Vhost string
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
		return text + "; grant it " + tagFrom(e.Tag, e.Username, e.Token)
	}
	if strings.Contains(e.Object, ` "amq.`) {
		return text + `; names that begin with "amq." belong to RabbitMQ: choose another name`
	}
	return text + "; grant it " + permissionsFrom(e.Vhost, e.Username, e.Token)
}

// grantCommand is the command that gives a user permissions, with a warning: it
// replaces those that the user has in the virtual host.
func grantCommand(vhost, user string) string {
	return fmt.Sprintf("rabbitmqctl set_permissions -p %q %s CONFIGURE WRITE READ, which replaces the user's patterns in this virtual "+
		"host: include the existing ones", vhost, user)
}

// tagCommand is the command that gives a user a tag, with a warning: it replaces
// those that the user has.
func tagCommand(user, tag string) string {
	return fmt.Sprintf("rabbitmqctl set_user_tags %s %s, which replaces the user's tags: include the existing ones", user, tag)
}

// VhostError says that a virtual host does not exist or that the user has no
// access to it.
type VhostError struct {
	Endpoint string
	Username string
	// Token says that the user is one of a token.
	Token bool
	Vhost string
	// Exists is true when the virtual host is known to exist. When it is
	// false, All says whether that is certain.
	Exists bool
	// All says that the user sees every virtual host of the broker, so that
	// one it does not see does not exist.
	All bool
}

func (e *VhostError) Error() string {
	from := permissionsFrom(e.Vhost, e.Username, e.Token)
	switch {
	case e.Exists:
		return fmt.Sprintf("the user %q has no access to the virtual host %q at %s; grant it %s", e.Username, e.Vhost, e.Endpoint, from)
	case e.All:
		return fmt.Sprintf("there is no virtual host %q at %s; create it or correct the name", e.Vhost, e.Endpoint)
	default:
		return fmt.Sprintf("there is no virtual host %q at %s, or the user %q has no access to it; correct the name, create it, or "+
			"grant access %s",
			e.Vhost, e.Endpoint, e.Username, from)
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
	return fmt.Sprintf("%s exists in vhost %q with other properties: %s; import it as it is, delete it first, or choose another name",
		e.Object, e.Vhost, e.Reason)
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
	return fmt.Sprintf("queue %q in vhost %q was not deleted: %s; stop its consumers and empty it first, or set deletion_policy to "+
		"\"delete\" to give up its messages, or to \"retain\" to leave the queue", e.Queue, e.Vhost, e.Reason)
}

// FedError says that an exchange was not deleted, because a queue exists whose
// messages leave through it.
type FedError struct {
	Vhost    string
	Exchange string
	Queue    string
}

func (e *FedError) Error() string {
	return fmt.Sprintf("exchange %q in vhost %q was not deleted: queue %q, whose messages leave through it, was declared meanwhile, "+
		"perhaps by another apply; apply again", e.Exchange, e.Vhost, e.Queue)
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
		return fmt.Sprintf("queue %q in vhost %q was deleted, and messages that came at that moment may be lost: %v",
			e.Queue, e.Vhost, e.Err)
	}
	count := "1 message that came at that moment is"
	if e.Count != 1 {
		count = fmt.Sprintf("%d messages that came at that moment are", e.Count)
	}
	text := fmt.Sprintf("queue %q in vhost %q was deleted, and %s lost, because the queue could not be put back: %v",
		e.Queue, e.Vhost, count, e.Err)
	if len(e.IDs) > 0 {
		text += fmt.Sprintf(" (message ids: %q)", e.IDs)
	}
	return text
}

func (e *MessagesLostError) Unwrap() error { return e.Err }

// AMQPError says that the broker could not be asked over AMQP, without which no queue
// can be proved empty and no message can be read.
type AMQPError struct {
	Address string
	Problem string
	// Tries and Elapsed are those of connecting, 0 for a session that broke.
	Tries   int
	Elapsed time.Duration
	// Down names the nodes that are down, "" if none is known to be.
	Down string
	Err  error
}

func (e *AMQPError) Error() string {
	var answered *messages.BrokerError
	if errors.As(e.Err, &answered) && e.Tries == 0 {
		return fmt.Sprintf("RabbitMQ at %s refused a request over AMQP: %s; something else may be deleting the queue: try again",
			e.Address, e.Problem)
	}
	if errors.Is(e.Err, messages.ErrCut) && e.Tries == 0 {
		return fmt.Sprintf("RabbitMQ at %s ended the AMQP connection in the middle of a request; the node may be stopping, or something "+
			"else may be deleting the queue: try again", e.Address)
	}
	text := fmt.Sprintf("no answer over AMQP from RabbitMQ at %s: %s", e.Address, e.Problem)
	if e.Tries > 0 {
		text += " (" + effort(e.Tries, e.Elapsed) + ")"
	}
	if e.Down != "" {
		text += "; " + e.Down
	}
	if answered != nil {
		return text + "; look into the broker's log, and try again when it takes connections"
	}
	return text + "; the provider counts and reads messages over AMQP 0-9-1: open the port, or set amqp_endpoint (or " +
		"RABBITMQ_AMQP_ENDPOINT) to an address that can be reached from here"
}

func (e *AMQPError) Unwrap() error { return e.Err }

// ClusterError says that the management API and the AMQP address belong to two clusters.
type ClusterError struct {
	// Endpoint is the URL of the management API, and Cluster the name of its cluster.
	Endpoint, Cluster string
	// Address is the AMQP address, and Other the name of its cluster.
	Address, Other string
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("the management API at %s belongs to cluster %q, but the AMQP address %s to cluster %q; set amqp_endpoint (or "+
		"RABBITMQ_AMQP_ENDPOINT) to a node of cluster %q", e.Endpoint, e.Cluster, e.Address, e.Other, e.Cluster)
}

// ConnectionLimitError says that the broker takes no more connections over AMQP.
type ConnectionLimitError struct {
	Address, Vhost, Username string
	// Of is "node", "user" or "vhost".
	Of string
	// Reason is the broker's own.
	Reason string
}

func (e *ConnectionLimitError) Error() string {
	limit := fmt.Sprintf("the limit max-connections of the virtual host %q", e.Vhost)
	raise := fmt.Sprintf(`rabbitmqctl set_vhost_limits -p %q '{"max-connections": N}'`, e.Vhost)
	switch e.Of {
	case "user":
		limit = fmt.Sprintf("the limit max-connections of the user %q", e.Username)
		raise = fmt.Sprintf(`rabbitmqctl set_user_limits %s '{"max-connections": N}'`, e.Username)
	case "node":
		limit, raise = "the node's limit connection_max", "connection_max in rabbitmq.conf"
	}
	return fmt.Sprintf("RabbitMQ at %s takes no more AMQP connections: %s is reached (the broker says %q); close connections, or raise "+
		"it with: %s", e.Address, limit, e.Reason, raise)
}

// NodesDownError says that a request did not succeed while nodes of the cluster are down.
type NodesDownError struct {
	// Operation continues "could not …".
	Operation string
	Endpoint  string
	// Problem is what came of the request, such as "no answer within 12s".
	Problem string
	// Down are the nodes that do not run, of so many.
	Down []string
	All  int
	// Members says how many members of the queue are online, "" if that is not known.
	Members string
}

// minority says that the nodes that run are no majority.
func (e *NodesDownError) minority() bool { return 2*len(e.Down) >= e.All }

func (e *NodesDownError) Error() string {
	text := fmt.Sprintf("could not %s at %s: %s; %d of %d nodes are down: %s",
		e.Operation, e.Endpoint, e.Problem, len(e.Down), e.All, strings.Join(e.Down, ", "))
	if e.Members != "" {
		text += "; " + e.Members
	}
	return text + "; start the nodes, then apply again"
}

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
	case e.Status == http.StatusRequestHeaderFieldsTooLarge:
		text += "; a header is too long for the broker, probably the token: RabbitMQ 4.0 takes 4 KiB, 4.3 8 KiB; ask for one with fewer " +
			"scopes or groups"
	case e.Status == http.StatusTooManyRequests:
		text += "; lower the number of parallel requests, or raise the number of retries"
	case strings.HasSuffix(e.Reason, notFormed):
		text += "; the broker did not start the queue's Raft server in time, because it is busy or its disk is slow: look into its log, " +
			"and try again later"
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
		"switch the counts on, or set deletion_policy to \"retain\" to leave the queues", e.Endpoint)
}
