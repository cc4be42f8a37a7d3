package messages

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// sent are messages to an exchange with these bodies; the headers tell equal ones
// apart.
func sent(bodies ...string) []outgoing {
	var batch []outgoing
	for i, body := range bodies {
		d := amqp.Delivery{MessageId: "id", Body: []byte(body), Headers: amqp.Table{"n": int64(i)}, Timestamp: time.Unix(1, 0)}
		batch = append(batch, outgoing{Parked: Parked{Message: deadletter.Message{Delivery: d, Position: i}}, route: Route{Exchange: "x", RoutingKey: "k"}})
	}
	return batch
}

// returnOf is the message as a broker returns it whose interceptors have set
// headers and the timestamp.
func returnOf(m outgoing, body string) amqp.Return {
	headers := maps.Clone(m.Delivery.Headers)
	headers["timestamp_in_ms"] = int64(5)
	return amqp.Return{
		ReplyText: "NO_ROUTE", Exchange: m.route.Exchange, RoutingKey: m.key(), MessageId: m.ID(), Headers: headers, Timestamp: time.Unix(9, 0), Body: []byte(body),
	}
}

// A message that the broker returned is never acknowledged, whatever the broker
// did to it before.
func TestWithoutReturned(t *testing.T) {
	batch := sent("a", "b", "b", "c")
	for name, c := range map[string]struct {
		batch         []outgoing
		returns       []amqp.Return
		done, unknown []int
		fails         any
	}{
		"none":                    {batch, nil, []int{0, 1, 2, 3}, nil, nil},
		"one that is unlike":      {batch, []amqp.Return{returnOf(batch[0], "a")}, []int{1, 2, 3}, nil, &UnroutableError{}},
		"all that look alike":     {batch, []amqp.Return{returnOf(batch[1], "b"), returnOf(batch[2], "b")}, []int{0, 3}, nil, &UnroutableError{}},
		"one of two alike":        {batch, []amqp.Return{returnOf(batch[1], "b")}, []int{0, 3}, []int{1, 2}, &UnroutableError{}},
		"a body that was changed": {batch, []amqp.Return{returnOf(batch[0], "A")}, nil, []int{0, 1, 2, 3}, &PublishError{}},
		"more than were sent":     {batch, []amqp.Return{returnOf(batch[0], "a"), returnOf(batch[0], "a")}, nil, []int{0, 1, 2, 3}, &PublishError{}},
		"a single message":        {batch[:1], []amqp.Return{returnOf(batch[0], "changed")}, nil, nil, &UnroutableError{}},
	} {
		became, err := withoutReturned(c.batch, c.returns)
		if got := positions(became.done); !slices.Equal(got, c.done) {
			t.Errorf("%s: done %v", name, got)
		}
		if got := positions(became.unknown); !slices.Equal(got, c.unknown) {
			t.Errorf("%s: unknown %v", name, got)
		}
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.fails) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func positions(batch []outgoing) []int {
	var list []int
	for _, m := range batch {
		list = append(list, m.Position)
	}
	return list
}

// What a redrive changes of a message.
func TestRedriven(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)
	headers := amqp.Table{"CC": []any{"more"}, "BCC": []any{"more"}, "own": "kept", "count": int64(3), "x-death": "x", RedriveCount: int64(4)}
	at := now.Truncate(time.Second)
	for name, c := range map[string]struct {
		route Route
		form  AddedHeaders
		want  amqp.Table
	}{
		"a queue":     {Route{RoutingKey: "q"}, "", amqp.Table{"own": "kept", "count": int64(3), RedriveCount: int64(5), RedrivenAt: at}},
		"an exchange": {Route{Exchange: "x"}, TypedHeaders, amqp.Table{"own": "kept", "count": int64(3), RedriveCount: int64(5), RedrivenAt: at}},
		"a chain": {
			Route{Exchange: "x", Fanout: true, Drop: []string{"count"}},
			TextHeaders,
			amqp.Table{"CC": []any{"more"}, "BCC": []any{"more"}, "own": "kept", RedriveCount: "5", RedrivenAt: "2030-01-02T03:04:05Z"},
		},
		"nothing added": {Route{Exchange: "x"}, NoHeaders, amqp.Table{"own": "kept", "count": int64(3), RedriveCount: int64(4)}},
	} {
		p := &redriver{publisher: publisher{session: &Session{}}, headers: c.form}
		m := outgoing{Parked: Parked{Message: deadletter.Message{Delivery: amqp.Delivery{Headers: headers}}}, route: c.route}
		if got := p.redriven(m, now).Headers; fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
	if count := redriveCount(amqp.Table{RedriveCount: "12"}); count != 12 {
		t.Errorf("counted %d", count)
	}
}

// What the broker may refuse goes alone.
func TestSafe(t *testing.T) {
	p := &redriver{keys: map[string]bool{}}
	message := func(size int, route Route, headers amqp.Table) outgoing {
		return outgoing{Parked: Parked{Message: deadletter.Message{Delivery: amqp.Delivery{Headers: headers, Body: make([]byte, size)}}}, route: route}
	}
	p.learn([]outgoing{message(100, Route{Exchange: "fanout", Fanout: true}, nil), message(1, Route{Exchange: "topic", RoutingKey: "a", Topic: true}, nil)})
	for name, c := range map[string]struct {
		m    outgoing
		want bool
	}{
		"known":           {message(100, Route{Exchange: "fanout", Fanout: true}, amqp.Table{"CC": []any{"a"}}), true},
		"larger":          {message(101, Route{Exchange: "fanout", Fanout: true}, nil), false},
		"another route":   {message(1, Route{Exchange: "other"}, nil), false},
		"a known key":     {message(1, Route{Exchange: "topic", RoutingKey: "a", Topic: true}, nil), true},
		"an unknown key":  {message(1, Route{Exchange: "topic", RoutingKey: "b", Topic: true}, nil), false},
		"a CC of text":    {message(1, Route{Exchange: "fanout", Fanout: true}, amqp.Table{"CC": "a"}), false},
		"a CC of numbers": {message(1, Route{Exchange: "fanout", Fanout: true}, amqp.Table{"CC": []any{int64(1)}}), false},
	} {
		if got := p.safe(c.m); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestRefusal(t *testing.T) {
	for want, list := range map[bool][]error{
		true: {
			&amqp.Error{Server: true, Code: amqp.PreconditionFailed, Reason: "message size 2 is larger than configured max size 1"},
			&amqp.Error{Server: true, Code: amqp.AccessRefused, Reason: "write access to topic 'k' in exchange 'x' refused"},
		},
		false: {
			nil, errors.New("other"), amqp.ErrClosed,
			&amqp.Error{Server: true, Code: amqp.AccessRefused, Reason: "write access to exchange 'x' refused"},
			&amqp.Error{Server: true, Code: amqp.NotFound, Reason: "no exchange 'x'"},
		},
	} {
		for _, err := range list {
			if _, got := refusal(publishError(t.Context(), Route{}, err)); got != want {
				t.Errorf("%v: %t", err, got)
			}
		}
	}
}

// What a redrive is known to take from a message.
func TestLoses(t *testing.T) {
	for name, c := range map[string]struct {
		d     amqp.Delivery
		route Route
		want  bool
	}{
		"nothing":                 {amqp.Delivery{UserId: "us", Type: "t", Headers: amqp.Table{"a": "b"}}, Route{}, false},
		"the user":                {amqp.Delivery{UserId: "them"}, Route{}, true},
		"sections of AMQP 1.0":    {amqp.Delivery{Type: "amqp-1.0"}, Route{}, true},
		"copies":                  {amqp.Delivery{Headers: amqp.Table{"CC": []any{"k"}}}, Route{Exchange: "x"}, true},
		"no copies through chain": {amqp.Delivery{Headers: amqp.Table{"CC": []any{"k"}}}, Route{Exchange: "x", Fanout: true}, false},
	} {
		if got := (outgoing{Parked: Parked{Message: deadletter.Message{Delivery: c.d}}, route: c.route}).loses("us"); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
