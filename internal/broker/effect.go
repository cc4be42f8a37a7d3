package broker

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// effectPause lies between two looks at the policies in effect.
const effectPause = time.Second

// effects are the policies in effect in a virtual host, as RabbitMQ reports them.
type effects struct {
	began time.Time
	// first is when the first list of this process began.
	first   time.Time
	byQueue map[string]effect
}

type effect struct {
	Queue string `json:"name"`
	// Policy is the name of the policy.
	Policy string `json:"policy"`
	// Definition are the merged settings of policy and operator policy; nil while
	// RabbitMQ does not report them.
	Definition *arguments `json:"effective_policy_definition"`
}

// Ineffective returns those of the targets whose policy is listed and not in effect.
// It reads one list for all targets of a virtual host, and again where the
// list says that a policy is not in effect: RabbitMQ takes what a queue obeys from
// statistics, which are up to an interval of statistics old, and 2 s more (seen on 3.10.8
// and 4.0.5). With patience it waits for them. Where there are no statistics (a new queue,
// management.disable_stats) it compares the name of the policy, which is current.
//
// Statistics come from the process of a classic queue. For a quorum queue they come from
// the database, after which RabbitMQ 4.0 and later renew the queue's configuration every
// 5 s (rabbit_quorum_queue:maybe_apply_policies/2).
func (c *Client) Ineffective(ctx context.Context, vhost string, targets []topology.Target, patience bool) ([]topology.Target, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	var found *effects
	for {
		var err error
		if found, err = c.effectsAfter(ctx, vhost, found); err != nil {
			return nil, err
		}
		left, err := c.notObeyed(ctx, vhost, targets, found)
		if err != nil || len(left) == 0 || !patience || found.began.Sub(found.first) > 2*c.statistics {
			return left, err
		}
		if err := c.sleep(ctx, effectPause); err != nil {
			return nil, err
		}
	}
}

// notObeyed returns the targets whose queue does not obey the policy.
func (c *Client) notObeyed(
	ctx context.Context, vhost string, targets []topology.Target, found *effects,
) (left []topology.Target, err error) {
	err = c.View(ctx, vhost, func(in *topology.Topology) {
		left = slices.DeleteFunc(slices.Clone(targets), func(target topology.Target) bool {
			e, exists := found.byQueue[target.Queue.Name]
			switch {
			case !exists:
				return true // the queue was deleted meanwhile, which the next refresh shows
			case e.Definition == nil:
				return e.Policy == target.Policy.Name
			}
			return in.Obeyed(target, topology.Arguments(*e.Definition))
		})
	})
	return left, err
}

// effectsAfter returns a later list than before, or any if that is nil. Those who ask at
// once share one.
func (c *Client) effectsAfter(ctx context.Context, vhost string, before *effects) (*effects, error) {
	if before != nil {
		c.effects.forgetValue(vhost, before)
	}
	return c.effects.get(ctx, vhost, func(ctx context.Context, e *effects) error {
		err := c.loadEffects(ctx, vhost, e)
		e.first = e.began
		if before != nil {
			e.first = before.first
		}
		return err
	})
}

func (c *Client) loadEffects(ctx context.Context, vhost string, e *effects) error {
	began := time.Now()
	k := c.newCall(ctx, operation{text: fmt.Sprintf("list the policies in effect in vhost %q", vhost), vhost: vhost})
	k.query = url.Values{"columns": {effectiveColumns}}
	list, err := get[[]effect](k, func(rh *rabbithole.Client) (any, error) { return rh.ListQueuesIn(vhost) })
	if err != nil {
		return err
	}
	e.began, e.byQueue = began, make(map[string]effect, len(list))
	for _, one := range list {
		e.byQueue[one.Queue] = one
	}
	return nil
}

const effectiveColumns = "name,policy,effective_policy_definition"

// EffectivePolicy asks the broker for the name of the policy that applies to the queue, ""
// if none does, and for the keys of policies and operator policies that are in effect, merged
// by the broker. The definition is empty when no policy applies, and nil while the broker
// does not say.
//
// 4.3 answers from its database. Earlier versions take the definition from statistics, which
// are up to 7 s old, for a new quorum queue say nothing for up to 10 s (seen
// on 3.10.8 and 4.0.5), and can be turned off. The name then comes from the database, but
// only in the list of queues.
func (c *Client) EffectivePolicy(
	ctx context.Context, vhost, queue string,
) (policy string, definition topology.Arguments, exists bool, err error) {
	if err := checkNames(vhost, queue); err != nil {
		return "", nil, false, err
	}
	now, exists, err := c.effectivePolicy(ctx, vhost, queue, withoutStats(effectiveColumns))
	if exists && err == nil && now.Definition == nil {
		var counted effect
		counted, exists, err = c.effectivePolicy(ctx, vhost, queue, url.Values{"columns": {effectiveColumns}})
		now = counted
	}
	switch {
	case !exists || err != nil:
		return "", nil, exists, err
	case now.Definition != nil:
		return now.Policy, topology.Arguments(*now.Definition), true, nil
	}
	policy, err = c.policyName(ctx, vhost, queue)
	return policy, nil, true, err
}

// policyName reads the name of the policy that applies to the queue, "" if none does.
func (c *Client) policyName(ctx context.Context, vhost, queue string) (string, error) {
	list, err := c.policyNames(ctx, vhost, "^"+regexp.QuoteMeta(queue)+"$")
	for _, e := range list {
		if e.Queue == queue {
			return e.Policy, err
		}
	}
	return "", err
}

// policyNames reads from the list of queues without statistics, for up to 500 queues whose
// names match the pattern, the policies that apply to them.
func (c *Client) policyNames(ctx context.Context, vhost, pattern string) ([]effect, error) {
	k := c.newCall(ctx, operation{text: fmt.Sprintf("read the policies of the queues %q in vhost %q", pattern, vhost), vhost: vhost})
	k.query = withoutStats("name,policy")
	for key, value := range map[string]string{"page": "1", "page_size": "500", "use_regex": "true", "name": pattern} {
		k.query.Set(key, value)
	}
	page, err := get[struct {
		Items []effect `json:"items"`
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.PagedListQueuesWithParametersIn(vhost, k.query) })
	return page.Items, err
}

func (c *Client) effectivePolicy(ctx context.Context, vhost, queue string, query url.Values) (found effect, exists bool, err error) {
	k := c.newCall(ctx, operation{
		text:   fmt.Sprintf("read the effective policy of queue %q in vhost %q", queue, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", queue),
	})
	k.query = query
	found, err = get[effect](k, func(rh *rabbithole.Client) (any, error) { return rh.GetQueue(vhost, queue) })
	if isNotFound(err) {
		return effect{}, false, nil
	}
	return found, err == nil, err
}

// StillObeyedError says that queues obey a policy that is deleted.
type StillObeyedError struct {
	VHost, Policy string
	Queues        []string
}

func (e *StillObeyedError) Error() string {
	return fmt.Sprintf("policy %q in vhost %q is deleted, but RabbitMQ still applies it to %s: another client changed a policy at the "+
		"same moment. Set any policy in the virtual host, which makes RabbitMQ apply them again, and repeat this",
		e.Policy, e.VHost, strings.Join(e.Queues, ", "))
}

// obeyedLooks is how often queues are asked whether they obey a deleted policy.
const obeyedLooks = 3

// checkObeyed returns a [StillObeyedError] if queues obey the deleted policy: of policies that
// two clients change at once, one that is deleted can stay in effect, see
// [Client.changePolicies].
func (c *Client) checkObeyed(ctx context.Context, vhost string, p topology.Policy) error {
	pattern, _ := topology.WithdrawnPattern(p.Pattern)
	for look := 1; ; look++ {
		list, err := c.policyNames(ctx, vhost, pattern)
		if err != nil {
			return fmt.Errorf("policy %q is deleted, but it is not known whether queues still obey it: %w", p.Name, err)
		}
		still := &StillObeyedError{VHost: vhost, Policy: p.Name}
		for _, e := range list {
			if e.Policy == p.Name {
				still.Queues = append(still.Queues, strconv.Quote(e.Queue))
			}
		}
		if len(still.Queues) == 0 {
			return nil
		}
		if look == obeyedLooks {
			return still
		}
		if err := c.sleep(ctx, effectPause); err != nil {
			return err
		}
	}
}

// AwaitPolicy waits until a policy that was just set is in effect on an existing
// queue. Before 4.3 RabbitMQ says so up to 10 s later, see
// [Client.EffectivePolicy]; while it says nothing, the name of the policy
// decides. Half of the time later it sets the policy again: another client that changed a policy
// at the same moment can have undone its effect.
func (c *Client) AwaitPolicy(ctx context.Context, vhost, policy, queue string, inEffect func(topology.Arguments) bool) error {
	const patience, poll = 30 * time.Second, 200 * time.Millisecond
	var definition topology.Arguments
	again := false
	for began := time.Now(); time.Since(began) < patience; {
		name, effective, exists, err := c.EffectivePolicy(ctx, vhost, queue)
		switch {
		case err != nil:
			return err
		case !exists:
			return fmt.Errorf("queue %q was deleted meanwhile", queue)
		case inEffect(effective), effective == nil && name == policy:
			return nil
		case !again && time.Since(began) > patience/2:
			again = true
			if err := c.setPolicyAgain(ctx, vhost, policy); err != nil {
				return err
			}
		}
		definition = effective
		if err := c.sleep(ctx, poll); err != nil {
			return err
		}
	}
	return fmt.Errorf("the policy %q does not take effect on the queue %q: after %s RabbitMQ says that the policies in effect are "+
		"{%s}. Look for a policy of higher priority, or for a key that the queue's type does not support. If there is neither, other "+
		"policies were set at the same moment, and RabbitMQ lost the effect of this one: apply again",
		policy, queue, patience, definition.Text())
}

// setPolicyAgain sets the policy as it is.
func (c *Client) setPolicyAgain(ctx context.Context, vhost, policy string) error {
	var p topology.Policy
	exists := false
	err := c.View(ctx, vhost, func(in *topology.Topology) { p, exists = in.Policy(policy) })
	if err != nil || !exists {
		return err
	}
	return c.SetPolicy(ctx, vhost, p)
}

// DropIneffective removes from actual the policies that are listed and not in effect, so
// that they are set again.
func (c *Client) DropIneffective(
	ctx context.Context, vhost string, targets func(in *topology.Topology) []topology.Target, actual *topology.Topology,
) error {
	var all []topology.Target
	if err := c.View(ctx, vhost, func(in *topology.Topology) { all = targets(in) }); err != nil {
		return err
	}
	ineffective, err := c.Ineffective(ctx, vhost, all, false)
	for _, target := range ineffective {
		actual.RemovePolicy(target.Policy)
	}
	return err
}
