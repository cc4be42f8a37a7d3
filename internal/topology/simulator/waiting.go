package simulator

import (
	"errors"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// waiting is a copy of a message that an exchange of type x-delayed-message holds
// back. It is in no queue.
type waiting struct {
	exchange string
	message  *message
	due      time.Duration
}

// route returns the queues that the message reaches from the exchange, and the
// exchanges that hold it back.
func (b *Broker) route(exchange string, m *message) (queues, holding []string, err error) {
	if b.rules.delayedExchange {
		return b.topology.RouteDelayed(exchange, m.routed(), b.rules.equality)
	}
	queues, err = b.topology.Route(exchange, m.routed(), b.rules.equality)
	return queues, nil, err
}

// holdBackAt leaves a copy of the message at each of the exchanges.
func (b *Broker) holdBackAt(exchanges []string, m *message) {
	for _, exchange := range exchanges {
		w := &waiting{exchange: exchange, message: m, due: b.now + m.routed().Delay()}
		i := len(b.waiting)
		for i > 0 && b.waiting[i-1].due > w.due {
			i--
		}
		b.waiting = slices.Insert(b.waiting, i, w)
		b.event(Event{Kind: HeldBack, Message: m.id, Exchange: exchange, RoutingKey: m.keys[0]})
	}
}

// passOn routes the messages whose delay is over and says whether there were any.
func (b *Broker) passOn() bool {
	passed := false
	for len(b.waiting) > 0 && b.waiting[0].due <= b.now {
		w := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.deliver(w)
		passed = true
	}
	return passed
}

// deliver routes the message from its exchange, whose bindings and type are those
// of now. Nobody waits for a confirm: what has no way, or what every queue
// refuses, is lost. The delay stays on the message with its sign turned, so that
// no other exchange holds it back (rabbit_delayed_message:route/2).
func (b *Broker) deliver(w *waiting) {
	m := *w.message
	m.headers = m.headers.Clone()
	if ms, ok := topology.DelayOf(m.headers); ok {
		m.headers[topology.DelayHeader] = -ms
	}
	queues, _, err := b.route(w.exchange, &m)
	cause := NowhereThen
	if err != nil && !errors.Is(err, topology.ErrNoExchange) {
		cause = err.Error()
	}
	for _, name := range queues {
		if b.offer(name, b.shown(w, &m, name), untracked) != refused {
			cause = ""
		} else if cause != "" {
			cause = Full
		}
	}
	if cause != "" {
		b.event(Event{Kind: Lost, Message: m.id, Exchange: w.exchange, Cause: cause})
		b.fates.lost[m.id] = append(b.fates.lost[m.id], Loss{Exchange: w.exchange, Cause: cause, At: b.now})
	}
}

// shown returns the message as it is put into the queue.
func (b *Broker) shown(w *waiting, turned *message, queue string) *message {
	if q, _ := b.topology.Queue(queue); b.rules.keepsDelay && q.Type == topology.Classic {
		return w.message
	}
	return turned
}

// HeldBack counts the messages that the exchange holds back (messages_delayed).
func (b *Broker) HeldBack(exchange string) int {
	n := 0
	for _, w := range b.waiting {
		if w.exchange == exchange {
			n++
		}
	}
	return n
}
