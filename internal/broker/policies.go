package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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
// can stay in the list and never take effect, and one that is deleted can stay in
// effect. On 4.0.5, 14 of 96 did. On 4.3.6 and 3.10.8 it is rare: about one in 100 and
// one in 1,000.
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

// RabbitMQ stores a policy first and applies it to exchanges and queues afterwards
// (rabbit_policy:notify/5). When the connection of a request ends in between, it stops:
// the policy is listed, or not listed any more, and queues do not know. The same
// request again changes nothing then (rabbit_runtime_parameters:set_any0/5). Before 4.0
// nothing shows that a quorum queue was left out. Seen with 3.10.8, 4.0.5 and 4.3.6.
//
// So every change is made in two writes, the second one after the answer to the first.
// Before a policy is listed in its wanted form, the queues obey one of the same settings
// whose pattern carries a mark. Before a policy is deleted, it matches nothing. Whatever
// a broken-off change leaves, the list shows it.

// SetPolicy declares the policy, or replaces the one of its name. When it is listed
// with exactly these settings, they have taken effect. The broker
// refuses an invalid definition with an [APIError] that holds its reason.
// Operator policies cannot be set.
func (c *Client) SetPolicy(ctx context.Context, vhost string, p topology.Policy) error {
	_, err := c.setPolicy(ctx, vhost, p)
	return err
}

// setPolicy also says whether there was no policy of the name before, as
// [Client.DeclareQueue] does for queues (201 against 204, seen on 3.10, 4.0 and
// 4.3).
func (c *Client) setPolicy(ctx context.Context, vhost string, p topology.Policy) (Made, error) {
	if p.Operator {
		return Existed, fmt.Errorf("the operator policy %q cannot be set: only operators change operator policies", p.Name)
	}
	if err := checkNames(vhost, p.Name); err != nil {
		return Existed, err
	}
	op := policyOperation("set", vhost, p.Name)
	made, err := c.applyPolicy(ctx, op, p)
	if err == nil {
		_, err = c.putPolicy(ctx, op, p)
	}
	return made, err
}

// DeletePolicy deletes the policy, no operator policy, as it is listed. It is not an error
// when it is gone. Afterwards it is in effect nowhere, or the error is a [StillObeyedError].
func (c *Client) DeletePolicy(ctx context.Context, vhost string, p topology.Policy) error {
	if err := checkNames(vhost, p.Name); err != nil {
		return err
	}
	op := policyOperation("delete", vhost, p.Name)
	if err := c.withdrawPolicy(ctx, op, p); err != nil {
		return err
	}
	_, err := c.changePolicies(ctx, op, func(rh *rabbithole.Client) error {
		return closed(rh.DeletePolicy(vhost, p.Name))
	})
	if err != nil {
		return err
	}
	c.wrote(vhost, func(t *topology.Topology) { t.RemovePolicy(topology.Policy{Name: p.Name}) })
	return c.checkObeyed(ctx, vhost, p)
}

// withdrawPolicy makes the policy match nothing. Where that was broken off before, queues
// may still obey it although RabbitMQ has noted that they do not, and then only another
// policy that matches them reaches them: one that changes nothing.
func (c *Client) withdrawPolicy(ctx context.Context, op operation, p topology.Policy) error {
	matching, withdrawn := p, p
	pattern, again := topology.WithdrawnPattern(p.Pattern)
	matching.Pattern = pattern
	matching.Definition = topology.Arguments{topology.KeyMaxLengthBytes: topology.UnreachableLimit}
	for {
		if again {
			if _, err := c.applyPolicy(ctx, op, matching); err != nil {
				return err
			}
		}
		withdrawn.Pattern = topology.WithdrawPattern(pattern)
		k, err := c.putPolicy(ctx, op, withdrawn)
		var refused *APIError
		if errors.As(err, &refused) && refused.Status == http.StatusBadRequest {
			return nil // a key that this version does not know any more; RabbitMQ deletes the policy all the same
		}
		if err != nil || !k.uncertain {
			return err
		}
		again = true
	}
}

// applyPolicy gives queues and exchanges the policy with a mark in its pattern, a
// comment of PCRE. made says whether there was none of the name before. A mark is
// never used twice: RabbitMQ would take the second request for one that changes nothing.
func (c *Client) applyPolicy(ctx context.Context, op operation, p topology.Policy) (made Made, err error) {
	pattern := p.Pattern
	for tries := 1; ; tries++ {
		p.Pattern = topology.MarkPattern(pattern)
		k, err := c.putPolicy(ctx, op, p)
		if err != nil {
			return Existed, err
		}
		if tries == 1 {
			made = k.made()
		}
		if !k.uncertain {
			return made, nil
		}
	}
}

// putPolicy is one call.
func (c *Client) putPolicy(ctx context.Context, op operation, p topology.Policy) (*call, error) {
	settings := rabbithole.Policy{
		Vhost:      op.vhost,
		Name:       p.Name,
		Pattern:    p.Pattern,
		ApplyTo:    p.ApplyTo,
		Priority:   int(p.Priority),
		Definition: toJSON(p.Definition),
	}
	k, err := c.changePolicies(ctx, op, func(rh *rabbithole.Client) error {
		return closed(rh.PutPolicy(op.vhost, p.Name, settings))
	})
	if err == nil {
		c.wrote(op.vhost, func(t *topology.Topology) { t.SetPolicy(p) })
	}
	return k, err
}
