package retry

import (
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// What settings of queues do to dead letters. All of it was seen on 3.10.8,
// 4.0.5 and 4.3.6. The texts are sentences without their end.
const (
	// HarmOfFallback is what any other overflow behaviour than reject-publish
	// does to a queue that is to dead-letter at least once.
	HarmOfFallback = "RabbitMQ falls back to at-most-once dead-lettering and deletes the messages that are being moved"
	// HarmOfRefusal is what reject-publish does to the dead letters that come to
	// a classic queue with a length limit.
	HarmOfRefusal = "when this classic queue is full it refuses the messages that come back from a tier, and they are lost"
)

// HarmOfExpires says what a time in milliseconds does after which an unused
// queue is deleted.
func HarmOfExpires(n int64) string {
	return fmt.Sprintf("a queue that nobody uses for %s is deleted with all its messages", milli(n))
}

// HarmOfDeliveryLimit says what a delivery limit does to a queue without a
// dead-letter exchange that keeps messages until somebody takes them.
func HarmOfDeliveryLimit(n int64) string {
	return fmt.Sprintf("a message that was looked at and put back more than %d times is deleted", n)
}

// HarmToStore says what a key of a policy does to a queue without a dead-letter
// exchange that keeps messages until somebody takes them, or returns "".
func HarmToStore(key string, n int64) string {
	switch key {
	case topology.KeyMessageTTL:
		return fmt.Sprintf("its messages are deleted after %s", milli(n))
	case topology.KeyMaxLength, topology.KeyMaxLengthBytes:
		return "messages over the limit are deleted, or the ones before them"
	default:
		return ""
	}
}

// HarmToTier says what a key of a policy does to a queue in which messages are
// to wait for the delay, or returns "".
func HarmToTier(key string, n int64, delay time.Duration) string {
	switch {
	case key == topology.KeyMessageTTL && n < delay.Milliseconds():
		return fmt.Sprintf("messages wait %s there and not %s", milli(n), FormatDuration(delay))
	case key == topology.KeyMaxLength, key == topology.KeyMaxLengthBytes:
		return "messages over the limit are lost, come back too early, or hold up the whole chain"
	default:
		return ""
	}
}

// milli writes a number of milliseconds as a duration.
func milli(n int64) string {
	if n < 0 || n > MaxDelay.Milliseconds() {
		return fmt.Sprintf("%d ms", n)
	}
	return FormatDuration(time.Duration(n) * time.Millisecond)
}
