package messages

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// blockedPatience is how long publishers may be blocked before that is an error.
// RabbitMQ raises and clears short alarms within seconds.
const blockedPatience = 4 * time.Second

// BlockedError says that the broker accepts no messages because memory or disk
// is short on one of its nodes.
type BlockedError struct {
	// Reason is the broker's own, such as "low on memory".
	Reason string
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("RabbitMQ blocks publishers: %s; clear the alarm (rabbitmq-diagnostics alarms), then run this again", e.Reason)
}

// blocking follows connection.blocked and connection.unblocked. RabbitMQ sends
// the first when a connection publishes during an alarm, and then reads nothing
// from it: neither publishes nor requests (rabbit_reader:control_throttle/1, 3.10
// to 4.3).
type blocking struct {
	mu    sync.Mutex
	timer *time.Timer
	// told is closed when the connection is blocked for too long; err says why.
	told chan struct{}
	err  error
}

func watchBlocking(connection *amqp.Connection) *blocking {
	b := &blocking{told: make(chan struct{})}
	go b.follow(connection.NotifyBlocked(make(chan amqp.Blocking, 1)))
	return b
}

// follow returns when the connection ends.
func (b *blocking) follow(notices <-chan amqp.Blocking) {
	for n := range notices {
		b.mu.Lock()
		switch {
		case b.timer != nil && !n.Active:
			b.timer.Stop()
			b.timer = nil
		case b.timer == nil && n.Active:
			b.timer = time.AfterFunc(blockedPatience, func() { b.tell(&BlockedError{Reason: n.Reason}) })
		}
		b.mu.Unlock()
	}
}

func (b *blocking) tell(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		close(b.told)
	}
}

// unlessBlocked returns a context that ends with a [BlockedError] when the
// broker blocks publishers. Everything that publishes waits with it.
func (s *Session) unlessBlocked(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.blocking.told:
			cancel(s.blocking.err)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
