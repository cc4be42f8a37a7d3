package messages

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// giveBack ends the readers and waits until the queue has what they kept.
func (p *Pass) giveBack(ctx context.Context) error {
	defer p.session.endWith(ctx)()
	p.session.socket.release()
	readers := p.readers
	p.readers = nil
	if len(readers) == 0 {
		return nil
	}
	if err := p.stop(readers[0], readers[len(readers)-1]); err != nil {
		return p.closing(ctx, err)
	}
	// The broker answers before it gives back, and so what two channels hold
	// would be mixed if both were closed at once.
	kept := 0
	for i, r := range readers {
		kept += r.unsettled
		if i+1 < len(readers) && readers[i+1].line == r.line {
			continue
		}
		if err := r.channel.Close(); err != nil {
			return p.closing(ctx, err)
		}
		if err := p.returned(ctx, kept); err != nil {
			return err
		}
	}
	return nil
}

// stop makes the last reader get nothing of what the first channel gives back.
func (p *Pass) stop(first, last *reader) error {
	if last.deliveries == nil {
		return nil
	}
	go forget(last.deliveries)
	if p.asking {
		<-p.answers
		p.asking = false
	}
	if first.line == last.line {
		return nil
	}
	return last.channel.Cancel(last.tag, false)
}

// forget drops what is still under way: it goes back to the queue.
func forget(deliveries <-chan amqp.Delivery) {
	for range deliveries {
		continue
	}
}

// returned waits until at least kept messages are ready, or their number does
// not grow: they may expire, and other consumers take them.
func (p *Pass) returned(ctx context.Context, kept int) error {
	if p.shared {
		return nil
	}
	most, since := -1, time.Now()
	for time.Since(since) < returnPatience {
		depths := map[string]Depth{}
		if err := p.session.look(ctx, []string{p.queue}, depths); err != nil {
			return p.closing(ctx, err)
		}
		depth, exists := depths[p.queue]
		if !exists || depth.Ready >= kept {
			return nil
		}
		if depth.Ready > most {
			most, since = depth.Ready, time.Now()
		}
		select {
		case <-time.After(returnPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
