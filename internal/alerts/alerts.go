// Package alerts renders Prometheus alerting rules for retry chains. It is
// pure: it knows neither Terraform nor a broker.
//
// The rules use what the plugin rabbitmq_prometheus exports for each queue. Seen
// on RabbitMQ 3.10.8, 4.0.5 and 4.3.6: queue_messages, queue_messages_ready and
// queue_messages_unacked for classic and quorum queues;
// queue_head_message_timestamp for classic queues only, and only while the
// oldest message has the property timestamp. No metric counts what leaves a
// queue by expiring.
package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Chain is what the rules depend on of a retry chain.
type Chain struct {
	Name, VHost string
	// Parking and Work are names of queues.
	Parking, Work string
	// Timestamps says whether the parking queue can be a classic queue, which
	// exports the timestamp of its oldest message.
	Timestamps bool
	// HoldsBack says whether the work queue itself keeps failed messages for a
	// while. RabbitMQ 4.3.6 counts them neither as ready nor as unacknowledged,
	// as it does with dead letters.
	HoldsBack bool
	// AtLeastOnce says whether dead letters wait for a confirm.
	AtLeastOnce bool
	Tiers       []Tier
}

// Tier is a queue in which messages wait.
type Tier struct {
	Queue string
	Delay time.Duration
}

// Options are what rules can be adjusted by.
type Options struct {
	// Prefix is what the names of the metrics begin with.
	Prefix string
	// Matchers are further label matchers in PromQL, such as job="rabbitmq".
	Matchers string
	// Severity is the label severity of every rule.
	Severity string
	// Growing is how long parking must grow, Blocked how long dead letters
	// must wait, Slack how long after its delay a tier may keep messages, and
	// Age how old a parked message may become.
	Growing, Blocked, Slack, Age time.Duration
	// Window is what changes are looked for in: at least two scrape intervals.
	Window time.Duration
}

// The beginnings of metric names at the two endpoints with metrics per queue.
const (
	Detailed  = "rabbitmq_detailed_" // /metrics/detailed
	PerObject = "rabbitmq_"          // /metrics/per-object
)

// Defaults are the options unless others are given.
func Defaults() Options {
	return Options{
		Prefix: Detailed, Severity: "warning",
		Growing: 15 * time.Minute, Blocked: 5 * time.Minute, Slack: 5 * time.Minute, Age: 24 * time.Hour, Window: 5 * time.Minute,
	}
}

// Names of the alerts.
const (
	ParkingNotEmpty     = "RabbitMQParkingNotEmpty"
	ParkingGrowing      = "RabbitMQParkingGrowing"
	ParkingNotEmptied   = "RabbitMQParkingNotEmptied"
	ParkingMessageOld   = "RabbitMQParkingMessageOld"
	RetryTierStuck      = "RabbitMQRetryTierStuck"
	DeadLettersBlocked  = "RabbitMQDeadLettersBlocked"
	rulesGroup          = "rabbitmq-retry-chains"
	messages            = "queue_messages"
	ready               = "queue_messages_ready"
	unacked             = "queue_messages_unacked"
	headTimestamp       = "queue_head_message_timestamp"
	acrossNodes         = "max without (instance) "
	queueOfAlert        = "queue {{ $labels.queue }} in virtual host {{ $labels.vhost }}"
	waitingDeadLetters  = "{{ $value }} dead letters of " + queueOfAlert
	messagesInThisQueue = "{{ $value }} messages in " + queueOfAlert
)

// rule is one alerting rule.
type rule struct {
	alert, expr string
	// vhost and queue are labels of the metrics as well. As labels of the rule
	// they tell rules with the same alert apart.
	vhost, queue string
	hold         time.Duration
	summary      string
	description  string
}

// Render returns a rule file in YAML. The rules are in the order of virtual
// hosts and queues, so that the order of chains does not matter; a parking queue
// that chains share has its rules once.
func Render(chains []Chain, o Options) string {
	var text strings.Builder
	text.WriteString("groups:\n  - name: " + rulesGroup + "\n")
	rules := o.rules(chains)
	if len(rules) == 0 {
		text.WriteString("    rules: []\n")
		return text.String()
	}
	text.WriteString("    rules:\n")
	for _, r := range rules {
		r.write(&text, o.Severity)
	}
	return text.String()
}

func (o Options) rules(chains []Chain) []rule {
	chains = slices.Clone(chains)
	slices.SortFunc(chains, func(a, b Chain) int {
		return cmp.Or(cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Parking, b.Parking), cmp.Compare(a.Name, b.Name))
	})
	var rules []rule
	for i := 0; i < len(chains); {
		end := i + 1
		for end < len(chains) && chains[end].VHost == chains[i].VHost && chains[end].Parking == chains[i].Parking {
			end++
		}
		rules = append(rules, o.parking(chains[i:end])...)
		for _, c := range chains[i:end] {
			rules = append(rules, o.waiting(c)...)
		}
		i = end
	}
	return rules
}

// parking are the rules of one parking queue, which several chains may share.
func (o Options) parking(chains []Chain) []rule {
	c := chains[0]
	names := make([]string, len(chains))
	timestamps := false
	for i := range chains {
		names[i] = chains[i].Name
		timestamps = timestamps || chains[i].Timestamps
	}
	of := "retry chain " + plain(strings.Join(names, ", "))
	count := o.metric(messages, c.VHost, c.Parking)
	rules := []rule{
		{
			alert: ParkingNotEmpty, expr: acrossNodes + "(" + count + ") > 0",
			summary: "Messages of " + of + " are parked",
			description: messagesInThisQueue + " used up their attempts, or died of something that is not retried. Look at them, and " +
				"redrive or discard them.",
		},
		{
			alert: ParkingGrowing, expr: acrossNodes + "(delta(" + count + "[" + promDuration(o.Window) + "])) > 0", hold: o.Growing,
			summary: "More and more messages of " + of + " are parked",
			description: "The number of messages in " + queueOfAlert + " has been growing for " +
				promDuration(o.Growing) + ": something fails all the time.",
		},
		{
			alert: ParkingNotEmptied, expr: acrossNodes + "(" + count + ") > 0", hold: o.Age,
			summary:     "Parked messages of " + of + " are forgotten",
			description: messagesInThisQueue + "; it has not been empty for " + promDuration(o.Age) + ".",
		},
	}
	if timestamps {
		head := o.metric(headTimestamp, c.VHost, c.Parking)
		rules = append(rules, rule{
			alert: ParkingMessageOld, expr: fmt.Sprintf("%s(time() - (%s > 0)) > %s", acrossNodes, head, seconds(o.Age)),
			summary:     "The oldest parked message of " + of + " is old",
			description: "The oldest message in " + queueOfAlert + " was published {{ $value | humanizeDuration }} ago.",
		})
	}
	for i := range rules {
		rules[i].vhost, rules[i].queue = c.VHost, c.Parking
	}
	return rules
}

// waiting are the rules of a chain's other queues.
func (o Options) waiting(c Chain) []rule {
	var rules []rule
	of := "retry chain " + plain(c.Name)
	for _, tier := range c.Tiers {
		count := o.metric(messages, c.VHost, tier.Queue)
		rules = append(rules, rule{
			alert: RetryTierStuck, vhost: c.VHost, queue: tier.Queue,
			expr:    fmt.Sprintf("%s(%s > 0 unless resets(%s[%s]) > 0)", acrossNodes, count, count, promDuration(o.Window)),
			hold:    tier.Delay + o.Slack,
			summary: "Messages of " + of + " do not come back",
			description: messagesInThisQueue + ", which keeps a message for " + promDuration(tier.Delay) + ", and at no scrape for " +
				promDuration(tier.Delay+o.Slack) + " were they fewer than at the scrape before.",
		})
		if c.AtLeastOnce {
			rules = append(rules, o.blocked(c, tier.Queue))
		}
	}
	if c.AtLeastOnce && !c.HoldsBack {
		rules = append(rules, o.blocked(c, c.Work))
	}
	return rules
}

// blocked looks for dead letters that stay: while many messages fail, there are
// always some on their way, but from scrape to scrape sometimes fewer.
func (o Options) blocked(c Chain, queue string) rule {
	pending := fmt.Sprintf("(%s - %s - %s)",
		o.metric(messages, c.VHost, queue), o.metric(ready, c.VHost, queue), o.metric(unacked, c.VHost, queue))
	return rule{
		alert:   DeadLettersBlocked,
		vhost:   c.VHost,
		queue:   queue,
		expr:    fmt.Sprintf("%s(%s > 0 unless resets(%s[%s:]) > 0)", acrossNodes, pending, pending, promDuration(o.Window)),
		hold:    o.Blocked,
		summary: "Dead letters of retry chain " + plain(c.Name) + " find no way",
		description: waitingDeadLetters + " have been waiting for " + promDuration(o.Blocked) +
			" until their target takes them. Is it full, or does nothing route to it?",
	}
}

// metric selects the series of one queue.
func (o Options) metric(name, vhost, queue string) string {
	selector := "vhost=" + strconv.Quote(vhost) + ", queue=" + strconv.Quote(queue)
	if o.Matchers != "" {
		selector += ", " + o.Matchers
	}
	return o.Prefix + name + "{" + selector + "}"
}

func (r rule) write(text *strings.Builder, severity string) {
	fmt.Fprintf(text, "      - alert: %s\n        expr: %s\n", r.alert, scalar(r.expr))
	if r.hold > 0 {
		fmt.Fprintf(text, "        for: %s\n", promDuration(r.hold))
	}
	fmt.Fprintf(text, "        labels:\n          severity: %s\n          vhost: %s\n          queue: %s\n",
		scalar(severity), scalar(plain(r.vhost)), scalar(plain(r.queue)))
	fmt.Fprintf(text, "        annotations:\n          summary: %s\n          description: %s\n", scalar(r.summary), scalar(r.description))
}
