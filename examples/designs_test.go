package examples_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// designsGuide holds the table of designs.
const designsGuide = templates + "/guides/choose-a-design.md.tmpl"

// design is one line of the table of costs.
type design struct {
	name string
	// set are the attributes, as HCL.
	set string
	// gives is how the consumer gives a message up.
	gives      string
	deliveries string
	counts     [3]int // exchanges, queues, bindings
	needs      string
}

// designs reads the table of costs.
func designs(t *testing.T) []design {
	t.Helper()
	_, rest, found := strings.Cut(read(t, designsGuide), "## What each costs")
	table, _, ends := strings.Cut(rest, "\n## ")
	if !found || !ends {
		t.Fatal("the guide has no section \"What each costs\"")
	}
	var all []design
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		if len(cells) != 8 {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.ReplaceAll(cells[i], "`", ""), " ")
		}
		d := design{name: cells[0], set: cells[1], gives: cells[2], deliveries: cells[3], needs: cells[7]}
		var err error
		for i := range d.counts {
			if d.counts[i], err = strconv.Atoi(cells[4+i]); err != nil {
				break
			}
		}
		if err == nil {
			all = append(all, d)
		}
	}
	if len(all) != 10 {
		t.Fatalf("the table has %d lines, expected 10", len(all))
	}
	return all
}

var (
	strategyText = regexp.MustCompile(`strategy = "([a-z_]+)"`)
	delaysText   = regexp.MustCompile(`delays = \[(.*?)\]`)
	limitText    = regexp.MustCompile(`delivery_limit = (-?[0-9]+)`)
)

func (d design) strategy() retry.Strategy {
	if match := strategyText.FindStringSubmatch(d.set); match != nil {
		return retry.Strategy(match[1])
	}
	return retry.Headers
}

func (d design) delays(t *testing.T) []time.Duration {
	t.Helper()
	match := delaysText.FindStringSubmatch(d.set)
	if match == nil {
		t.Fatalf("%s: no delays in %q", d.name, d.set)
	}
	var delays []time.Duration
	for text := range strings.SplitSeq(match[1], ",") {
		if text = strings.Trim(text, ` "`); text == "" {
			continue
		}
		one, err := retry.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		delays = append(delays, one)
	}
	return delays
}

// limit is the delivery limit, nil for the default.
func (d design) limit(t *testing.T) *int64 {
	t.Helper()
	match := limitText.FindStringSubmatch(d.set)
	if match == nil {
		return nil
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

// topology is what the design declares, without a broker.
func (d design) topology(t *testing.T) *topology.Topology {
	t.Helper()
	f := retry.FeaturesOf(abilities.MustParse("4.3.6"))
	if d.name == "delay network" {
		n := delay.Network{
			Name: "delays", Unit: delay.DefaultUnit, Levels: delay.DefaultLevels,
			QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce,
		}
		return n.Topology(f)
	}
	if d.name == sharedTiers {
		return d.sharedTopology(t, f)
	}
	c := retry.Chain{
		Name: "orders", Delays: d.delays(t), Strategy: d.strategy(), QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce,
		Work: retry.WorkQueue{Name: "orders", DeliveryLimit: d.limit(t)}, Parking: retry.ParkingQueue{Name: "orders.parking"},
	}
	if c.Strategy == retry.Republish {
		c.CountHeader = retry.DefaultCountHeader
	}
	for _, p := range c.Problems() {
		t.Errorf("%s: %s", d.name, p.Detail)
	}
	return c.Topology(f)
}

// sharedTiers is the name of the design with one set of tiers for many queues.
const sharedTiers = "shared tiers"

// sharedTopology is that of shared tiers with one queue attached.
func (d design) sharedTopology(t *testing.T, f retry.Features) *topology.Topology {
	t.Helper()
	c := retry.NewShared("orders")
	c.Delays, c.QueueType, c.DeadLetterStrategy = d.delays(t), topology.Quorum, retry.AtLeastOnce
	a := retry.Attachment{
		Tiers: c.Name, Work: retry.WorkQueue{Name: "orders"}, QueueType: c.QueueType, DeadLetterStrategy: c.DeadLetterStrategy,
	}
	for _, p := range append(c.SharedProblems(), a.Problems()...) {
		t.Errorf("%s: %s", d.name, p.Detail)
	}
	declared := c.Topology(f)
	declared.Add(a.Topology(f))
	return declared
}

// TestDesigns counts the objects that each design of the table declares.
func TestDesigns(t *testing.T) {
	for _, d := range designs(t) {
		declared := d.topology(t)
		if got := [3]int{len(declared.Exchanges()), len(declared.Queues()), len(declared.Bindings())}; got != d.counts {
			t.Errorf("%s: %v exchanges, queues and bindings, the table says %v", d.name, got, d.counts)
		}
	}
}

// runsOn says whether the broker has what the design needs.
func (d design) runsOn(t *testing.T, b *rabbit.Broker) bool {
	t.Helper()
	version, err := abilities.Parse(b.Version)
	if err != nil {
		t.Fatal(err)
	}
	return d.needs != "plugin" && version.AtLeast(d.needs)
}

// TestAccDesigns applies each design of the table on real brokers, counts the
// objects there, and lets a message fail until it is parked.
func TestAccDesigns(t *testing.T) {
	t.Parallel()
	for _, d := range designs(t) {
		if d.name == "delay network" || d.needs == "plugin" {
			continue // not a chain, or tested below
		}
		t.Run(d.name, func(t *testing.T) {
			runsOn := func(b *rabbit.Broker) bool { return d.runsOn(t, b) }
			acctest.EachWith(t, d.needs, runsOn, func(t *testing.T, b *rabbit.Broker) {
				vhost := acctest.VHost(t, b)
				d.measure(t, b, vhost, func() {
					if d.strategy() == retry.Republish {
						process.Start(t, process.Build(t, "./republisher"), process.Address(t, b, vhost, nil))
					}
				})
			})
		})
	}
}

// TestAccDesignsWithPlugin does the same with the design that needs a plugin.
func TestAccDesignsWithPlugin(t *testing.T) {
	acctest.EachDelayed(t, func(t *testing.T, b *rabbit.Broker) {
		for _, d := range designs(t) {
			if d.needs != "plugin" {
				continue
			}
			vhost := acctest.VHost(t, b)
			d.measure(t, b, vhost, func() {
				process.Start(t, process.Build(t, "./delayed_exchange"), process.Address(t, b, vhost, nil),
					"-delays", strings.Join(d.shortDelays(t), ","))
			})
		}
	})
}

// shortDelays are as many delays as the design has, which do not make a test wait.
func (d design) shortDelays(t *testing.T) []string {
	t.Helper()
	var short []string
	for i, one := range d.delays(t) {
		if one > 0 {
			one = time.Duration(i+1) * 100 * time.Millisecond
		}
		short = append(short, retry.FormatDuration(one))
	}
	return short
}

// measure applies the design, and compares what is on the broker and how often a
// message is delivered with the table.
func (d design) measure(t *testing.T, b *rabbit.Broker, vhost string, startProcess func()) {
	t.Helper()
	d.apply(t, b, vhost)
	if got := objects(t, b, vhost); got != d.counts {
		t.Errorf("%v exchanges, queues and bindings on the broker, the table says %v", got, d.counts)
	}
	startProcess()
	const many = 100
	got := strconv.Itoa(d.deliver(t, b, vhost, many))
	if got == strconv.Itoa(many) {
		got = "for ever"
	}
	if got != d.deliveries {
		t.Errorf("delivered %s, the table says %s", got, d.deliveries)
	}
}

// apply makes the design with short delays.
func (d design) apply(t *testing.T, b *rabbit.Broker, vhost string) {
	t.Helper()
	if d.name == sharedTiers {
		w := workspace(t, b, vhost, map[string]string{"main.tf": fmt.Sprintf(sharedConfig, strings.Join(d.shortDelays(t), `", "`))})
		acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
		return
	}
	delays := []any{}
	for _, text := range d.shortDelays(t) {
		delays = append(delays, text)
	}
	attributes := map[string]any{"strategy": string(d.strategy()), "delays": delays}
	if limit := d.limit(t); limit != nil {
		attributes["work_queue"] = map[string]any{"delivery_limit": *limit}
	}
	acctest.Chain(t, b, vhost, attributes)
}

// sharedConfig has a placeholder for the delays.
const sharedConfig = `
terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

resource "rabbitmq_retry_tiers" "orders" {
  name   = "orders"
  delays = ["%s"]
}

resource "rabbitmq_retry_attachment" "orders" {
  tiers = rabbitmq_retry_tiers.orders.name
  queue = "orders"
}
`

// objects counts the exchanges, queues and bindings of a virtual host that
// RabbitMQ did not make by itself.
func objects(t *testing.T, b *rabbit.Broker, vhost string) (counts [3]int) {
	t.Helper()
	api := acctest.API(t, b)
	exchanges, err := api.ListExchangesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exchanges {
		if e.Name != "" && !strings.HasPrefix(e.Name, "amq.") {
			counts[0]++
		}
	}
	queues, err := api.ListQueuesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	counts[1] = len(queues)
	bindings, err := api.ListBindingsIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings {
		if binding.Source != "" {
			counts[2]++
		}
	}
	return counts
}

// deliver publishes one message, gives it up at each delivery as the design's
// consumer does, and counts the deliveries until it is parked, or so many.
func (d design) deliver(t *testing.T, b *rabbit.Broker, vhost string, most int) int {
	t.Helper()
	outcomes := map[string]worker.Outcome{
		"basic.reject requeue=true": worker.RejectRequeue, "basic.reject requeue=false": worker.Reject,
	}
	outcome, known := outcomes[d.gives]
	if !known {
		t.Fatalf("the consumer gives up by %q", d.gives)
	}
	w := acctest.Worker(t, b, vhost)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Publish(ctx, "", "orders", amqp.Publishing{MessageId: "one"}); err != nil {
		t.Fatal(err)
	}
	parked := make(chan error, 1)
	go func() {
		_, err := w.Get(ctx, "orders.parking")
		parked <- err
		cancel()
	}()
	n := 0
	err := w.Consume(ctx, "orders", 1, func(worker.Delivery) worker.Outcome {
		if n++; n == most {
			return worker.Reject // straight to the parking queue
		}
		return outcome
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-parked; err != nil {
		t.Fatal(fmt.Errorf("after %d deliveries the message is not parked: %w", n, err))
	}
	return n
}
