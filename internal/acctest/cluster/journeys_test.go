package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// virtualHost creates a virtual host for the test. At its end every node runs again.
func virtualHost(t *testing.T, c *rabbit.Cluster) string {
	t.Helper()
	vhost := acctest.VHost(t, c.Nodes[0])
	t.Cleanup(func() {
		if err := c.Heal(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return vhost
}

// living is a node that runs.
func living(t *testing.T, c *rabbit.Cluster) *rabbit.Broker {
	t.Helper()
	for _, b := range c.Nodes {
		if b.Running(t.Context()) {
			return b
		}
	}
	t.Fatal("no node runs")
	return nil
}

func api(t *testing.T, c *rabbit.Cluster) *rabbithole.Client {
	t.Helper()
	return acctest.API(t, living(t, c))
}

// chain is the configuration of the chain "orders".
func chain(vhost string, delays ...string) string {
	return fmt.Sprintf(`
resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  vhost  = %q
  delays = ["%s"]
}
`, vhost, strings.Join(delays, `", "`))
}

// shared is the configuration of the tiers "standard" with attached queues.
func shared(vhost string, queues ...string) string {
	text := fmt.Sprintf(`
resource "rabbitmq_retry_tiers" "standard" {
  name   = "standard"
  vhost  = %q
  delays = ["1s", "2s"]
}
`, vhost)
	for _, queue := range queues {
		text += fmt.Sprintf(`
resource "rabbitmq_retry_attachment" %[1]q {
  tiers     = rabbitmq_retry_tiers.standard.name
  vhost     = rabbitmq_retry_tiers.standard.vhost
  queue     = %[1]q
  on_detach = "park"
}
`, queue)
	}
	return text
}

// expectNoChanges plans, which must find nothing to do.
func expectNoChanges(t *testing.T, w *cli.Workspace) {
	t.Helper()
	if output, err := w.Run(t.Context(), "plan", "-detailed-exitcode"); err != nil {
		t.Errorf("the plan is not empty: %v\n%s", err, output)
	}
}

// expectNothingLeft looks for queues and exchanges of the resources.
func expectNothingLeft(t *testing.T, c *rabbit.Cluster, vhost string) {
	t.Helper()
	queues, err := api(t, c).ListQueuesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		t.Errorf("queue %q is left", q.Name)
	}
	exchanges, err := api(t, c).ListExchangesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exchanges {
		if e.Name != "" && !strings.HasPrefix(e.Name, "amq.") {
			t.Errorf("exchange %q is left", e.Name)
		}
	}
}

// leadersDie kills the leader of the work queue, a tier and the parking queue, one
// after the other under traffic.
func leadersDie(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	vhost := virtualHost(t, c)
	w := acctest.Terraform(t, acctest.Config(c.Nodes[0], "%s", chain(vhost, "1s", "2s")))
	acctest.Run(t, w, "apply", "-auto-approve")
	f := startTraffic(t, c, vhost, "orders.parking", 2, "orders")
	f.killLeaders("orders", "orders.retry.1s", "orders.parking")
	f.account()
	expectNoChanges(t, w)
}

// sharedLeadersDie does the same with tiers that two queues share.
func sharedLeadersDie(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	vhost := virtualHost(t, c)
	w := acctest.Terraform(t, acctest.Config(c.Nodes[0], "%s", shared(vhost, "orders", "invoices")))
	acctest.Run(t, w, "apply", "-auto-approve")
	f := startTraffic(t, c, vhost, "standard.parking", 2, "orders", "invoices")
	f.killLeaders("orders", "standard.retry.1s", "standard.parking")
	f.account()
	expectNoChanges(t, w)
}

// killLeaders kills the leaders of queues and starts them again, one at a time.
func (f *traffic) killLeaders(queues ...string) {
	f.t.Helper()
	f.flow(100)
	for _, queue := range queues {
		node := leader(f.t, f.c, f.vhost, queue)
		f.kill(node)
		f.flow(rabbit.Size(500, 100))
		start(f.t, f.c, f.vhost, node)
		f.flow(50)
	}
}

// nodeDown does everything that the provider does while a node is down: a plan, a
// change of delays under traffic, a redrive, a detachment and the destruction.
func nodeDown(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	vhost := virtualHost(t, c)
	w := acctest.Terraform(t, acctest.Config(c.Nodes[0], "%s", chain(vhost, "1s", "2s")+shared(vhost, "invoices")))
	acctest.Run(t, w, "apply", "-auto-approve")
	f := startTraffic(t, c, vhost, "orders.parking", 2, "orders")
	f.flow(100)

	f.kill(leader(t, c, vhost, "orders"))
	through := living(t, c)
	configure := func(text string) { acctest.Reconfigure(t, w, acctest.Config(through, "%s", text)) }
	configure(chain(vhost, "1s", "2s") + shared(vhost, "invoices"))
	expectNoChanges(t, w)
	f.flow(100)

	changed := chain(vhost, "1s", "3s")
	configure(changed + shared(vhost, "invoices"))
	acctest.Run(t, w, "apply", "-auto-approve")
	configure(changed + shared(vhost) + redrive(vhost))
	acctest.Run(t, w, "apply", "-auto-approve")
	f.flow(50)
	f.account()

	if output, err := w.Run(t.Context(), "destroy", "-auto-approve"); err != nil {
		// A quorum queue may keep consumers whose node is down.
		if !regexp.MustCompile(`no messages \(\d consumers?\)`).MatchString(output) {
			t.Fatal(err)
		}
		if err := c.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		acctest.Run(t, w, "destroy", "-auto-approve")
	}
	expectNothingLeft(t, c, vhost)
	if err := c.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectNothingLeft(t, c, vhost)
}

// noMajority kills two of three nodes. A change, a create and a destroy then fail soon and
// name the nodes. Before 4.3 the third node pauses, and the error names its address. When
// the nodes are back, the next apply does everything, and every message is there.
func noMajority(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	const kept = 20
	vhost := virtualHost(t, c)
	before := chain(vhost, "1s", "2s")
	w := acctest.Terraform(t, acctest.Config(c.Nodes[2], "%s", before))
	acctest.Run(t, w, "apply", "-auto-approve")
	park(t, c.Nodes[2], vhost, "orders", kept)
	ready := func() int {
		n, _ := readyIn(t, c.Nodes[2], vhost, "orders")
		return n
	}
	if !poll.Until(time.Minute, func() bool { return ready() == kept }) {
		t.Fatalf("%d messages of %d came back", ready(), kept)
	}
	kill(t, c, 0, 1)
	fails := func(queue string, args ...string) {
		t.Helper()
		began := time.Now()
		output := acctest.RunError(t, w, append(args, "-auto-approve")...)
		t.Logf("terraform %v failed after %s:\n%s",
			args, time.Since(began).Round(time.Second), output[max(0, strings.Index(output, "Error:")):])
		if took := time.Since(began); took > noMajorityLimit {
			t.Errorf("terraform %v failed after %s", args, took)
		}
		wanted := []string{queue, c.Names[0], c.Names[1]}
		if !acctest.AtLeast(c.Nodes[2], 4, 3) {
			wanted = []string{queue, c.Nodes[2].Endpoint, "connection refused"}
		}
		for _, want := range wanted {
			if !strings.Contains(output, want) {
				t.Errorf("the error does not name %q", want)
			}
		}
	}
	fails("orders", "destroy")
	changed := chain(vhost, "1s", "3s") + strings.NewReplacer(`"orders"`, `"invoices"`).Replace(before)
	acctest.Reconfigure(t, w, acctest.Config(c.Nodes[2], "%s", changed))
	fails("orders", "apply", "-target=rabbitmq_retry_chain.orders")
	fails("invoices", "apply", "-target=rabbitmq_retry_chain.invoices")

	start(t, c, vhost, 0, 1)
	acctest.Run(t, w, "apply", "-auto-approve")
	expectNoChanges(t, w)
	if !poll.Until(time.Minute, func() bool { return ready() == kept }) {
		t.Errorf("%d messages of %d are there", ready(), kept)
	}
}

// noMajorityLimit is how long a run may take to fail on a busy machine: 30 s, and what the
// CLI takes to start, twice.
const noMajorityLimit = 45 * time.Second

// redrive is the configuration of a redrive of all parked orders.
func redrive(vhost string) string {
	return fmt.Sprintf(`
resource "rabbitmq_redrive" "orders" {
  queue = "orders.parking"
  vhost = %q
}
`, vhost)
}

// leadersAreSpread: the leaders of the queues of one chain are on different nodes,
// although all are declared through one.
func leadersAreSpread(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	vhost := virtualHost(t, c)
	w := acctest.Terraform(t, acctest.Config(c.Nodes[0], "%s", chain(vhost, "1s", "2s")))
	acctest.Run(t, w, "apply", "-auto-approve")
	leaders := map[int][]string{}
	for _, queue := range []string{"orders", "orders.retry.1s", "orders.retry.2s", "orders.parking"} {
		node := leader(t, c, vhost, queue)
		leaders[node] = append(leaders[node], queue)
	}
	for i := range c.Nodes {
		if n := len(leaders[i]); n == 0 || n > 2 {
			t.Errorf("leaders by node: %v", leaders)
			break
		}
	}
	expectNoChanges(t, w)
}

// endpointDies kills the node that the provider talks to before its n-th write. When the
// node is back, the next apply completes the work; what a create left is imported first,
// because the provider never takes over what is in no state.
func endpointDies(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	vhost := virtualHost(t, c)
	p := proxy.New(t, c.Nodes[0].Endpoint)
	through := *c.Nodes[0]
	through.Endpoint = p.URL
	w := acctest.Terraform(t, acctest.Config(&through, "%s", chain(vhost, "1s", "2s")))
	dies := func(write int64, args ...string) {
		t.Helper()
		var writes atomic.Int64
		p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet && writes.Add(1) == write {
				if err := c.Kill(t.Context(), 0); err != nil {
					t.Error(err)
				}
			}
			return false
		})
		defer p.OnRequest(nil)
		if output, err := w.Run(t.Context(), append(args, "-auto-approve")...); err == nil {
			t.Errorf("terraform %v ended before its write %d:\n%s", args, write, output)
		}
		// A queue that was being declared or deleted may never have all its replicas.
		if err := c.Start(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}

	dies(6, "apply")
	output, err := w.Run(t.Context(), "import", "rabbitmq_retry_chain.orders", "orders@"+vhost)
	if err != nil && !strings.Contains(output, "Nothing to Import") {
		t.Fatal(err)
	}
	acctest.Run(t, w, "apply", "-auto-approve")
	expectNoChanges(t, w)
	f := startTraffic(t, c, vhost, "orders.parking", 3, "orders")
	f.flow(50)
	f.killed()
	acctest.Reconfigure(t, w, acctest.Config(&through, "%s", chain(vhost, "1s", "2s", "3s")))
	dies(4, "apply")
	acctest.Run(t, w, "apply", "-auto-approve")
	expectNoChanges(t, w)
	f.flow(50)
	f.account()
	dies(3, "destroy")
	// Of a queue that was being deleted when its leader died, a replica with its log may be
	// left that cannot be elected.
	acctest.RunDespiteUnknown(t, c.Nodes[1], vhost, w, "destroy", "-auto-approve")
	expectNothingLeft(t, c, vhost)
}

// allNodesDie: what waits in the tiers of quorum queues survives the death of every
// node.
func allNodesDie(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	const waiting = 50
	vhost := virtualHost(t, c)
	w := acctest.Terraform(t, acctest.Config(c.Nodes[0], "%s", chain(vhost, "1h")))
	acctest.Run(t, w, "apply", "-auto-approve")
	park(t, c.Nodes[0], vhost, "orders", waiting)
	ready := func() int {
		n, _ := readyIn(t, living(t, c), vhost, "orders.retry.1h")
		return n
	}
	if !poll.Until(time.Minute, func() bool { return ready() == waiting }) {
		t.Fatalf("%d messages wait, want %d", ready(), waiting)
	}
	kill(t, c, 0, 1, 2)
	start(t, c, vhost, 0, 1, 2)
	if !poll.Until(time.Minute, func() bool { return ready() == waiting }) {
		t.Errorf("%d messages wait, want %d", ready(), waiting)
	}
}

// classicNodeDown: the plan of a classic chain whose node is down warns of it. An
// orderly restart of the node keeps what waits in the tiers.
func classicNodeDown(t *testing.T, c *rabbit.Cluster) {
	t.Helper()
	const waiting = 20
	vhost := virtualHost(t, c)
	config := func(b *rabbit.Broker) string {
		return acctest.Config(b, `
resource "rabbitmq_retry_chain" "orders" {
  name       = "orders"
  vhost      = %q
  queue_type = "classic"
  strategy   = "routing_key"
  delays     = ["1h"]
}
`, vhost)
	}
	w := acctest.Terraform(t, config(c.Nodes[1]))
	acctest.Run(t, w, "apply", "-auto-approve")
	park(t, c.Nodes[1], vhost, "orders", waiting)
	if err := c.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := 0
	if !poll.Until(time.Minute, func() (found bool) {
		ready, found = readyIn(t, c.Nodes[1], vhost, "orders.attempt.1h")
		return found && ready == waiting
	}) {
		t.Errorf("%d messages wait after an orderly restart, want %d", ready, waiting)
	}

	kill(t, c, 1)
	acctest.Reconfigure(t, w, config(c.Nodes[0]))
	// Mnesia lists no bindings of such a queue, Khepri (4.3) does.
	output := acctest.Run(t, w, "plan")
	if empty := strings.Contains(output, "No changes."); !empty && acctest.AtLeast(c.Nodes[0], 4, 3) {
		t.Errorf("the plan is not empty:\n%s", output)
	}
	for _, want := range []string{"Queues Down", fmt.Sprintf("queue \"orders\" on node %s", c.Names[1])} {
		if !strings.Contains(output, want) {
			t.Errorf("the plan does not say %q:\n%s", want, output)
		}
	}
	if err := c.Start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	expectNoChanges(t, w)
}

// readyIn counts the ready messages of a queue, as one node sees it.
func readyIn(t *testing.T, b *rabbit.Broker, vhost, queue string) (n int, found bool) {
	t.Helper()
	w, err := worker.Dial(b.AMQP, vhost)
	if err != nil {
		return 0, false
	}
	defer w.Close()
	n, err = w.Ready(queue)
	return n, err == nil
}

// park publishes messages to a work queue and rejects each once.
func park(t *testing.T, b *rabbit.Broker, vhost, queue string, n int) {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	for range n {
		if err := w.Publish(t.Context(), "", queue, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rejected := 0
	err := w.Consume(ctx, queue, prefetch, func(worker.Delivery) worker.Outcome {
		if rejected++; rejected == n {
			cancel()
		}
		return worker.Reject
	})
	if err != nil || rejected != n {
		t.Fatalf("%d of %d messages were rejected: %v", rejected, n, err)
	}
}
