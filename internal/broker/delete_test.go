package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// scene is a fake broker's AMQP side with one quorum queue.
type scene struct {
	depths
	watched messages.Depth
	// before came before the DELETE, after came after it.
	before, after int
	gone          bool
	watchErr      error
	probeErr      error
	// putBack are the errors of the tries to put messages back.
	putBack []error

	released, tries int
	limit           int64
}

func (s *scene) Watch(context.Context, string) (watch, error) { return s, s.watchErr }

func (s *scene) Probe(context.Context, string) error { return s.probeErr }

func (s *scene) Depth(context.Context) (messages.Depth, error) { return s.watched, nil }

func (s *scene) Held() []messages.Message { return make([]messages.Message, s.before) }

func (s *scene) Rest(context.Context) ([]messages.Message, bool) {
	return make([]messages.Message, s.before+s.after), s.gone
}

func (s *scene) Release(_ context.Context, limit int64) error {
	s.released++
	s.limit = limit
	return nil
}

func (s *scene) PutBack(_ context.Context, _ string, _ []string, held []messages.Message) ([]messages.Message, error) {
	s.tries++
	if s.tries > len(s.putBack) || s.putBack[s.tries-1] == nil {
		return nil, nil
	}
	return held[1:], s.putBack[s.tries-1]
}

func TestDeleteQueueModes(t *testing.T) {
	const path = "/api/queues/%2F/orders"
	ours := messages.Depth{Consumers: 1}
	boom := errors.New("boom")
	internal := &messages.BrokerError{Code: 541, Reason: "INTERNAL_ERROR"}
	silent := &messages.UnavailableError{Queue: "orders", Answer: "no answer within 5s", Silent: true}
	locked := &messages.BrokerError{Code: 405, Reason: "RESOURCE_LOCKED"}
	for _, test := range []struct {
		name  string
		scene scene
		// answer is the one to DELETE.
		answer answer
		// listed says that the management API goes on listing the queue.
		listed bool
		// want is in the error, which is an E of the name; "" means none.
		want, kind              string
		deleted                 bool
		released, tries, remade int
	}{
		{name: "empty", scene: scene{watched: ours, gone: true}, deleted: true},
		{name: "ready", scene: scene{depths: depths{"orders": {Ready: 3}}}, want: "3 ready", kind: "*broker.InUseError"},
		{name: "consumers", scene: scene{depths: depths{"orders": {Consumers: 2}}}, want: "consumers (2)", kind: "*broker.InUseError"},
		{name: "gone before the watch", scene: scene{watchErr: messages.ErrNotFound}},
		{name: "listed and not there", scene: scene{watchErr: messages.ErrNotFound}, listed: true, want: "AMQP says that it does not exist", kind: "*broker.UnknownError"},
		{name: "silent", scene: scene{watchErr: silent}, want: "no answer within 5s", kind: "*broker.UnknownError"},
		{name: "may not read", scene: scene{watchErr: &messages.RefusedError{Reason: "no"}}, want: `read on "orders"`, kind: "*broker.PermissionError"},
		{name: "half made", scene: scene{watchErr: internal, probeErr: internal}, deleted: true},
		{name: "half made and silent", scene: scene{watchErr: silent, probeErr: silent}, deleted: true},
		{name: "not half made, but failing", scene: scene{watchErr: internal}, want: "INTERNAL_ERROR", kind: "*messages.BrokerError"},
		{name: "not half made, but locked", scene: scene{watchErr: internal, probeErr: locked}, want: "INTERNAL_ERROR", kind: "*messages.BrokerError"},
		{name: "locked", scene: scene{watchErr: locked, probeErr: internal}, want: "RESOURCE_LOCKED", kind: "*messages.BrokerError"},
		{name: "another consumer came", scene: scene{watched: messages.Depth{Consumers: 3}}, want: "consumers (2)", kind: "*broker.InUseError", released: 1},
		{name: "a message came before", scene: scene{watched: ours, before: 2}, want: "2 ready", kind: "*broker.InUseError", released: 1},
		{name: "a silent leader", scene: scene{}, want: "leader", kind: "*broker.InUseError", released: 1},
		{name: "messages came", scene: scene{watched: ours, after: 2, gone: true}, want: "2 messages arrived", kind: "*broker.InUseError", deleted: true, tries: 1, remade: 1},
		{name: "put back at the second try", scene: scene{watched: ours, after: 2, gone: true, putBack: []error{boom}}, want: "2 messages arrived", kind: "*broker.InUseError", deleted: true, tries: 2, remade: 2},
		{name: "not put back", scene: scene{watched: ours, after: 3, gone: true, putBack: []error{&messages.RefusedError{}}}, want: "2 messages that came", kind: "*broker.MessagesLostError", deleted: true, tries: 1, remade: 1},
		{name: "the watch broke", scene: scene{watched: ours}, want: "may be lost", kind: "*broker.MessagesLostError", deleted: true},
		{name: "refused", scene: scene{watched: ours}, answer: refusal(400, "no"), want: "no", kind: "*broker.APIError", deleted: true, released: 1},
		{name: "no answer, not deleted", scene: scene{watched: ours}, answer: answer{status: 500}, want: "500", kind: "*broker.APIError", deleted: true, released: 1},
		{name: "no answer, deleted", scene: scene{watched: ours, gone: true}, answer: answer{status: 500}, deleted: true},
		{name: "deleted by others", scene: scene{watched: ours}, answer: refusal(404, "Not Found"), deleted: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, s := newFake(t), test.scene
			if test.answer.status == 0 {
				test.answer = hadIt
			}
			f.on("DELETE "+path, test.answer)
			f.on("PUT "+path, madeIt)
			f.on("GET "+path, answer{status: 200, body: `{"name":"orders","type":"quorum","durable":true,"arguments":{"x-delivery-limit":7}}`})
			f.on("GET "+path+"/bindings", answer{status: 200, body: `[
				{"source":"","destination":"orders","destination_type":"queue","routing_key":"orders","arguments":{}},
				{"source":"e","destination":"orders","destination_type":"queue","routing_key":"k","arguments":{"n":1}}]`})
			f.on("POST /api/bindings/%2F/e/e/q/orders", madeIt)
			f.on("GET /api/queues/quorum/%2F/orders/status", raftBody(emptyLog))
			if test.listed {
				f.on("GET /api/queues/%2F", answer{status: 200, body: `[{"name":"orders","type":"quorum","state":"running"}]`})
			}
			c := f.client(t)
			c.proof.leader, c.proof.patience = 0, 0
			c.openSession = func(context.Context, string) (session, error) { return &s, nil }
			err := c.DeleteQueue(t.Context(), "/", orders, OnlyIfEmpty)
			if test.want == "" {
				must(t, err)
			} else {
				wantError[error](t, err, test.want)
				if kinds := kindsOf(err); !slices.Contains(kinds, test.kind) {
					t.Errorf("want a %s, got %v", test.kind, kinds)
				}
			}
			if deleted := f.count("DELETE "+path) > 0; deleted != test.deleted {
				t.Errorf("deleted: %v", deleted)
			}
			if s.released != test.released || s.tries != test.tries {
				t.Errorf("released %d times, put back in %d tries", s.released, s.tries)
			}
			if n, m := f.count("PUT "+path), f.count("POST /api/bindings"); n != test.remade || m != test.remade {
				t.Errorf("%d declarations and %d bindings, want %d of each", n, m, test.remade)
			}
			if test.scene.before > 0 && s.limit != 7 {
				t.Errorf("released with the limit %d", s.limit)
			}
		})
	}
}

// kindsOf returns the types of err and of what it joins.
func kindsOf(err error) []string {
	kinds := []string{fmt.Sprintf("%T", err)}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			kinds = append(kinds, kindsOf(e)...)
		}
	}
	return kinds
}

func TestDeleteQueueOfOtherKinds(t *testing.T) {
	f := newFake(t)
	f.on("DELETE /api/queues/%2F/orders", hadIt)
	c := f.client(t)
	c.openSession = func(context.Context, string) (session, error) { return depths{"orders": {Ready: 3}}, nil }
	stream := topology.Queue{Name: "orders", Type: topology.Stream}
	wantError[*InUseError](t, c.DeleteQueue(t.Context(), "/", stream, OnlyIfEmpty), "3 ready")
	if f.count("DELETE") != 0 {
		t.Fatal("deleted all the same")
	}
	must(t, c.DeleteQueue(t.Context(), "/", stream, Always))
	c.openSession = func(context.Context, string) (session, error) { return depths{}, nil }
	must(t, c.DeleteQueue(t.Context(), "/", stream, OnlyIfEmpty))
}

func TestDeliveryLimit(t *testing.T) {
	for _, test := range []struct {
		version   string
		arguments topology.Arguments
		policies  string
		want      int64
	}{
		{"3.10.8", nil, `[]`, -1},
		{"4.0.5", nil, `[]`, 20},
		{"4.0.5", topology.Arguments{topology.DeliveryLimit: int64(-1)}, `[]`, -1},
		{"3.13.7", topology.Arguments{topology.DeliveryLimit: int64(-1)}, `[]`, 0},
		{"4.3.6", topology.Arguments{topology.DeliveryLimit: int64(9)}, `[{"name":"p","pattern":"^ord","apply-to":"queues","definition":{"delivery-limit":4}}]`, 4},
	} {
		f := newFake(t)
		f.on("GET /api/overview", answer{status: 200, body: overviewBody(test.version)})
		f.on("GET /api/policies/%2F", answer{status: 200, body: test.policies})
		q := topology.Queue{Name: "orders", Type: topology.Quorum, Arguments: test.arguments}
		got, err := f.client(t).deliveryLimit(t.Context(), "/", q)
		if got != test.want || err != nil {
			t.Errorf("%s %v %s: %d, %v", test.version, test.arguments, test.policies, got, err)
		}
	}
}
