package cutting

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// phases are what the provider is doing when it ends.
var phases = []string{"create", "change", "destroy"}

// never is the number of a write that is not reached.
const never = math.MaxInt64

// cut says how a write is cut.
type cut struct {
	// write is its number.
	write int64
	after time.Duration
	// interrupted: the provider is told to stop, as SIGINT does. Otherwise it ends.
	interrupted bool
	// again: what was to be destroyed is destroyed and created again.
	again bool
}

// TestAccCutWrites closes all connections 0 to 8 ms after a write was sent, and the provider
// ends, or is told to stop: every write of a create, a change and a destroy of every
// resource. If a plan afterwards changes nothing, messages go their way. An apply makes them
// do so in any case, after an import where no state knows the resource; or it is destroyed
// and created again. Without [rabbit.EnvFull] one write of each resource is cut.
func TestAccCutWrites(t *testing.T) {
	t.Parallel()
	for i, s := range subjects {
		brokers := s.brokers(t)
		for j, phase := range phases {
			sampled := j == i/2%len(phases)
			if len(brokers) == 0 || phase == "change" && len(s.change) == 0 || !rabbit.Full() && !sampled {
				continue
			}
			t.Run(s.name+"/"+phase, func(t *testing.T) {
				t.Parallel()
				if !rabbit.Full() {
					c := cut{int64(1 + i/4%2), time.Duration(1+i%8) * time.Millisecond, i%2 == 1, i%4 == 0}
					s.run(t, brokers[i%len(brokers)], phase, c)
					return
				}
				writes := s.run(t, brokers[0], phase, cut{write: never})
				for n := range writes {
					b := brokers[int(n)%len(brokers)]
					for _, end := range []string{"killed", "SIGINT"} {
						c := cut{n + 1, time.Duration((5*int(n)+i+j)%9) * time.Millisecond, end == "SIGINT", n%2 == 0}
						t.Run(fmt.Sprintf("%d/%s/%s/%s", c.write, c.after, b.Name, end), func(t *testing.T) {
							t.Parallel()
							s.run(t, b, phase, c)
						})
					}
				}
			})
		}
	}
}

func (s subject) brokers(t *testing.T) []*rabbit.Broker {
	t.Helper()
	var able []*rabbit.Broker
	for _, b := range acctest.Brokers(t) {
		if s.able == nil || s.able(b) {
			able = append(able, b)
		}
	}
	return able
}

// session is a resource in the hands of Terraform, without the CLI.
type session struct {
	subject
	place

	through *rabbit.Broker
	config  attributes
	state   protocol.State
	// deleting: the write that was cut deleted a queue.
	deleting bool
}

// run cuts a write of the phase, and returns how many there were before the end.
func (s subject) run(t *testing.T, b *rabbit.Broker, phase string, c cut) (writes int64) {
	t.Helper()
	p := proxy.New(t, b.Endpoint)
	through := *b
	through.Endpoint = p.URL
	e := &session{subject: s, place: place{t, b, acctest.VHost(t, b)}, through: &through}
	e.config = with(s.config, attributes{"vhost": e.vhost})
	if s.kind == "rabbitmq_retry_chain" && e.config["strategy"] == nil && !acctest.Modern(b) {
		e.config["strategy"] = "routing_key"
	}
	if s.prepare != nil {
		s.prepare(e.place)
	}
	if phase != "create" {
		e.settle()
	}
	config := e.config
	switch phase {
	case "change":
		maps.Copy(e.config, s.change)
	case "destroy":
		config = nil
	}
	plan := e.plan(config)
	p.Take()
	server := acctest.Server(t, e.through)
	end := (*proxy.Cut).End
	if c.interrupted {
		end = func(*proxy.Cut) { _, _ = server.StopProvider(context.Background(), &tfprotov6.StopProviderRequest{}) }
	}
	write := p.CutWrite(c.write, c.after, end)
	state, _ := server.Apply(t, s.kind, plan)
	switch {
	case !c.interrupted: // the result is lost
	case state.Value.IsNull():
		e.state = protocol.State{}
	default:
		e.state = state
	}
	request, dead := write.Dead()
	if !dead && !rabbit.Full() { // there the number of writes comes from another version
		t.Errorf("there is no write %d", c.write)
	}
	p.Mend()
	for _, r := range p.Take() {
		if r.Write() {
			writes++
		}
	}
	t.Logf("RabbitMQ %s: %+v: %s %s", b.Version, c, request.Method, request.Path)
	e.rest()
	e.deleting = request.Method == http.MethodDelete && strings.Contains(request.Path, "/api/queues/")
	switch {
	case e.state.Value.Type() == nil:
		e.adopt()
	case phase == "create" && s.kind != "rabbitmq_retry_tiers", phase == "destroy" && c.again:
		e.destroy() // what was made is tainted; tiers into which a queue leads must be untainted
	}
	if e.state.Value.Type() != nil && e.unchanged(e.plan(e.config)) {
		s.works(e.place, e.config)
	}
	e.settle()
	s.works(e.place, e.config)
	return writes
}

// rest waits until RabbitMQ is done with what was cut: two lists of the objects, half a
// second apart, are the same.
func (e *session) rest() {
	e.t.Helper()
	before := e.left()
	if !poll.Until(30*time.Second, func() bool {
		time.Sleep(500 * time.Millisecond)
		now := e.left()
		same := slices.Equal(before, now)
		before = now
		return same
	}) {
		e.t.Fatal("the objects go on to change")
	}
}

// plan refreshes and plans.
func (e *session) plan(config attributes) protocol.Plan {
	e.t.Helper()
	server := acctest.Server(e.t, e.through)
	if e.state.Value.Type() != nil {
		state, found := server.Read(e.t, e.kind, e.state)
		if len(found.Errors()) > 0 {
			e.t.Fatal(found)
		}
		if e.state = state; state.Value.IsNull() {
			e.state = protocol.State{}
		}
	}
	plan := server.Plan(e.t, e.kind, config, e.state)
	if len(plan.Diagnostics.Errors()) > 0 {
		e.t.Fatal(plan.Diagnostics)
	}
	return plan
}

// unchanged says whether a plan changes nothing on the broker.
func (*session) unchanged(plan protocol.Plan) bool {
	topology := protocol.At(plan.Prior, "topology")
	if topology.Type() == nil {
		return plan.Prior.Equal(plan.Planned)
	}
	return topology.Equal(protocol.At(plan.Planned, "topology"))
}

// settle applies until a plan is empty. A second apply can be needed where queues retire.
func (e *session) settle() {
	e.t.Helper()
	for range 5 {
		plan := e.plan(e.config)
		if plan.Planned.Equal(plan.Prior) {
			return
		}
		state, found := acctest.Server(e.t, e.through).Apply(e.t, e.kind, plan)
		e.accept(found)
		e.state = state
	}
	e.t.Fatal("plans do not become empty")
}

// accept ends the test where RabbitMQ does not tell whether a queue whose deletion was cut
// holds messages: it is listed, has no Raft server any more and does not answer, as a queue
// does that is recovering. The provider names it and deletes nothing. Any other error fails
// the test.
func (e *session) accept(found protocol.Diagnostics) {
	e.t.Helper()
	text := found.String()
	switch {
	case len(found.Errors()) == 0:
	case e.deleting && strings.Contains(text, "not known what queue") && strings.Contains(text, "does not answer"):
		e.t.Skip("RabbitMQ has left a queue without a Raft server: " + text)
	default:
		e.t.Fatal(found)
	}
}

// adopt imports what is there of a resource that no state knows.
func (e *session) adopt() {
	e.t.Helper()
	state, found := acctest.Server(e.t, e.through).Import(e.t, e.kind, e.id+"@"+e.vhost, nil)
	if len(found.Errors()) > 0 && !strings.Contains(found.String(), "Nothing to Import") {
		e.t.Fatal(found)
	}
	if len(found.Errors()) == 0 && !state.Value.IsNull() {
		e.state = state
	}
}

// destroy destroys what is left, if a refresh finds something.
func (e *session) destroy() {
	e.t.Helper()
	plan := e.plan(nil)
	if e.state.Value.Type() != nil {
		_, found := acctest.Server(e.t, e.through).Apply(e.t, e.kind, plan)
		e.accept(found)
	}
	e.state = protocol.State{}
	var left []string
	if !poll.Until(10*time.Second, func() bool {
		left = e.left()
		return len(left) == 0
	}) {
		e.t.Errorf("objects are left: %q", left)
	}
}

// left lists the objects with the resource's prefix.
func (e *session) left() []string {
	e.t.Helper()
	api := acctest.API(e.t, e.b)
	var left []string
	exchanges, err := api.ListExchangesIn(e.vhost)
	e.must(err)
	for _, exchange := range exchanges {
		left = append(left, exchange.Name)
	}
	queues, err := api.ListQueuesIn(e.vhost)
	e.must(err)
	for _, queue := range queues {
		left = append(left, queue.Name)
	}
	policies, err := api.ListPoliciesIn(e.vhost)
	e.must(err)
	for _, policy := range policies {
		left = append(left, policy.Name)
	}
	own := left[:0]
	for _, name := range left {
		if strings.HasPrefix(name, e.prefix) {
			own = append(own, name)
		}
	}
	return own
}
