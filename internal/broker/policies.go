package broker

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// needsPolicymaker is what RabbitMQ asks for to change policies, and to read a
// single one (rabbit_mgmt_wm_policy:is_authorized/2, 3.10 to 4.3). No
// permission on a queue or an exchange is checked.
const needsPolicymaker = "the tag policymaker or administrator"

// changePolicies makes one change of policies at a time in a virtual host.
// RabbitMQ 4 reads the list of policies before it locks the queues
// (rabbit_policy:update_matched_objects/3): of policies that are set at once, one
// can stay in the list and never take effect. On 4.0.5, 14 of 96 did; none on
// 3.10.8 and 4.3.6.
func (c *Client) changePolicies(ctx context.Context, op operation, send func(*rabbithole.Client) error) (*call, error) {
	turns, _ := c.policyTurns.LoadOrStore(op.vhost, make(chan struct{}, 1))
	turn, _ := turns.(chan struct{})
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("could not %s: %w", op.text, context.Cause(ctx))
	}
	return c.write(ctx, op, nil, send)
}

func policyOperation(verb, vhost, name string) operation {
	return operation{
		text:   fmt.Sprintf("%s policy %q in vhost %q", verb, name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("policy %q", name),
		needs:  needsPolicymaker,
		tag:    "policymaker",
	}
}

// SetPolicy makes the policy, or replaces the one of its name. The broker
// refuses an invalid definition with an [APIError] that holds its reason.
// Operator policies cannot be set.
func (c *Client) SetPolicy(ctx context.Context, vhost string, p topology.Policy) error {
	_, err := c.setPolicy(ctx, vhost, p)
	return err
}

// setPolicy also says whether there was no policy of the name before, as
// [Client.DeclareQueue] does for queues (201 against 204, seen on 3.10, 4.0 and
// 4.3).
func (c *Client) setPolicy(ctx context.Context, vhost string, p topology.Policy) (created bool, err error) {
	if p.Operator {
		return false, fmt.Errorf("the operator policy %q cannot be set: only operators change operator policies", p.Name)
	}
	if err := checkNames(vhost, p.Name); err != nil {
		return false, err
	}
	op := policyOperation("set", vhost, p.Name)
	settings := rabbithole.Policy{
		Vhost:      vhost,
		Name:       p.Name,
		Pattern:    p.Pattern,
		ApplyTo:    p.ApplyTo,
		Priority:   int(p.Priority),
		Definition: toJSON(p.Definition),
	}
	k, err := c.changePolicies(ctx, op, func(rh *rabbithole.Client) error {
		return closed(rh.PutPolicy(vhost, p.Name, settings))
	})
	if err != nil {
		return false, err
	}
	c.wrote(vhost, func(t *topology.Topology) { t.SetPolicy(p) })
	return k.created(), nil
}

// DeletePolicy deletes the policy, no operator policy, of that name. It is no
// error when it is gone.
func (c *Client) DeletePolicy(ctx context.Context, vhost, name string) error {
	if err := checkNames(vhost, name); err != nil {
		return err
	}
	_, err := c.changePolicies(ctx, policyOperation("delete", vhost, name), func(rh *rabbithole.Client) error {
		return closed(rh.DeletePolicy(vhost, name))
	})
	if err != nil {
		return err
	}
	c.wrote(vhost, func(t *topology.Topology) { t.RemovePolicy(topology.Policy{Name: name}) })
	return nil
}

// Policy asks the broker for one policy, past the snapshot. It reads the list
// of the virtual host, which every user of the management API may; a single
// policy is shown to policymakers only.
func (c *Client) Policy(ctx context.Context, vhost, name string) (p topology.Policy, exists bool, err error) {
	if err := checkNames(vhost, name); err != nil {
		return topology.Policy{}, false, err
	}
	op := policyOperation("read", vhost, name)
	op.needs, op.tag = "", ""
	k := c.newCall(ctx, op)
	err = k.do(func(rh *rabbithole.Client) error {
		_, err := rh.ListPoliciesIn(vhost)
		return err
	})
	if err != nil {
		return topology.Policy{}, false, err
	}
	var found []policyJSON
	if err := k.decode(&found); err != nil {
		return topology.Policy{}, false, err
	}
	i := slices.IndexFunc(found, func(p policyJSON) bool { return p.Name == name })
	if i < 0 {
		return topology.Policy{}, false, nil
	}
	return found[i].policy(false), true, nil
}

const effectiveColumns = "name,effective_policy_definition"

// EffectivePolicy asks the broker which keys of policies and operator policies
// apply to the queue, merged by the broker. It is empty when no policy applies,
// and nil while the broker does not say.
//
// 4.3 answers from its database. Earlier versions answer from statistics, which
// are up to 7 s old, and for a new quorum queue say nothing for up to 10 s (seen
// on 3.10.8 and 4.0.5).
func (c *Client) EffectivePolicy(ctx context.Context, vhost, queue string) (definition topology.Arguments, exists bool, err error) {
	if err := checkNames(vhost, queue); err != nil {
		return nil, false, err
	}
	for _, query := range []url.Values{withoutStats(effectiveColumns), {"columns": {effectiveColumns}}} {
		definition, exists, err = c.effectivePolicy(ctx, vhost, queue, query)
		if definition != nil || !exists || err != nil {
			break
		}
	}
	return definition, exists, err
}

func (c *Client) effectivePolicy(ctx context.Context, vhost, queue string, query url.Values) (definition topology.Arguments, exists bool, err error) {
	k := c.newCall(ctx, operation{
		text:   fmt.Sprintf("read the effective policy of queue %q in vhost %q", queue, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", queue),
	})
	k.query = query
	err = k.do(func(rh *rabbithole.Client) error {
		_, err := rh.GetQueue(vhost, queue)
		return err
	})
	if isNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var found struct {
		Definition *arguments `json:"effective_policy_definition"`
	}
	if err := k.decode(&found); err != nil || found.Definition == nil {
		return nil, true, err
	}
	return topology.Arguments(*found.Definition), true, nil
}
