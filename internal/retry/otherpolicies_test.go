package retry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// holding is a virtual host with these objects.
func holding(objects ...any) *topology.Topology {
	t := topology.New()
	for _, object := range objects {
		switch o := object.(type) {
		case topology.Queue:
			t.SetQueue(o)
		case topology.Policy:
			t.SetPolicy(o)
		}
	}
	return t
}

// foreign is a policy that is not the chain's, for queues, with pairs of keys and values.
func foreign(name, pattern string, priority int64, definition ...any) topology.Policy {
	p := topology.Policy{Name: name, Pattern: pattern, ApplyTo: topology.ApplyToQueues, Priority: priority, Definition: topology.Arguments{}}
	for i := 0; i+1 < len(definition); i += 2 {
		value := definition[i+1]
		if n, is := value.(int); is {
			value = int64(n)
		}
		p.Definition[definition[i].(string)] = value
	}
	return p
}

func byOperator(p topology.Policy) topology.Policy {
	p.Operator = true
	return p
}

func queueOf(name string, kind topology.QueueType, arguments ...any) topology.Queue {
	return topology.Queue{Name: name, Type: kind, Durable: true, Arguments: foreign("", "", 0, arguments...).Definition}
}

// attachedTo makes the work queue one of others, of a known type.
func attachedTo(kind topology.QueueType) func(*retry.Chain) {
	return func(c *retry.Chain) { c.Work = retry.WorkQueue{Name: "orders", Existing: true, Type: kind} }
}

func ofClassicQueues(c *retry.Chain) {
	c.QueueType, c.DeadLetterStrategy, c.Work.Overflow, c.Work.DeliveryLimit = topology.Classic, retry.AtMostOnce, "", nil
}

func delaying(c *retry.Chain) {
	c.Strategy, c.Work.DeliveryLimit, c.Delays = retry.DelayedRetry, nil, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
}

func byRoutingKey(c *retry.Chain) { c.Strategy = retry.RoutingKey }

func sharingParking(c *retry.Chain) { c.Parking = retry.ParkingQueue{Name: "shared", Existing: true} }

func shielded(c *retry.Chain) { c.Policy.Shield = true }

func inheriting(c *retry.Chain) { c.Policy.Inherit = true }

// problemsText writes problems in one line each.
func problemsText(problems []retry.Problem) []string {
	var lines []string
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		lines = append(lines, kind+" "+p.Attribute+" "+p.Summary+": "+p.Detail)
	}
	return lines
}

// expectProblems fails the test unless there is exactly one problem for each
// text, which holds all of the words between the bars.
func expectProblems(t *testing.T, got []retry.Problem, want ...string) {
	t.Helper()
	left := problemsText(got)
	for _, text := range want {
		i := slices.IndexFunc(left, func(line string) bool {
			return !slices.ContainsFunc(strings.Split(text, "|"), func(words string) bool { return !strings.Contains(line, words) })
		})
		if i < 0 {
			t.Errorf("no problem has %q:\n%s", text, strings.Join(left, "\n"))
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		t.Errorf("more problems than expected:\n%s", strings.Join(left, "\n"))
	}
}

type policyCase struct {
	chain    retry.Chain
	in       *topology.Topology
	features retry.Features
	want     []string
}

const (
	work    = `^orders$`
	parking = `^orders\.parking$`
	first   = `\.5s$`
)

// TestPolicyProblemsOfKeys: each key that harms messages, by the role of the
// queue.
func TestPolicyProblemsOfKeys(t *testing.T) {
	expires := "error delays Policy Endangers Messages|expires=60000 on the tier|nobody uses for 1m is deleted"
	runPolicyCases(t, map[string]policyCase{
		"no policy": {chain: orders(), in: holding(), features: rabbit40},
		"harmless but to parked messages": {
			chain: orders(), features: rabbit40,
			in:   holding(foreign("p", ".*", 0, "queue-version", 2, "message-ttl", 86400000), foreign("q", "^nobody$", 9, "expires", 5)),
			want: []string{"error parking_queue|its messages are deleted after 24h"},
		},
		"parking: message-ttl": {
			chain: orders(), in: holding(foreign("p", parking, 4, "message-ttl", 1500)), features: rabbit40,
			want: []string{`error parking_queue Policy Endangers Messages|The policy "p" sets message-ttl=1500 on the parking queue "orders.parking": its messages are deleted after 1s500ms|shield = true, priority = 1000`},
		},
		"parking: message-ttl without end": {
			chain: orders(), in: holding(foreign("p", parking, 4, "message-ttl", 1<<60)), features: rabbit40,
			want: []string{"deleted after 1152921504606846976 ms"},
		},
		"parking: high priority": {
			chain: orders(), in: holding(foreign("p", parking, 5000, "message-ttl", 1500)), features: rabbit40,
			want: []string{"set policy = { shield = true, priority = 5001 }"},
		},
		"parking: expires": {
			chain: orders(), in: holding(foreign("p", parking, 4, "expires", 60000)), features: rabbit40,
			want: []string{"error parking_queue|expires=60000|is deleted with all its messages"},
		},
		"parking: lengths": {
			chain: orders(), in: holding(foreign("p", parking, 4, "max-length", 3, "max-length-bytes", 100)), features: rabbit40,
			want: []string{"max-length=3 |over the limit", "max-length-bytes=100 |over the limit"},
		},
		"parking: the shield of another chain": {
			chain: orders(), in: holding(foreign("other.shield", parking, 1000, "max-length-bytes", int(topology.UnreachableLimit))), features: rabbit40,
		},
		"parking: delivery-limit": {
			chain: orders(), in: holding(foreign("p", parking, 4, "delivery-limit", 3)), features: rabbit40,
			want: []string{"error parking_queue|put back more than 3 times is deleted"},
		},
		"parking: no delivery limit": {chain: orders(), in: holding(foreign("p", parking, 4, "delivery-limit", -1)), features: rabbit40},
		"parking: what does no harm there": {
			chain: orders(), in: holding(foreign("p", parking, 4, "overflow", "drop-head", "dead-letter-routing-key", "x")), features: rabbit40,
		},
		"parking of others": {
			chain: orders(sharingParking), in: holding(queueOf("shared", topology.Classic), foreign("p", "^shared$", 4, "message-ttl", 1000)), features: rabbit40,
			want: []string{`error parking_queue|on the parking queue "shared"|or remove the key.`},
		},
		"parking of others, with shield": {
			chain: orders(sharingParking, shielded), in: holding(foreign("p", "^shared$", 4, "message-ttl", 1000)), features: rabbit40,
			want: []string{`on the parking queue "shared"|or remove the key.`},
		},
		"tier: message-ttl below the delay": {
			chain: orders(), in: holding(foreign("p", `\.retry\.`, 4, "message-ttl", 5000)), features: rabbit40,
			want: []string{`error delays Policy Endangers Messages|on the tier "orders.retry.30s": messages wait 5s there and not 30s`},
		},
		"tier: lengths": {
			chain: orders(), in: holding(foreign("p", first, 4, "max-length", 3, "max-length-bytes", 100)), features: rabbit40,
			want: []string{"max-length=3 |hold up the whole chain", "max-length-bytes=100 |hold up the whole chain"},
		},
		"tier: expires": {chain: orders(), in: holding(foreign("p", first, 4, "expires", 60000)), features: rabbit40, want: []string{expires}},
		"tier: dead-letter-routing-key": {
			chain: orders(), in: holding(foreign("p", first, 4, "dead-letter-routing-key", "x")), features: rabbit40,
			want: []string{`error delays|with this routing key in place of their own`},
		},
		"tier: delivery-limit": {chain: orders(), in: holding(foreign("p", first, 4, "delivery-limit", 1)), features: rabbit40},
		"at least once: overflow": {
			chain: orders(), in: holding(foreign("p", `^orders(\.retry\.5s)?$`, 4, "overflow", "drop-head")), features: rabbit40,
			want: []string{"error work_queue|falls back to at-most-once", "error delays|falls back to at-most-once"},
		},
		"at least once: reject-publish-dlx": {
			chain: orders(), in: holding(foreign("p", work, 4, "overflow", "reject-publish-dlx")), features: rabbit40, want: []string{"falls back to at-most-once"},
		},
		"at least once: reject-publish": {chain: orders(), in: holding(foreign("p", ".*", 4, "overflow", "reject-publish")), features: rabbit40},
		"at most once: overflow":        {chain: orders(atMostOnce), in: holding(foreign("p", ".*", 4, "overflow", "drop-head")), features: rabbit40},
		"classic work queue: overflow": {
			chain: orders(ofClassicQueues), in: holding(foreign("p", ".*", 4, "overflow", "reject-publish")), features: rabbit40,
			want: []string{"error work_queue|refuses the messages that come back"},
		},
		"classic work queue: drop-head": {chain: orders(ofClassicQueues), in: holding(foreign("p", ".*", 4, "overflow", "drop-head")), features: rabbit40},
		"work queue: limits":            {chain: orders(), in: holding(foreign("p", work, 4, "message-ttl", 5, "max-length", 5, "max-length-bytes", 5, "delivery-limit", 5)), features: rabbit40},
		"work queue: dead-letter-routing-key of headers": {
			chain: orders(), in: holding(foreign("p", work, 4, "dead-letter-routing-key", "x")), features: rabbit40, want: []string{"error work_queue|place of their own"},
		},
		"work queue: dead-letter-routing-key of routing_key": {
			chain: orders(byRoutingKey), in: holding(foreign("p", work, 4, "dead-letter-routing-key", "x")), features: rabbit40, want: []string{"error work_queue|go round for ever"},
		},
		"work queue: expires": {
			chain: orders(), in: holding(foreign("p", work, 4, "expires", 60000)), features: rabbit40, want: []string{"error work_queue|deleted with all its messages"},
		},
		"work queue of others: expires": {chain: orders(attachedTo(topology.Classic), inheriting), in: holding(queueOf("orders", topology.Classic)), features: rabbit40},
		"delayed retry: other times": {
			chain: orders(delaying), in: holding(foreign("p", work, 4, "delayed-retry-type", "failed", "delayed-retry-min", 500, "delayed-retry-max", 1000)), features: rabbit40,
			want: []string{"error work_queue|delayed-retry-max=1000 |[\"1s\", \"2s\", \"3s\"]", "delayed-retry-min=500 |other times", "delayed-retry-type=failed |come back at once"},
		},
		"delayed retry: the same times": {
			chain: orders(delaying), in: holding(foreign("p", work, 4, "delayed-retry-type", "all", "delayed-retry-min", 1000, "delayed-retry-max", 5000)), features: rabbit40,
		},
		"delayed retry: delivery limit": {
			chain: orders(delaying), in: holding(foreign("p", work, 4, "delivery-limit", 2)), features: rabbit40,
			want: []string{"error work_queue|delivery-limit=2 |messages get 3 attempts and not 4"},
		},
		"delayed retry: no lower limit": {chain: orders(delaying), in: holding(foreign("p", work, 4, "delivery-limit", 3)), features: rabbit40},
		"delayed retry of others":       {chain: orders(), in: holding(foreign("p", work, 4, "delayed-retry-type", "all", "delayed-retry-min", 500)), features: rabbit40},
		"before 3.13: other deaths": {
			chain: orders(byRoutingKey, func(c *retry.Chain) { c.Work.DeliveryLimit = nil }), features: rabbit310,
			in:   holding(foreign("p", work, 4, "message-ttl", 5, "max-length", 5, "max-length-bytes", 5, "delivery-limit", 5)),
			want: []string{"error work_queue|message-ttl=5 |lost later", "max-length=5 |lost later", "max-length-bytes=5 |lost later", "delivery-limit=5 |lost later"},
		},
		"from 3.13 on: other deaths": {
			chain: orders(byRoutingKey), in: holding(foreign("p", work, 4, "message-ttl", 5, "max-length", 5, "delivery-limit", 5)), features: rabbit40,
		},
		"operator policy": {
			chain: orders(shielded), in: holding(byOperator(foreign("p", parking, 4, "message-ttl", 5))), features: rabbit40,
			want: []string{`error parking_queue|The operator policy "p"|cannot shield from an operator policy`},
		},
		"policy and operator policy": {
			chain: orders(), in: holding(foreign("p", parking, 4, "max-length", 5), byOperator(foreign("p", parking, 4, "message-ttl", 5))), features: rabbit40,
			want: []string{`The policy "p" sets max-length=5`, `The operator policy "p" sets message-ttl=5`},
		},
		"only the highest priority counts": {
			chain: orders(), in: holding(foreign("p", parking, 4, "message-ttl", 5), foreign("q", parking, 5, "queue-version", 2)), features: rabbit40,
		},
		"several of the highest priority": {
			chain: orders(), in: holding(foreign("p", parking, 4, "message-ttl", 5), foreign("q", parking, 4, "max-length", 2)), features: rabbit40,
			want: []string{`policy "p"`, `policy "q"`},
		},
		"a key that the type lacks": { // RabbitMQ applies the next policy
			chain: orders(ofClassicQueues), in: holding(foreign("p", parking, 4, "message-ttl", 5), foreign("q", parking, 5, "delivery-limit", 50)), features: rabbit40,
			want: []string{`policy "p" sets message-ttl=5`},
		},
		"queue of another type than the chain's": { // somebody declared it
			chain: orders(ofClassicQueues), in: holding(queueOf("orders.parking", topology.Quorum), foreign("p", parking, 4, "delivery-limit", 5)), features: rabbit40,
			want: []string{"put back more than 5 times"},
		},
	})
}

func runPolicyCases(t *testing.T, cases map[string]policyCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			expectProblems(t, c.chain.Within(c.in).PolicyProblems(c.in, c.features), c.want...)
		})
	}
}

// TestPolicyProblemsOfOwnPolicies: what others do to the chain's own policies,
// and these to theirs.
func TestPolicyProblemsOfOwnPolicies(t *testing.T) {
	classic, quorum := queueOf("orders", topology.Classic), queueOf("orders", topology.Quorum)
	runPolicyCases(t, map[string]policyCase{
		"attachment alone": {chain: orders(attachedTo("")), in: holding(quorum), features: rabbit40},
		"its own policies are not foreign": {
			chain: orders(attachedTo(""), shielded), features: rabbit40,
			in: holding(quorum, foreign("orders.retry", work, 1000, "dead-letter-exchange", "orders.retry"), foreign("orders.shield", "^orders", 1000, "max-length-bytes", 1<<40)),
		},
		"queue not there yet": {chain: orders(attachedTo("")), in: holding(foreign("p", work, 5000, "expires", 1)), features: rabbit40},
		"hidden by a higher priority": {
			chain: orders(attachedTo("")), in: holding(quorum, foreign("p", work, 1001, "message-ttl", 5)), features: rabbit40,
			want: []string{`error policy.priority Policy Hidden by Another|Policy "p" (queues, pattern="^orders$", priority=1001, message-ttl=5)|rejected messages would be lost|priority 1001 is not below the 1000 of "orders.retry"|Set policy.priority to 1002`},
		},
		"hidden by an equal priority": {
			chain: orders(attachedTo("")), in: holding(quorum, foreign("p", work, 1000, "message-ttl", 5)), features: rabbit40, want: []string{"Policy Hidden by Another"},
		},
		"hidden by several": {
			chain: orders(attachedTo("")), in: holding(quorum, foreign("p", work, 1000, "message-ttl", 5), foreign("q", work, 1000, "message-ttl", 6)), features: rabbit40,
			want: []string{`Policy Hidden by Another: Policy "p"`, `Policy Hidden by Another: Policy "q"`},
		},
		"not hidden by what does not apply": {
			chain: orders(attachedTo("")), features: rabbit40,
			in: holding(classic, foreign("p", work, 2000, "delivery-limit", 5), topology.Policy{Name: "q", Pattern: work, ApplyTo: topology.ApplyToQuorumQueues, Priority: 2000, Definition: topology.Arguments{"expires": int64(5)}}),
		},
		"displaces": {
			chain: orders(attachedTo("")), in: holding(quorum, foreign("p", work, 5, "message-ttl", 5, "dead-letter-exchange", "old")), features: rabbit40,
			want: []string{`warning policy Policy Displaced|takes the place of policy "p" on the queue "orders"|no longer in effect there: dead-letter-exchange=old, message-ttl=5. Set policy.inherit = true`},
		},
		"displaces only dead-lettering": {
			chain: orders(attachedTo("")), in: holding(quorum, foreign("p", work, 5, "dead-letter-exchange", "old")), features: rabbit40, want: []string{"warning policy Policy Displaced|dead-letter-exchange=old."},
		},
		"inherits": {
			chain: orders(attachedTo(""), inheriting), in: holding(quorum, foreign("p", work, 5, "message-ttl", 5, "dead-letter-exchange", "old", "overflow", "drop-head")), features: rabbit40,
			want: []string{"warning policy Policy Displaced|no longer in effect there: dead-letter-exchange=old, overflow=drop-head."},
		},
		"inherits all": {chain: orders(attachedTo(""), inheriting), in: holding(quorum, foreign("p", work, 5, "message-ttl", 5)), features: rabbit40},
		"inherits from nobody knows which": {
			chain: orders(attachedTo(""), inheriting), in: holding(quorum, foreign("p", work, 5, "message-ttl", 5), foreign("q", work, 5, "message-ttl", 6)), features: rabbit40,
			want: []string{`error policy.inherit Displaced Policy Not Clear|The policies "p", "q" apply`},
		},
		"inherits harm": {
			chain: orders(attachedTo(""), inheriting, ofClassicQueuesKeepWork), in: holding(classic, foreign("p", work, 5, "overflow", "reject-publish")), features: rabbit40,
			want: []string{`error work_queue Policy Endangers Messages|The policy "orders.retry" sets overflow=reject-publish|The key is inherited`},
		},
		"inherits other deaths before 3.13": {
			chain: orders(byRoutingKey, attachedTo(""), inheriting), in: holding(quorum, foreign("p", work, 5, "message-ttl", 5)), features: rabbit310,
			want: []string{"error work_queue|message-ttl=5 |The key is inherited"},
		},
		"displaces harm": {
			chain: orders(attachedTo(""), ofClassicQueuesKeepWork), in: holding(classic, foreign("p", work, 5, "overflow", "reject-publish")), features: rabbit40,
			want: []string{"warning policy Policy Displaced"},
		},
		"operator policy on an existing queue": {
			chain: orders(attachedTo("")), in: holding(quorum, byOperator(foreign("p", work, 0, "overflow", "drop-head"))), features: rabbit40,
			want: []string{"error work_queue|The operator policy|falls back to at-most-once"},
		},
		"shield keeps harm away": {
			chain: orders(shielded), in: holding(foreign("p", ".*", 999, "message-ttl", 5, "expires", 5, "max-length", 5)), features: rabbit40,
			want: []string{ // to the work queue these limits do no harm, and somebody may miss them
				`warning policy Policy Displaced|on the queue "orders",|there: max-length=5, message-ttl=5.`,
			},
		},
		"shield displaces what somebody may miss": {
			chain: orders(shielded), in: holding(foreign("p", parking, 5, "message-ttl", 5, "queue-version", 2)), features: rabbit40,
			want: []string{`warning policy Policy Displaced|on the queue "orders.parking"|there: queue-version=2.`},
		},
		"shield hidden": {
			chain: orders(shielded), in: holding(foreign("p", parking, 1000, "message-ttl", 5)), features: rabbit40,
			want: []string{"error policy.priority Policy Hidden by Another|hides the chain's shield"},
		},
	})
}

// ofClassicQueuesKeepWork is ofClassicQueues for a chain on an existing queue.
func ofClassicQueuesKeepWork(c *retry.Chain) {
	c.QueueType, c.DeadLetterStrategy = topology.Classic, retry.AtMostOnce
}

// TestProblemsTellThePolicy: a refresh shows the policies that problems come
// from.
func TestProblemsTellThePolicy(t *testing.T) {
	in := holding(queueOf("orders", topology.Quorum), foreign("hides", work, 2000, "expires", 5), byOperator(foreign("harms", parking, 1, "expires", 5)))
	var names []string
	for _, p := range orders(attachedTo("")).Within(in).PolicyProblems(in, rabbit40) {
		if p.Policy == nil {
			t.Errorf("%s tells no policy", p.Summary)
			continue
		}
		names = append(names, p.Policy.Kind()+" "+p.Policy.Name)
	}
	slices.Sort(names)
	if want := []string{"operator policy harms", "policy hides"}; !slices.Equal(names, want) {
		t.Errorf("the problems come from %q, expected %q", names, want)
	}
}

// A tier that drains still has messages to give back.
func TestPolicyProblemsOfDrainingTiers(t *testing.T) {
	c := orders()
	before := c
	before.Delays = append(slices.Clone(c.Delays), 7*time.Minute)
	for _, test := range []struct {
		in   *topology.Topology
		want int
	}{{before.Topology(rabbit40), 1}, {c.Topology(rabbit40), 0}} {
		test.in.SetPolicy(foreign("short", `7m$`, 1, topology.KeyExpires, 1000))
		text := strings.Join(problemsText(c.PolicyProblems(test.in, rabbit40)), "\n")
		if n := strings.Count(text, `the tier "orders.retry.7m"`); n != test.want {
			t.Errorf("%d problems of the draining tier, expected %d: %s", n, test.want, text)
		}
	}
}
