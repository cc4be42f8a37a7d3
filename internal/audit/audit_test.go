package audit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// versions are releases between which rules differ.
var versions = []string{"3.10.8", "3.12.14", "3.13.7", "4.0.5", "4.2.9", "4.3.6"}

func on(t *testing.T, version string, deprecated ...string) audit.Broker {
	t.Helper()
	v, err := abilities.Parse(version)
	if err != nil {
		t.Fatal(err)
	}
	return audit.Broker{Version: v, Deprecated: deprecated}
}

func run(t *testing.T, in *topology.Topology, b audit.Broker) []audit.Finding {
	t.Helper()
	findings, err := audit.Run(t.Context(), in.Clone(), b)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

type args = topology.Arguments

func queue(name string, kind topology.QueueType, arguments args) topology.Queue {
	return topology.Queue{Name: name, Type: kind, Durable: true, Arguments: arguments}
}

// has says whether there is a finding of the rule and severity on the object.
func has(findings []audit.Finding, rule string, severity audit.Severity, object string) bool {
	return slices.ContainsFunc(findings, func(f audit.Finding) bool {
		return f.Rule == rule && f.Severity == severity && f.Object.Kind+" "+f.Object.Name == object
	})
}

// TestRulesWithoutBroker tests what the brokers of the acceptance tests do not
// have, and what depends on versions.
func TestRulesWithoutBroker(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		build          func(in *topology.Topology)
		deprecated     []string
		rule           string
		severity       audit.Severity
		object         string
		found, without string // versions
	}{
		"delayed-message exchange": {
			build: func(in *topology.Topology) {
				in.SetExchange(topology.Exchange{Name: "later", Type: "x-delayed-message"})
			},
			rule:     "delayed_message_exchange",
			severity: audit.Warning, object: "exchange later", found: "4.2.9",
		},
		"mirroring": {
			build: func(in *topology.Topology) {
				in.SetPolicy(topology.Policy{Name: "ha", Pattern: ".*", ApplyTo: "queues", Definition: args{"ha-mode": "all"}})
			},
			rule: "deprecated_feature", severity: audit.Warning, object: "policy ha", found: "3.13.7",
		},
		"lazy queue": {
			build: func(in *topology.Topology) {
				in.SetQueue(queue("work", topology.Classic, args{"x-queue-mode": "lazy"}))
			},
			rule: "deprecated_feature", severity: audit.Info, object: "queue work", found: "3.12.14", without: "3.10.8",
		},
		"what the broker says": {
			build: func(*topology.Topology) {}, deprecated: []string{"global_qos"},
			rule: "deprecated_feature", severity: audit.Info, object: "broker global_qos", found: "4.0.5",
		},
		"a feature that another virtual host uses": {
			build: func(*topology.Topology) {}, deprecated: []string{"transient_nonexcl_queues", "queue_master_locator", "classic_queue_mirroring"},
			rule: "deprecated_feature", severity: audit.Info, object: "broker transient_nonexcl_queues", without: "4.0.5",
		},
		"a feature that this virtual host uses": {
			build: func(in *topology.Topology) {
				in.SetQueue(topology.Queue{Name: "work", Type: topology.Classic})
			},
			deprecated: []string{"transient_nonexcl_queues"},
			rule:       "deprecated_feature", severity: audit.Info, object: "broker transient_nonexcl_queues", found: "4.0.5",
		},
		"stream with a maximum age": {
			build: func(in *topology.Topology) {
				in.SetQueue(queue("parking", topology.Stream, args{"x-max-age": "1D"}))
				in.SetQueue(queue("work", topology.Classic, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"}))
			},
			rule: "stream_deletes_dead_letters", severity: audit.Warning, object: "queue parking", found: "4.0.5",
		},
		"stream of events": {
			build: func(in *topology.Topology) { in.SetQueue(queue("events", topology.Stream, args{"x-max-age": "1D"})) },
			rule:  "stream_deletes_dead_letters", severity: audit.Warning, object: "queue events", without: "4.0.5",
		},
		"exchanges of RabbitMQ and of plugins without bindings": {
			build: func(in *topology.Topology) {
				in.SetExchange(topology.Exchange{Name: "amq.topic", Type: topology.Topic})
				in.SetExchange(topology.Exchange{Name: "plugin", Type: "x-recent-history"})
			},
			rule: "exchange_without_binding", severity: audit.Warning, object: "exchange amq.topic", without: "4.0.5",
		},
		"exclusive queues may be transient": {
			build: func(in *topology.Topology) {
				in.SetQueue(topology.Queue{Name: "reply", Type: topology.Classic, Exclusive: true})
			},
			rule: "deprecated_feature", severity: audit.Warning, object: "queue reply", without: "4.0.5",
		},
		"expiry in a queue that passes": {
			build: func(in *topology.Topology) {
				in.SetQueue(topology.Queue{Name: "reply", Type: topology.Classic, Exclusive: true, Arguments: args{"x-message-ttl": int64(1)}})
			},
			rule: "expiry_without_dlx", severity: audit.Info, object: "queue reply", found: "4.0.5",
		},
		"delayed retry on a classic queue": {
			build: func(in *topology.Topology) {
				in.SetQueue(queue("work", topology.Classic, args{"x-delayed-retry-type": "all"}))
			},
			rule: "delayed_retry_ignored", severity: audit.Warning, object: "queue work", found: "4.3.6",
		},
		"delayed retry on a quorum queue": {
			build: func(in *topology.Topology) {
				in.SetQueue(queue("work", topology.Quorum, args{"x-delayed-retry-type": "all"}))
			},
			rule: "delayed_retry_ignored", severity: audit.Warning, object: "queue work", found: "4.2.9", without: "4.3.6",
		},
		"default delivery limit in a cycle": {
			build: func(in *topology.Topology) {
				in.SetQueue(queue("work", topology.Quorum, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}))
				in.SetQueue(queue("wait", topology.Quorum, args{
					"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": int64(1000),
				}))
			},
			rule: "dead_letter_cycle", severity: audit.Error, object: "queue work", found: "4.0.5", without: "3.13.7",
		},
		"several queues are named": {
			build: func(in *topology.Topology) {
				for i := range 5 {
					in.SetQueue(queue(fmt.Sprintf("q%d", i), topology.Classic, nil))
				}
				in.SetPolicy(topology.Policy{
					Name: "mixed", Pattern: "^q", ApplyTo: "all", Definition: args{"delivery-limit": int64(5), "message-ttl": int64(1000)},
				})
			},
			rule: "ignored_policy", severity: audit.Warning, object: "policy mixed", found: "4.0.5",
		},
		"a policy of mirroring alone is not missed on quorum queues": {
			build: func(in *topology.Topology) {
				in.SetQueue(queue("work", topology.Quorum, nil))
				in.SetPolicy(topology.Policy{Name: "ha", Pattern: ".*", ApplyTo: "queues", Definition: args{"ha-mode": "all"}})
			},
			rule: "ignored_policy", severity: audit.Warning, object: "policy ha", without: "3.13.7",
		},
		"headers that nobody knows": {
			build: func(in *topology.Topology) {
				in.SetExchange(topology.Exchange{Name: "dead", Type: topology.Headers})
				in.SetQueue(queue("work", topology.Classic, args{"x-dead-letter-exchange": "dead"}))
				in.SetQueue(queue("parking", topology.Classic, nil))
				in.Bind(topology.Binding{Source: "dead", Destination: "parking", DestinationKind: topology.KindQueue, Arguments: args{"type": "order"}})
			},
			rule: "dead_letter_no_route", severity: audit.Error, object: "queue work", without: "4.0.5",
		},
		"an exchange of a plugin": {
			build: func(in *topology.Topology) {
				in.SetExchange(topology.Exchange{Name: "dead", Type: "x-consistent-hash"})
				in.SetQueue(queue("work", topology.Classic, args{"x-dead-letter-exchange": "dead"}))
			},
			rule: "dead_letter_no_route", severity: audit.Error, object: "queue work", without: "4.0.5",
		},
		"an alternate exchange is a way out": {
			build: func(in *topology.Topology) {
				in.SetExchange(topology.Exchange{Name: "dead", Type: topology.Direct})
				in.SetExchange(topology.Exchange{Name: "rest", Type: topology.Fanout})
				in.SetPolicy(topology.Policy{Name: "rest", Pattern: "^dead$", ApplyTo: "exchanges", Definition: args{"alternate-exchange": "rest"}})
				in.SetQueue(queue("work", topology.Classic, args{"x-dead-letter-exchange": "dead"}))
				in.SetQueue(queue("parking", topology.Classic, nil))
				in.Bind(topology.Binding{Source: "rest", Destination: "parking", DestinationKind: topology.KindQueue})
			},
			rule: "dead_letter_no_route", severity: audit.Error, object: "queue work", without: "4.0.5",
		},
	} {
		in := topology.New()
		test.build(in)
		if test.found != "" && !has(run(t, in, on(t, test.found, test.deprecated...)), test.rule, test.severity, test.object) {
			t.Errorf("%s: not found on %s: %v", name, test.found, run(t, in, on(t, test.found)))
		}
		if test.without != "" && has(run(t, in, on(t, test.without, test.deprecated...)), test.rule, test.severity, test.object) {
			t.Errorf("%s: found on %s: %v", name, test.without, run(t, in, on(t, test.without, test.deprecated...)))
		}
	}
}

// TestMisspeltArguments: the nearest argument is proposed, and a word that is
// none is not taken for one.
func TestMisspeltArguments(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"x-dead-leter-exchange": "x-dead-letter-exchange", "x-dead-letter-routingkey": "x-dead-letter-routing-key", "message-ttl": "x-message-ttl",
		"x_message_ttl": "x-message-ttl", "X-Max-Length": "x-max-length", "x-delivery-limt": "x-delivery-limit", "x-expire": "x-expires",
		"x-owner": "", "x-team": "", "x-my-own-setting": "",
	} {
		in := topology.New()
		in.SetQueue(queue("work", topology.Classic, args{word: "any"}))
		findings := slices.DeleteFunc(run(t, in, on(t, "4.0.5")), func(f audit.Finding) bool { return f.Rule != "unknown_argument" })
		if len(findings) != 1 {
			t.Errorf("%s: %v", word, findings)
			continue
		}
		severity := audit.Warning
		if want == "" {
			severity = audit.Info
		}
		if !strings.Contains(findings[0].Fix, fmt.Sprintf("%q", want)) != (want == "") || findings[0].Severity != severity {
			t.Errorf("%s: %v, expected %q", word, findings[0], want)
		}
	}
}

// chains are chains of every strategy, queue type and number of delays.
func chains() []retry.Chain {
	var all []retry.Chain
	for _, strategy := range []retry.Strategy{retry.Headers, retry.RoutingKey, retry.Republish, retry.DelayedRetry} {
		for _, queueType := range []topology.QueueType{topology.Classic, topology.Quorum} {
			for _, n := range []int{0, 1, 3, 50} {
				c := retry.Chain{
					Name: fmt.Sprintf("%s.%s.%d", strategy, queueType, n), Strategy: strategy, QueueType: queueType,
					DeadLetterStrategy: retry.AtMostOnce, CountHeader: retry.DefaultCountHeader,
				}
				for i := range n {
					c.Delays = append(c.Delays, time.Duration(i+1)*time.Second)
				}
				c.Work.Name, c.Parking.Name = c.Name, c.Name+".parking"
				if queueType == topology.Quorum {
					c.DeadLetterStrategy = retry.AtLeastOnce
					limit := int64(20)
					c.Work.DeliveryLimit = &limit
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// TestOwnTopologiesAreClean: chains and delay networks have no finding that is
// worse than a remark, on any version that they can be made for.
func TestOwnTopologiesAreClean(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		b := on(t, version)
		features := retry.FeaturesOf(b.Version)
		in, made := topology.New(), 0
		for _, c := range chains() {
			if !features.LastDeathHeaders && c.Strategy == retry.RoutingKey {
				c.Work.DeliveryLimit = nil
			}
			if c.Strategy == retry.Headers && !features.LastDeathHeaders || c.Strategy == retry.DelayedRetry && (!features.DelayedRetry || c.QueueType != topology.Quorum) {
				continue
			}
			if !features.UnlimitedDelivery {
				c.Work.DeliveryLimit = nil
			}
			in.Add(c.Topology(features))
			made++
		}
		for _, queueType := range []topology.QueueType{topology.Classic, topology.Quorum} {
			n := delay.Network{Name: "delays." + string(queueType), Unit: time.Second, Levels: 28, QueueType: queueType, DeadLetterStrategy: retry.AtMostOnce}
			if queueType == topology.Quorum {
				n.DeadLetterStrategy = retry.AtLeastOnce
			}
			in.Add(n.Topology(features))
		}
		if made < 16 {
			t.Errorf("%s: only %d chains", version, made)
		}
		for _, f := range run(t, in, b) {
			if f.Severity != audit.Info {
				t.Errorf("%s: %v", version, f)
			}
		}
	}
}

// many are n chains in one virtual host, five queues each.
func many(n int, b audit.Broker) *topology.Topology {
	in := topology.New()
	for i := range n {
		c := retry.Chain{
			Name: fmt.Sprintf("chain%d", i), Strategy: retry.Headers, QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce,
			Delays: []time.Duration{time.Second, time.Minute, time.Hour},
		}
		c.Work.Name, c.Parking.Name = c.Name, c.Name+".parking"
		limit := int64(20)
		c.Work.DeliveryLimit = &limit
		in.Add(c.Topology(retry.FeaturesOf(b.Version)))
	}
	return in
}

// TestShovels: a shovel without acknowledgements is found, and what is not known is
// said.
func TestShovels(t *testing.T) {
	t.Parallel()
	b := on(t, "4.0.5")
	b.Shovels = []audit.Shovel{{Name: "safe", AckMode: "on-confirm"}, {Name: "lossy", AckMode: "no-ack"}}
	found := run(t, topology.New(), b)
	if len(found) != 1 || !has(found, "shovel_without_acknowledgement", audit.Warning, "shovel lossy") {
		t.Errorf("%v", found)
	}
	b.Shovels, b.ShovelsUnknown = nil, "the user lacks the tag policymaker"
	found = run(t, topology.New(), b)
	if len(found) != 1 || !has(found, "shovel_without_acknowledgement", audit.Info, "broker shovels") || !strings.Contains(found[0].Message, b.ShovelsUnknown) {
		t.Errorf("%v", found)
	}
}

// TestDefaultDeliveryLimitIsOneFinding: it names the queues, and those with a limit of
// their own are not among them.
func TestDefaultDeliveryLimitIsOneFinding(t *testing.T) {
	t.Parallel()
	in := topology.New()
	for i := range 12 {
		in.SetQueue(queue(fmt.Sprintf("framework%02d", i), topology.Quorum, nil))
	}
	in.SetQueue(queue("own", topology.Quorum, args{"x-delivery-limit": int64(-1)}))
	found := slices.DeleteFunc(run(t, in, on(t, "4.0.5")), func(f audit.Finding) bool { return f.Rule != "default_delivery_limit" })
	if len(found) != 1 || len(found[0].Queues) != 12 || slices.Contains(found[0].Queues, "own") ||
		!strings.Contains(found[0].Message, `"framework00"`) || !strings.Contains(found[0].Message, "and 2 more") {
		t.Errorf("%v", found)
	}
}

// shapes are virtual hosts that grow with n.
var shapes = map[string]func(n int, b audit.Broker) *topology.Topology{
	"chains": many,
	"queues behind bindings between exchanges": func(n int, _ audit.Broker) *topology.Topology {
		in := topology.New()
		in.SetExchange(topology.Exchange{Name: "hub", Type: topology.Topic})
		in.SetExchange(topology.Exchange{Name: "dead", Type: topology.Fanout})
		in.SetQueue(queue("parking", topology.Classic, nil))
		in.Bind(topology.Binding{Source: "dead", Destination: "parking", DestinationKind: topology.KindQueue})
		for i := range n {
			source, name := fmt.Sprint("source", i), fmt.Sprint("queue", i)
			in.SetExchange(topology.Exchange{Name: source, Type: topology.Topic})
			in.SetQueue(queue(name, topology.Classic, args{"x-dead-letter-exchange": "dead"}))
			in.Bind(topology.Binding{Source: source, Destination: "hub", DestinationKind: topology.KindExchange, RoutingKey: "#"})
			in.Bind(topology.Binding{Source: "hub", Destination: name, DestinationKind: topology.KindQueue, RoutingKey: name})
		}
		return in
	},
	"one direct dead-letter exchange":  func(n int, _ audit.Broker) *topology.Topology { return oneExchange(n, topology.Direct) },
	"one topic dead-letter exchange":   func(n int, _ audit.Broker) *topology.Topology { return oneExchange(n, topology.Topic) },
	"one headers dead-letter exchange": func(n int, _ audit.Broker) *topology.Topology { return oneExchange(n, topology.Headers) },
	"policies": func(n int, _ audit.Broker) *topology.Topology {
		in := oneExchange(n, topology.Direct)
		for i := range 500 {
			in.SetPolicy(topology.Policy{Name: fmt.Sprint("p", i), Pattern: fmt.Sprintf("^queue%d[.]", i), ApplyTo: "queues", Definition: args{"max-length": int64(i)}})
		}
		return in
	},
}

// oneExchange has one dead-letter exchange of the type for n queues, each with a
// dead-letter queue of its own.
func oneExchange(n int, exchangeType string) *topology.Topology {
	in := topology.New()
	in.SetExchange(topology.Exchange{Name: "dead", Type: exchangeType})
	for i := range n {
		name := fmt.Sprint("queue", i)
		in.SetQueue(queue(name, topology.Classic, args{"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": name}))
		in.SetQueue(queue(name+".dead", topology.Classic, nil))
		in.Bind(topology.Binding{
			Source: "dead", Destination: name + ".dead", DestinationKind: topology.KindQueue, RoutingKey: name, Arguments: args{"kind": "order", "x-first-death-queue": name, "x-match": "all-with-x"},
		})
	}
	return in
}

// TestEffortIsLinear compares the effort for large virtual hosts with that for small
// ones. It counts allocations, which do not depend on the machine.
func TestEffortIsLinear(t *testing.T) {
	b := on(t, "4.0.5")
	for name, shape := range shapes {
		effort := func(n int) float64 {
			in := shape(n, b)
			return testing.AllocsPerRun(1, func() { run(t, in, b) })
		}
		few, lots := effort(40), effort(400)
		t.Logf("%s: 40: %.0f allocations, 400: %.0f", name, few, lots)
		if lots > 12*few {
			t.Errorf("%s: ten times the size takes %.1f times the effort", name, lots/few)
		}
	}
}

// TestEndsWithItsContext: an audit that nobody waits for ends.
func TestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := on(t, "4.0.5")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if findings, err := audit.Run(ctx, many(10, b), b); err == nil || err.Error() != "interrupted" {
		t.Errorf("%v, %v", findings, err)
	}
}

// BenchmarkAudit shows the cost per queue of virtual hosts of growing size, which
// must not grow with it.
func BenchmarkAudit(b *testing.B) {
	v, err := abilities.Parse("4.0.5")
	if err != nil {
		b.Fatal(err)
	}
	facts := audit.Broker{Version: v}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		for _, n := range []int{250, 500, 1000} {
			in := shapes[name](n, facts)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := audit.Run(b.Context(), in.Clone(), facts); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(in.Queues())), "ns/queue")
			})
		}
	}
}

// TestRulesAreComplete checks the texts of the rules and that their order is that
// of their IDs.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	rules := audit.Rules()
	if !slices.IsSortedFunc(rules, func(a, b audit.Rule) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the rules are not in the order of their IDs")
	}
	for _, rule := range rules {
		if rule.Title == "" || rule.Source == "" || len(rule.Severities) == 0 || strings.ContainsAny(rule.Title+rule.Source, "|\n") {
			t.Errorf("incomplete or not fit for a table: %+v", rule)
		}
	}
}
