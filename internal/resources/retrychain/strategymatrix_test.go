package retrychain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// design is a strategy, with or without delays.
type design struct {
	strategy string
	delayed  bool
}

func (d design) String() string {
	if d.delayed {
		return d.strategy
	}
	return d.strategy + " without delays"
}

func designs() []design {
	var all []design
	for _, strategy := range []string{"headers", "routing_key", "republish", "delayed_retry", "delayed_exchange"} {
		all = append(all, design{strategy, true}, design{strategy, false})
	}
	return all
}

// form is what a chain's queues are declared with.
type form struct {
	queueType, deadLetterStrategy string
	existing                      bool // the work queue belongs to others
}

func (f form) String() string {
	return fmt.Sprintf("%s %s existing=%t", f.queueType, f.deadLetterStrategy, f.existing)
}

var forms = []form{
	{"quorum", "at-least-once", false}, {"classic", "at-most-once", false}, {"classic", "at-most-once", true}, {"quorum", "at-least-once", true},
}

// possible says whether the broker can have such a chain. All brokers before 4.3
// are given the exchange type x-delayed-message, see [withDelayedType].
func (d design) possible(b *rabbit.Broker, f form) bool {
	switch d.strategy {
	case "headers":
		return acctest.Modern(b)
	case "delayed_retry":
		return hasDelayedRetry(b) && f.queueType == "quorum"
	case "delayed_exchange":
		return !acctest.AtLeast(b, 4, 3)
	default:
		return true
	}
}

// changes says whether a living chain can change from one design to the other in
// place.
func (d design) changes(to design, f form) bool {
	if d.strategy == "delayed_retry" && !f.existing {
		return d == to // the delays are arguments of the work queue
	}
	return d.strategy == to.strategy || inPlace(d.strategy, to.strategy)
}

// delays are those of the design. Those of a delayed retry are waited for in the
// end; from elsewhere messages are taken out.
func (d design) delays(from design) []any {
	switch {
	case !d.delayed:
		return []any{}
	case from.strategy == "delayed_retry":
		return []any{"5s"}
	default:
		return []any{"1h"}
	}
}

// TestAccStrategyMatrix plans the change of every strategy into every other one,
// with delays and without, with messages in the work queue and on their way. What
// cannot be made in place is refused by the plan, with one error; the chain is
// untouched, and so is every message.
func TestAccStrategyMatrix(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		if !acctest.AtLeast(b, 4, 3) {
			b = withDelayedType(t, b)
		}
		for _, f := range rabbit.Half(t.Name(), forms) {
			for _, from := range designs() {
				if !from.possible(b, f) {
					continue
				}
				t.Run(fmt.Sprintf("%s %s", from, f), func(t *testing.T) {
					t.Parallel()
					newMatrixRow(t, b, f, from).check()
				})
			}
		}
	})
}

// matrixRow is a living chain whose strategy is to be changed.
type matrixRow struct {
	*session
	form
	from design
}

func newMatrixRow(t *testing.T, b *rabbit.Broker, f form, from design) *matrixRow {
	t.Helper()
	vhost := acctest.VHost(t, b)
	more := map[string]any{"delays": from.delays(from)}
	if f.existing {
		newApplication(t, b, vhost, f.queueType, nil)
		more = attached(more)
	}
	row := &matrixRow{newSession(t, b, vhost, variant{from.strategy, f.queueType, f.deadLetterStrategy}, more), f, from}
	row.apply()
	row.publish("waiting")
	row.failAll()
	row.publish("ready")
	return row
}

const perState = 3

func (r *matrixRow) publish(state string) {
	r.t.Helper()
	w := acctest.Worker(r.t, r.b, r.vhost)
	for i := range perState {
		if err := w.Publish(r.t.Context(), "", "orders", amqp.Publishing{MessageId: fmt.Sprintf("%s %d", state, i)}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// failAll fails every message of the work queue once.
func (r *matrixRow) failAll() {
	r.t.Helper()
	how := worker.Reject
	if r.from == (design{"delayed_retry", true}) {
		how = worker.RejectRequeue
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	failed := 0
	err := acctest.Worker(r.t, r.b, r.vhost).Consume(ctx, "orders", 1, func(worker.Delivery) worker.Outcome {
		if failed++; failed == perState {
			cancel()
		}
		return how
	})
	if err != nil || failed != perState {
		r.t.Fatalf("%d messages failed, expected %d: %v", failed, perState, err)
	}
}

func (r *matrixRow) check() {
	r.t.Helper()
	before := objectsOf(r.t, r.b, r.vhost)
	config := maps.Clone(r.config)
	for _, to := range designs() {
		r.config["strategy"], r.config["delays"] = to.strategy, to.delays(r.from)
		found := r.errors()
		switch allowed := to.possible(r.b, r.form) && r.from.changes(to, r.form); {
		case allowed && len(found) > 0:
			r.t.Errorf("to %s: refused: %s", to, found)
		case allowed:
		case len(found) != 1:
			r.t.Errorf("to %s: %d errors, expected 1: %s", to, len(found), found)
		case to.possible(r.b, r.form):
			expectRefused(r.t, found, "Change Not Possible in Place", `of the living chain "orders" cannot change in place: `, "Undo the change")
		}
	}
	r.config = config
	r.expectPlan(r.plan())
	if after := objectsOf(r.t, r.b, r.vhost); after != before {
		r.t.Errorf("plans have made of\n%s\n\nthis:\n%s", before, after)
	}
	r.expectMessages()
}

// errors are those that Terraform shows: it does not plan what is wrong whatever
// the state.
func (r *matrixRow) errors() protocol.Diagnostics {
	r.t.Helper()
	if found := r.provider().Validate(r.t, chainType, r.config).Errors(); len(found) > 0 {
		return found
	}
	return r.plan().Diagnostics.Errors()
}

// expectMessages takes every message out of whatever queue it is in, and wants
// each once.
func (r *matrixRow) expectMessages() {
	r.t.Helper()
	w, found := acctest.Worker(r.t, r.b, r.vhost), map[string]int{}
	poll.Until(20*time.Second, func() bool {
		queues, err := acctest.API(r.t, r.b).ListQueuesIn(r.vhost)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, q := range queues {
			drained, err := w.Drain(q.Name)
			if err != nil {
				r.t.Fatal(err)
			}
			for _, d := range drained {
				found[d.MessageId]++
			}
		}
		return len(found) >= 2*perState
	})
	want := map[string]int{}
	for i := range perState {
		want[fmt.Sprintf("waiting %d", i)], want[fmt.Sprintf("ready %d", i)] = 1, 1
	}
	if !maps.Equal(found, want) {
		r.t.Errorf("the messages are %v, expected %v", found, want)
	}
}

// TestAccStrategyChangeAtRest makes the two changes that are possible in place, of
// every form of chain, with messages in a tier for another hour: the tier drains,
// and every message is there once.
func TestAccStrategyChangeAtRest(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		ways := [][2]design{{{"headers", true}, {"routing_key", true}}, {{"routing_key", true}, {"headers", true}}}
		for _, f := range rabbit.Half(t.Name(), forms) {
			for _, way := range ways {
				t.Run(fmt.Sprintf("%s to %s %s", way[0], way[1], f), func(t *testing.T) {
					t.Parallel()
					row := newMatrixRow(t, b, f, way[0])
					row.config["strategy"] = way[1].strategy
					row.apply()
					row.expectPlan(row.plan())
					retired := map[string]string{"headers": "orders.retry.1h", "routing_key": "orders.attempt.1h"}[way[0].strategy]
					if draining := protocol.Go(protocol.At(row.state.Value, "draining")); !slices.Equal(draining.([]any), []any{retired}) {
						t.Errorf("draining are %v, expected %q", draining, retired)
					}
					row.expectMessages()
				})
			}
		}
	})
}
