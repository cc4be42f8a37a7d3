package differential

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// compareRoutings sends messages through exchanges of every type, bound to each
// other and to queues, with alternate exchanges: every message reaches the
// queues that Route names.
func compareRoutings(t *testing.T, h *host, seed int64) {
	t.Helper()
	r := newRandom(seed)
	for part := range 3 {
		compareRouting(t, h, r, routingGraph(r, fmt.Sprintf("p%d", part)))
	}
	if t.Failed() {
		t.Logf("%s=%d repeats this", envSeed, seed)
	}
}

var (
	bindingWords = []string{"a", "b", "", "*", "#", "*", "#"}
	keyWords     = []string{"a", "b", "", "c"}
	values       = []any{"1", int64(1), 1.0, true, "true", []any{int64(1), "x"}, map[string]any{"n": int64(1)}}
	headerNames  = []string{"h", "i", "x-h", "x-match-not"}
)

func (r random) words(from []string) string {
	list := make([]string, r.IntN(4))
	hashes := 0
	for i := range list {
		// 4.3 refuses binding keys with more than two "#".
		if list[i] = pick(r, from...); list[i] == "#" {
			if hashes++; hashes > 2 {
				list[i] = "*"
			}
		}
	}
	return strings.Join(list, ".")
}

func (r random) headers(most int) topology.Arguments {
	a := topology.Arguments{}
	for range r.IntN(most + 1) {
		a[pick(r, headerNames...)] = pick(r, values...)
	}
	return a
}

// routingGraph has eight exchanges and twelve queues.
func routingGraph(r random, prefix string) *topology.Topology {
	t := topology.New()
	kinds := []string{
		topology.Direct, topology.Fanout, topology.Topic, topology.Topic,
		topology.Headers, topology.Headers, topology.Topic, topology.Direct,
	}
	name := func(i int) string { return fmt.Sprintf("%s x%d", prefix, i) }
	for i, kind := range kinds {
		e := topology.Exchange{Name: name(i), Type: kind, Durable: true}
		if r.chance(40) {
			e.Arguments = topology.Arguments{topology.AlternateExchange: name(r.IntN(len(kinds) + 1))}
		}
		t.SetExchange(e)
	}
	for i := range 12 {
		t.SetQueue(topology.Queue{Name: fmt.Sprintf("%s q%d", prefix, i), Type: topology.Classic, Durable: true})
	}
	for range 50 {
		b := topology.Binding{
			Source: name(r.IntN(len(kinds))), Destination: fmt.Sprintf("%s q%d", prefix, r.IntN(12)), DestinationKind: topology.KindQueue,
			RoutingKey: r.words(bindingWords), Arguments: r.headers(2),
		}
		if r.chance(80) {
			b.Arguments[topology.Match] = pick(r, "all", "any", "all-with-x", "any-with-x")
		}
		if r.chance(10) {
			b.Destination, b.DestinationKind = name(r.IntN(len(kinds))), topology.KindExchange
		}
		t.Bind(b)
	}
	return t
}

func compareRouting(t *testing.T, h *host, r random, in *topology.Topology) {
	t.Helper()
	w, err := newReal(h.connection)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { w.close() }()
	if err := w.declare(in); err != nil {
		t.Fatal(err)
	}
	equality := topology.Strict
	if !h.version.AtLeast("3.13.0") {
		equality = topology.Numeric
	}
	exchanges := in.Exchanges()
	want := map[string][]string{}
	for n := range 200 {
		p := simulator.Publishing{
			Exchange: pick(r, exchanges...).Name, RoutingKey: r.words(keyWords), Headers: r.headers(3), Body: fmt.Sprintf("%03d", n),
		}
		if r.chance(20) {
			p.Headers["CC"] = []any{r.words(keyWords), r.words(keyWords)}
		}
		message := topology.Message{RoutingKeys: topology.RoutingKeys(p.RoutingKey, p.Headers), Headers: p.Headers}
		queues, err := in.Route(p.Exchange, message, equality)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := w.publish(p)
		if err != nil {
			t.Fatal(err)
		}
		if (outcome == simulator.Unroutable) != (len(queues) == 0) {
			t.Errorf("%+v: %s, want %q", p, outcome, queues)
		}
		for _, name := range queues {
			want[name] = append(want[name], p.Body)
		}
	}
	for _, q := range in.Queues() {
		if got := emptied(t, w, q.Name); !slices.Equal(got, want[q.Name]) {
			t.Errorf("%s on %s:\n%s\ngot  %q\nwant %q", q.Name, h.version, describe(in), got, want[q.Name])
		}
	}
}

func emptied(t *testing.T, w *real, queue string) []string {
	t.Helper()
	var got []string
	for {
		d, ok, err := w.channel.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return got
		}
		got = append(got, string(d.Body))
	}
}
