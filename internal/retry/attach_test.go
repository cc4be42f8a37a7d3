package retry_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// policyLine is the line of a policy that the chain wants, or "".
func policyLine(c retry.Chain, name string) string {
	return c.Topology(rabbit40).Lines(nil).Policies[name]
}

func TestAttachment(t *testing.T) {
	for name, test := range map[string]struct {
		chain retry.Chain
		want  string
	}{
		"quorum":  {orders(attachedTo(topology.Quorum)), `queues, pattern="^orders$", priority=1000, dead-letter-exchange=orders.retry, dead-letter-strategy=at-least-once, overflow=reject-publish`},
		"classic": {orders(attachedTo(topology.Classic)), `queues, pattern="^orders$", priority=1000, dead-letter-exchange=orders.retry`},
		"quorum, at most once": {
			orders(attachedTo(topology.Quorum), ofClassicQueuesKeepWork), `queues, pattern="^orders$", priority=1000, dead-letter-exchange=orders.retry, dead-letter-strategy=at-most-once`,
		},
		"type not known": {orders(attachedTo("")), ""},
		"own queue":      {orders(), ""},
		"name and priority": {
			orders(attachedTo(topology.Classic), func(c *retry.Chain) { c.Work.Name, c.Policy.Priority = "a.b+c [d]", -3 }),
			`queues, pattern="^a\\.b\\+c \\[d\\]$", priority=-3, dead-letter-exchange=orders.retry`,
		},
		"inherits": {
			orders(attachedTo(topology.Quorum), inheriting, func(c *retry.Chain) {
				c.Policy.Inherited = topology.Arguments{"max-length": int64(5), "overflow": "drop-head"}
			}),
			`queues, pattern="^orders$", priority=1000, dead-letter-exchange=orders.retry, dead-letter-strategy=at-least-once, max-length=5, overflow=reject-publish`,
		},
		"does not inherit": {
			orders(attachedTo(topology.Classic), func(c *retry.Chain) { c.Policy.Inherited = topology.Arguments{"max-length": int64(5)} }),
			`queues, pattern="^orders$", priority=1000, dead-letter-exchange=orders.retry`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, policyLine(test.chain, "orders.retry"), test.want)
			_, declared := test.chain.Topology(rabbit40).Queue(test.chain.Work.Name)
			if declared == test.chain.Work.Existing {
				t.Errorf("the chain declares the work queue: %t", declared)
			}
		})
	}
}

// TestShieldPattern: the pattern matches the queues that the chain declares and
// no others, in Perl's dialect as in this one.
func TestShieldPattern(t *testing.T) {
	own := orders(shielded, func(c *retry.Chain) { c.Name, c.Work.Name, c.Parking.Name = "or.ders", "work", "par+king" })
	for name, test := range map[string]struct {
		chain       retry.Chain
		covers, not []string
	}{
		"own queues": {
			own,
			[]string{"work", "par+king", "or.ders.retry.5s", "or.ders.retry.1h2m3s4ms", "or.ders.retry.5s.12", "or.ders.attempt.0s"},
			[]string{"worker", "awork", "parking", "or.ders", "orxders.retry.5s", "or.ders.retry.5s.", "or.ders.retry.", "or.ders.retry.5d", "or.ders.retry.5s.x", "or.ders.retry.retry.5s"},
		},
		"queues of others": {
			orders(shielded, attachedTo(topology.Classic), sharingParking),
			[]string{"orders.retry.5s"},
			[]string{"orders", "shared", "orders.parking"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			shield, exists := test.chain.Topology(rabbit40).Policy(test.chain.Name + ".shield")
			if !exists {
				t.Fatal("the chain wants no shield")
			}
			compare(t, shield.Definition.Text(), "max-length-bytes=9007199254740991")
			pattern := regexp.MustCompile(shield.Pattern)
			for _, queue := range test.covers {
				if !pattern.MatchString(queue) {
					t.Errorf("%q does not match %q", shield.Pattern, queue)
				}
			}
			for _, queue := range test.not {
				if pattern.MatchString(queue) {
					t.Errorf("%q matches %q", shield.Pattern, queue)
				}
			}
		})
	}
	if line := policyLine(orders(), "orders.shield"); line != "" {
		t.Errorf("a chain without a shield wants %q", line)
	}
}

// TestShieldCoversEveryTier, whatever its delay.
func TestShieldCoversEveryTier(t *testing.T) {
	c := orders(shielded, func(c *retry.Chain) {
		c.Delays = []time.Duration{0, 0, time.Millisecond, 90 * time.Second, 25 * time.Hour, retry.MaxDelay, retry.MaxDelay}
	})
	shield, _ := c.Topology(rabbit40).Policy("orders.shield")
	for _, q := range c.Topology(rabbit40).Queues() {
		if !regexp.MustCompile(shield.Pattern).MatchString(q.Name) {
			t.Errorf("%q does not match %q", shield.Pattern, q.Name)
		}
	}
}

func TestWithin(t *testing.T) {
	for name, test := range map[string]struct {
		chain     retry.Chain
		in        *topology.Topology
		kind      topology.QueueType
		inherited string
	}{
		"own queue":       {orders(), holding(queueOf("orders", topology.Quorum), foreign("p", work, 1, "expires", 5)), "", ""},
		"missing":         {orders(attachedTo(topology.Quorum)), holding(foreign("p", work, 1, "expires", 5)), "", ""},
		"no policy":       {orders(attachedTo("")), holding(queueOf("orders", topology.Quorum)), topology.Quorum, ""},
		"one":             {orders(attachedTo("")), holding(queueOf("orders", topology.Classic), foreign("p", work, 1, "expires", 5, "overflow", "drop-head")), topology.Classic, "expires=5, overflow=drop-head"},
		"keys of its own": {orders(attachedTo("")), holding(queueOf("orders", topology.Quorum), foreign("p", work, 1, "expires", 5, "overflow", "drop-head", "dead-letter-exchange", "old", "dead-letter-routing-key", "k", "dead-letter-strategy", "at-most-once")), topology.Quorum, "expires=5"},
		"two":             {orders(attachedTo("")), holding(queueOf("orders", topology.Quorum), foreign("p", work, 1, "expires", 5), foreign("q", work, 1, "expires", 6)), topology.Quorum, ""},
		"the chain's own": {orders(attachedTo("")), holding(queueOf("orders", topology.Quorum), foreign("orders.retry", work, 9, "expires", 5), foreign("q", work, 1, "expires", 6)), topology.Quorum, "expires=6"},
		"operator policy": {orders(attachedTo("")), holding(queueOf("orders", topology.Quorum), byOperator(foreign("p", work, 1, "expires", 5))), topology.Quorum, ""},
		"a key that the type lacks": {
			orders(attachedTo("")), holding(queueOf("orders", topology.Classic), foreign("p", work, 5, "delivery-limit", 5), foreign("q", work, 1, "expires", 6)), topology.Classic, "expires=6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.chain.Within(test.in)
			if c.Work.Type != test.kind || c.Policy.Inherited.Text() != test.inherited {
				t.Errorf("type %q, inherited %q; expected %q, %q", c.Work.Type, c.Policy.Inherited.Text(), test.kind, test.inherited)
			}
		})
	}
}

func TestInEffect(t *testing.T) {
	for name, test := range map[string]struct {
		kind       topology.QueueType
		definition []any
		want       bool
	}{
		"classic":             {topology.Classic, []any{"dead-letter-exchange", "orders.retry"}, true},
		"and more":            {topology.Classic, []any{"dead-letter-exchange", "orders.retry", "expires", 5}, true},
		"nothing":             {topology.Classic, nil, false},
		"another exchange":    {topology.Classic, []any{"dead-letter-exchange", "other"}, false},
		"quorum":              {topology.Quorum, []any{"dead-letter-exchange", "orders.retry", "dead-letter-strategy", "at-least-once", "overflow", "reject-publish"}, true},
		"without a strategy":  {topology.Quorum, []any{"dead-letter-exchange", "orders.retry", "overflow", "reject-publish"}, false},
		"operator's overflow": {topology.Quorum, []any{"dead-letter-exchange", "orders.retry", "dead-letter-strategy", "at-least-once", "overflow", "drop-head"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := orders(attachedTo(test.kind)).InEffect(foreign("", "", 0, test.definition...).Definition); got != test.want {
				t.Errorf("%t, expected %t", got, test.want)
			}
		})
	}
}

// TestWeakensDeadLettering: an application's at-least-once queue that would stop to be
// one is told from every other change of the chain's policy.
func TestWeakensDeadLettering(t *testing.T) {
	atLeastOnce := []any{"dead-letter-exchange", "dlx", "dead-letter-strategy", "at-least-once", "overflow", "reject-publish"}
	attached := orders(attachedTo(topology.Quorum))
	atMostOnce := orders(attachedTo(topology.Quorum), func(c *retry.Chain) { c.DeadLetterStrategy = retry.AtMostOnce })
	for name, test := range map[string]struct {
		kind   topology.QueueType
		before []any // of another policy
		has    *retry.Chain
		gets   *retry.Chain
		want   bool
	}{
		"attach":                             {topology.Quorum, nil, nil, &attached, false},
		"attach over at-least-once":          {topology.Quorum, atLeastOnce, nil, &attached, false},
		"attach at-most-once over the other": {topology.Quorum, atLeastOnce, nil, &atMostOnce, true},
		"weaken":                             {topology.Quorum, nil, &attached, &atMostOnce, true},
		"detach":                             {topology.Quorum, nil, &attached, nil, true},
		"detach to at-least-once":            {topology.Quorum, atLeastOnce, &attached, nil, false},
		"detach at-most-once":                {topology.Quorum, nil, &atMostOnce, nil, false},
		"detach a classic queue":             {topology.Classic, nil, &attached, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			in, wanted := topology.New(), topology.New()
			in.SetQueue(topology.Queue{Name: "orders", Type: test.kind, Durable: true})
			if test.before != nil {
				in.SetPolicy(foreign("theirs", "^orders$", 1, test.before...))
			}
			for chain, t := range map[*retry.Chain]*topology.Topology{test.has: in, test.gets: wanted} {
				if chain != nil {
					p, _ := chain.Topology(retry.Features{}).Policy("orders.retry")
					t.SetPolicy(p)
				}
			}
			if got := attached.WeakensDeadLettering(in, wanted); got != test.want {
				t.Errorf("%t, expected %t", got, test.want)
			}
		})
	}
}

// TestExistingWorkQueueProblems: each reason why a chain cannot use an existing
// work queue, or why its owner should know.
func TestExistingWorkQueueProblems(t *testing.T) {
	change := func(q topology.Queue, f func(*topology.Queue)) topology.Queue {
		f(&q)
		return q
	}
	classic, quorum := queueOf("orders", topology.Classic), queueOf("orders", topology.Quorum, "x-delivery-limit", 50)
	onClassic, onQuorum := orders(attachedTo(""), ofClassicQueuesKeepWork), orders(attachedTo(""))
	for name, test := range map[string]struct {
		chain    retry.Chain
		queue    topology.Queue
		features retry.Features
		want     []string
	}{
		"own queue":            {orders(), queueOf("orders", topology.Stream), rabbit40, nil},
		"another queue":        {onQuorum, queueOf("other", topology.Stream), rabbit40, nil},
		"classic":              {onClassic, classic, rabbit40, nil},
		"quorum":               {onQuorum, quorum, rabbit40, nil},
		"stream":               {onQuorum, queueOf("orders", topology.Stream), rabbit40, []string{`error work_queue.name Queue Type Not Supported|"orders" is a stream queue`}},
		"exclusive":            {onClassic, change(classic, func(q *topology.Queue) { q.Exclusive = true }), rabbit40, []string{"error work_queue.name Exclusive Queue"}},
		"auto-delete":          {onClassic, change(classic, func(q *topology.Queue) { q.AutoDelete = true }), rabbit40, []string{"warning work_queue.name Queue Deletes Itself"}},
		"not durable":          {onClassic, change(classic, func(q *topology.Queue) { q.Durable = false }), rabbit40, []string{"warning work_queue.name|durable"}},
		"dead-letter exchange": {onClassic, queueOf("orders", topology.Classic, "x-dead-letter-exchange", "old"), rabbit40, []string{"error work_queue.name Argument Overrides the Chain|x-dead-letter-exchange=old|move all its messages|Do not change it in another Terraform provider while it holds messages"}},
		"the chain's own":      {onClassic, queueOf("orders", topology.Classic, "x-dead-letter-exchange", "orders.retry"), rabbit40, nil},
		"shorter delayed retries": {
			orders(delaying, attachedTo(topology.Quorum)), queueOf("orders", topology.Quorum, "x-delayed-retry-type", "all", "x-delayed-retry-min", 500, "x-delayed-retry-max", 9000), rabbit40,
			[]string{`error work_queue.name Argument Overrides the Chain|x-delayed-retry-min=500, which|the shorter time counts|["1s", "2s", "3s"]`},
		},
		"longer delayed retries": {
			orders(delaying, attachedTo(topology.Quorum)), queueOf("orders", topology.Quorum, "x-delayed-retry-type", "failed", "x-delayed-retry-min", 5000, "x-delayed-retry-max", 9000), rabbit40, nil,
		},
		"dead-letter routing key": {
			onClassic, queueOf("orders", topology.Classic, "x-dead-letter-exchange", "orders.retry", "x-dead-letter-routing-key", "k"), rabbit40, []string{"error work_queue.name Argument Overrides the Chain|x-dead-letter-routing-key=k"},
		},
		"at-most-once": {
			onQuorum, queueOf("orders", topology.Quorum, "x-dead-letter-strategy", "at-most-once", "x-delivery-limit", 50), rabbit40, []string{"error work_queue.name|the chain asks for at-least-once"},
		},
		"at-most-once as wanted": {
			orders(attachedTo(""), ofClassicQueuesKeepWork), queueOf("orders", topology.Quorum, "x-dead-letter-strategy", "at-most-once", "x-delivery-limit", 50), rabbit40, nil,
		},
		"at-least-once": {onQuorum, queueOf("orders", topology.Quorum, "x-dead-letter-strategy", "at-least-once", "x-delivery-limit", 50), rabbit40, nil},
		"reject-publish on classic": {
			onClassic, queueOf("orders", topology.Classic, "x-overflow", "reject-publish-dlx"), rabbit40, []string{"error work_queue.name|x-overflow=reject-publish-dlx|they are lost"},
		},
		"drop-head on quorum": {onQuorum, queueOf("orders", topology.Quorum, "x-overflow", "drop-head", "x-delivery-limit", 50), rabbit40, nil}, // there the policy wins
		"length on quorum": {
			onQuorum, queueOf("orders", topology.Quorum, "x-max-length", 5, "x-delivery-limit", 50), rabbit40, []string{"warning work_queue|x-max-length=5|reject-publish"},
		},
		"length on classic":      {onClassic, queueOf("orders", topology.Classic, "x-max-length", 5), rabbit40, nil},
		"classic, at least once": {onQuorum, classic, rabbit40, []string{"warning dead_letter_strategy Work Queue Dead-Letters at Most Once"}},
		"default delivery limit": {onQuorum, queueOf("orders", topology.Quorum), rabbit40, nil},
		"low delivery limit": {
			onQuorum, queueOf("orders", topology.Quorum, "x-delivery-limit", 2), rabbit40, []string{"warning delays Delivery Limit Ends the Retries Early|delivery limit of 2|all of its 3 attempts"},
		},
		"many delays": {
			orders(attachedTo(""), func(c *retry.Chain) { c.Delays = make([]time.Duration, 20) }), queueOf("orders", topology.Quorum), rabbit40,
			[]string{"warning delays Delivery Limit Ends the Retries Early|delivery limit of 20"},
		},
		"no delivery limit": {onQuorum, queueOf("orders", topology.Quorum, "x-delivery-limit", -1), rabbit40, nil},
		"other deaths before 3.13": {
			orders(attachedTo(""), byRoutingKey), queueOf("orders", topology.Quorum, "x-message-ttl", 5, "x-delivery-limit", 6), rabbit310,
			[]string{"error work_queue.name Queue Would Lose Messages|x-message-ttl=5", "error work_queue.name Queue Would Lose Messages|x-delivery-limit=6"},
		},
		"lengths before 3.13": {
			orders(attachedTo(""), byRoutingKey, ofClassicQueuesKeepWork), queueOf("orders", topology.Classic, "x-max-length", 5, "x-max-length-bytes", 5), rabbit310,
			[]string{"Queue Would Lose Messages|x-max-length=5", "Queue Would Lose Messages|x-max-length-bytes=5"},
		},
		"other deaths from 3.13 on": {
			orders(attachedTo(""), byRoutingKey), queueOf("orders", topology.Quorum, "x-message-ttl", 5, "x-delivery-limit", 50), rabbit40, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := holding(test.queue)
			expectProblems(t, test.chain.Within(in).ExistingProblems(in, test.features), test.want...)
		})
	}
}

func TestExistingParkingQueueProblems(t *testing.T) {
	deleting := queueOf("shared", topology.Classic)
	deleting.AutoDelete = true
	exclusive := queueOf("shared", topology.Classic)
	exclusive.Exclusive = true
	transient := queueOf("shared", topology.Classic)
	transient.Durable = false
	for name, test := range map[string]struct {
		queue    topology.Queue
		features retry.Features
		want     []string
	}{
		"missing":       {queueOf("other", topology.Classic), rabbit40, nil},
		"classic":       {queueOf("shared", topology.Classic), rabbit40, nil},
		"stream":        {queueOf("shared", topology.Stream), rabbit40, []string{"error parking_queue.name|stream"}},
		"length":        {queueOf("shared", topology.Classic, "x-max-length", 5), rabbit40, []string{"error parking_queue.name Parking Queue Would Lose Messages|x-max-length=5"}},
		"bytes":         {queueOf("shared", topology.Classic, "x-max-length-bytes", 5), rabbit40, []string{"error parking_queue.name|x-max-length-bytes=5"}},
		"expires":       {queueOf("shared", topology.Classic, "x-expires", 5), rabbit40, []string{"error parking_queue.name|x-expires=5"}},
		"time-to-live":  {queueOf("shared", topology.Classic, "x-message-ttl", 60000), rabbit40, []string{"warning parking_queue.name Parked Messages Are Deleted|after 1m"}},
		"auto-delete":   {deleting, rabbit40, []string{"error parking_queue.name|neither exclusive nor auto-delete"}},
		"exclusive":     {exclusive, rabbit40, []string{"error parking_queue.name|neither exclusive nor auto-delete"}},
		"not durable":   {transient, rabbit40, []string{"error parking_queue.name|durable"}},
		"quorum, 3.10":  {queueOf("shared", topology.Quorum), rabbit310, nil},
		"quorum, 4.0":   {queueOf("shared", topology.Quorum), rabbit40, []string{"warning parking_queue.name Looking at Parked Messages Deletes Them|RabbitMQ's default of 20|more than 20 times"}},
		"no limit, 4.0": {queueOf("shared", topology.Quorum, "x-delivery-limit", -1), rabbit40, nil},
		"limit":         {queueOf("shared", topology.Quorum, "x-delivery-limit", 3), rabbit40, []string{"warning parking_queue.name|has a delivery limit of 3|more than 3 times"}},
		"limit, 3.10":   {queueOf("shared", topology.Quorum, "x-delivery-limit", 3), rabbit310, []string{"warning parking_queue.name|has a delivery limit of 3"}},
		"-1 on 3.10":    {queueOf("shared", topology.Quorum, "x-delivery-limit", -1), rabbit310, []string{"parking_queue.name"}}, // discards at the first return
	} {
		t.Run(name, func(t *testing.T) {
			expectProblems(t, orders(sharingParking).ExistingProblems(holding(test.queue), test.features), test.want...)
		})
	}
}

// TestReadOfAttachedChains reads chains back that are attached to queues of
// others.
func TestReadOfAttachedChains(t *testing.T) {
	expires := foreign("limits", work, 5, "expires", 5000, "dead-letter-exchange", "old")
	for name, test := range map[string]struct {
		chain retry.Chain
		in    []any
	}{
		"quorum":             {orders(attachedTo("")), []any{queueOf("orders", topology.Quorum)}},
		"classic":            {orders(attachedTo(""), ofClassicQueuesKeepWork), []any{queueOf("orders", topology.Classic)}},
		"other type":         {orders(attachedTo("")), []any{queueOf("orders", topology.Classic)}},
		"priority":           {orders(attachedTo(""), func(c *retry.Chain) { c.Policy.Priority = 7 }), []any{queueOf("orders", topology.Quorum)}},
		"displaces":          {orders(attachedTo("")), []any{queueOf("orders", topology.Quorum), expires}},
		"inherits":           {orders(attachedTo(""), inheriting), []any{queueOf("orders", topology.Quorum), expires}},
		"with a shield":      {orders(attachedTo(""), shielded), []any{queueOf("orders", topology.Quorum)}},
		"strategy by keys":   {orders(attachedTo(""), byRoutingKey), []any{queueOf("orders", topology.Quorum)}},
		"without delays":     {orders(attachedTo(""), func(c *retry.Chain) { c.Delays = nil }), []any{queueOf("orders", topology.Quorum)}},
		"queue's own limits": {orders(attachedTo("")), []any{queueOf("orders", topology.Quorum, "x-max-length", 5, "x-delivery-limit", 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			in := holding(test.in...)
			c := test.chain.Within(in)
			in.Add(c.Topology(rabbit40))
			read, features, err := retry.Read("orders", in, abilities.MustParse("4.3.6"))
			if err != nil {
				t.Fatal(err)
			}
			read = read.Within(in)
			compare(t, text(read.Topology(features))+policies(read.Topology(features)), text(c.Topology(rabbit40))+policies(c.Topology(rabbit40)))
			if read.Work.Existing != true || read.Work.Name != "orders" || read.Policy.Inherit != c.Policy.Inherit || read.Policy.Priority != c.Policy.Priority || read.Policy.Shield != c.Policy.Shield {
				t.Errorf("read %+v, %+v", read.Work, read.Policy)
			}
			if problems := read.Problems(); len(problems) > 0 {
				t.Error(problemsText(problems))
			}
			actual := c.Actual(in, rabbit40)
			if _, taken := actual.Queue("orders"); taken {
				t.Error("the chain counts the queue of others among its own")
			}
		})
	}
}

func policies(t *topology.Topology) string {
	var b strings.Builder
	for _, p := range t.Policies() {
		b.WriteString("policy " + p.Name + " = " + p.Line() + "\n")
	}
	return b.String()
}

// TestOtherChainOfEveryStrategy: a queue that a chain is attached to cannot get
// another one, and its chain is named where its objects are in the way.
func TestOtherChainOfEveryStrategy(t *testing.T) {
	for strategy, tier := range map[retry.Strategy]string{
		retry.Headers: "bills.retry.1s", retry.RoutingKey: "bills.attempt.1s", retry.Republish: "bills.wait.1s", retry.DelayedRetry: "",
	} {
		t.Run(string(strategy), func(t *testing.T) {
			other := orders(delaying, attachedTo(topology.Quorum))
			other.Name, other.Strategy, other.Parking.Name, other.Policy.Priority = "bills", strategy, "bills.parking", 7
			if strategy == retry.Republish {
				other.CountHeader = "count"
			}
			in := other.Topology(rabbit40)
			in.SetQueue(queueOf("orders", topology.Quorum))
			for _, name := range append([]string{"bills.parking"}, tier) {
				if owner := retry.OwnerOf(topology.KindQueue, name, in); name != "" && owner != "bills" {
					t.Errorf("%s belongs to %q", name, owner)
				}
			}
			c := orders(attachedTo(topology.Quorum))
			c.Policy.Priority = 8
			expectProblems(t, c.Within(in).PolicyProblems(in, rabbit40), `error work_queue.name Queue Has Another Chain|work queue of the retry chain "bills", whose policy "bills.retry"`)
		})
	}
}

// What an import finds of a create that was broken off at its first object.
func TestReadFirstObject(t *testing.T) {
	always := abilities.MustParse("4.3.6")
	in := topology.New()
	in.SetPolicy(topology.Policy{Name: "orders.shield", Pattern: "^orders$", ApplyTo: topology.ApplyToQueues, Priority: 7})
	if c, _, err := retry.Read("orders", in, always); err != nil || !c.Policy.Shield || c.Policy.Priority != 7 {
		t.Errorf("%+v, %v", c.Policy, err)
	}
	tiers := retry.NewShared("retries")
	tiers.Delays, tiers.QueueType = []time.Duration{time.Minute, time.Hour}, topology.Quorum
	for _, e := range tiers.Topology(rabbit40).Exchanges() {
		in := topology.New()
		in.SetExchange(e)
		if _, _, err := retry.ReadShared("retries", in, always); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	for _, name := range []string{"retries.retry.first", "retries.parking", "retries.return.1h"} {
		in := topology.New()
		in.SetExchange(topology.Exchange{Name: name, Type: topology.Headers, Durable: true})
		in.SetExchange(topology.Exchange{Name: "retries.redrive", Type: topology.Fanout, Durable: true})
		if _, _, err := retry.ReadShared("retries", in, always); !errors.Is(err, retry.ErrNoChain) {
			t.Errorf("%s of a retry chain: %v", name, err)
		}
	}
}
