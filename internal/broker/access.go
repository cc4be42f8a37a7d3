package broker

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// MissingPermissions lists what the user may not do and has to, to declare
// everything in the topology: one sentence per permission and object. The list
// holds only missing tags where the broker does not let the user see its own
// permissions (only administrators may read them).
//
// Declarations over HTTP need the permissions of AMQP 0-9-1, even for
// administrators: configure on what is declared; read on a queue and write on
// its dead-letter exchange, read on an exchange and write on its alternate
// exchange; write on a binding's destination and read on its source
// (rabbit_channel, all versions).
//
// It asks again before it says that one is missing: the same run may have granted
// it since the permissions were read, as for a virtual host that it created.
func (c *Client) MissingPermissions(ctx context.Context, vhost string, t *topology.Topology) ([]string, error) {
	missing, err := c.missingPermissions(ctx, vhost, t)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	c.permissions.forget("")
	return c.missingPermissions(ctx, vhost, t)
}

func (c *Client) missingPermissions(ctx context.Context, vhost string, t *topology.Topology) ([]string, error) {
	missing, err := c.missingTags(ctx, t)
	if err != nil {
		return nil, err
	}
	configure, write, read, known, err := c.Permissions(ctx, vhost)
	if err != nil || !known {
		return missing, err
	}
	check := permissionCheck{missing: missing, patterns: map[string]string{"configure": configure, "write": write, "read": read}}
	for _, e := range t.Exchanges() {
		check.need("configure", "exchange", e.Name)
		if alternate := e.Alternate(); alternate != "" {
			check.need("read", "exchange", e.Name)
			check.need("write", "exchange", alternate)
		}
	}
	for _, q := range t.Queues() {
		check.need("configure", "queue", q.Name)
		if dlx, set := q.Arguments[topology.DeadLetterExchange].(string); set {
			check.need("read", "queue", q.Name)
			check.need("write", "exchange", cmp.Or(dlx, "amq.default"))
		}
	}
	for _, b := range t.Bindings() {
		check.need("write", string(b.DestinationKind), b.Destination)
		check.need("read", "exchange", b.Source)
	}
	slices.Sort(check.missing)
	return slices.Compact(check.missing), nil
}

// missingTags says what tag the user lacks to set policies. Every user can read
// its own tags.
func (c *Client) missingTags(ctx context.Context, t *topology.Topology) ([]string, error) {
	policies := t.Policies()
	if len(policies) == 0 {
		return nil, nil
	}
	tags, err := c.whoami(ctx)
	if err != nil || slices.Contains(tags, "administrator") || slices.Contains(tags, "policymaker") {
		return nil, err
	}
	return []string{fmt.Sprintf("%s for policy %q (the user's tags are %q)", needsPolicymaker, policies[0].Name, tags)}, nil
}

type permissionCheck struct {
	patterns map[string]string
	missing  []string
}

// need notes the permission if the user does not have it. RabbitMQ matches its
// patterns anywhere in the name; the empty one matches nothing. A pattern that
// only RabbitMQ's dialect understands is left to the broker.
func (p *permissionCheck) need(permission, kind, name string) {
	pattern := p.patterns[permission]
	if pattern == "" {
		pattern = "^$"
	}
	matcher, err := regexp.Compile(pattern)
	if err == nil && !matcher.MatchString(name) {
		p.missing = append(p.missing, fmt.Sprintf("%s on %s %q (the user's pattern is %q)", permission, kind, name, p.patterns[permission]))
	}
}
