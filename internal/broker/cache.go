package broker

import (
	"context"
	"sync"
)

// cache keeps one value per key. A value is loaded when it is first asked for,
// once for all who ask meanwhile, and kept when that succeeded.
type cache[T any] struct {
	mu      sync.Mutex
	entries map[string]*cacheEntry[T]
}

type cacheEntry[T any] struct {
	// value is there from the start; load fills it.
	value   *T
	done    chan struct{}
	err     error
	waiting int
	cancel  context.CancelFunc
}

// get returns the value of the key and loads it if need be. The load goes on
// while anybody waits for it, whoever started it.
func (c *cache[T]) get(ctx context.Context, key string, load func(context.Context, *T) error) (*T, error) {
	e := c.enter(ctx, key, load)
	select {
	case <-e.done:
		c.leave(e)
		return e.value, e.err
	case <-ctx.Done():
		c.leave(e)
		return nil, context.Cause(ctx)
	}
}

func (c *cache[T]) enter(ctx context.Context, key string, load func(context.Context, *T) error) *cacheEntry[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		var loading context.Context
		e = &cacheEntry[T]{value: new(T), done: make(chan struct{})}
		loading, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if c.entries == nil {
			c.entries = map[string]*cacheEntry[T]{}
		}
		c.entries[key] = e
		go func() {
			defer e.cancel()
			e.err = load(loading, e.value)
			if e.err != nil {
				c.remove(key, e)
			}
			close(e.done)
		}()
	}
	e.waiting++
	return e
}

// leave ends one's wait; the last to leave ends a load under way.
func (c *cache[T]) leave(e *cacheEntry[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.waiting--
	if e.waiting > 0 {
		return
	}
	select {
	case <-e.done:
	default:
		e.cancel()
		for key, other := range c.entries {
			if other == e {
				delete(c.entries, key)
			}
		}
	}
}

// peek returns the value of the key, or nil when it is neither loaded nor
// being loaded.
func (c *cache[T]) peek(key string) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		return e.value
	}
	return nil
}

// forget makes the next get load again.
func (c *cache[T]) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// forgetValue is forget while the key still has this value.
func (c *cache[T]) forgetValue(key string, value *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok && e.value == value {
		delete(c.entries, key)
	}
}

func (c *cache[T]) remove(key string, e *cacheEntry[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] == e {
		delete(c.entries, key)
	}
}
