package broker

import (
	"context"
	"fmt"
	"net/url"
	"slices"
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
func (c *Client) notObeyed(ctx context.Context, vhost string, targets []topology.Target, found *effects) (left []topology.Target, err error) {
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
